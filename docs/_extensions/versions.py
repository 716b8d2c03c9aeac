"""The menu of versions: `latest`, and every version to which the changelog gives a date.

Read the Docs builds a version at ``.../latest/`` from main, and one at ``.../vX.Y.Z/`` from each
tag. The pages of all versions read the list of `latest`, which has the newer ones too.
"""

import re
from pathlib import Path

LIST = "_static/versions.json"


def root(address: str) -> str:
    """Return where the versions lie, from the address of one of them."""
    return address.rstrip("/").rpartition("/")[0]


def current(address: str, version: str) -> str:
    """Return which of the menu's versions lies at an address."""
    return "latest" if address.rstrip("/").endswith("/latest") else f"v{version}"


def menu(address: str, changelog: Path) -> list[dict[str, str]]:
    """Return name and address of each version, newest first."""
    dated = re.findall(r"^## \[(.+)\] - \d{4}-\d\d-\d\d$", changelog.read_text(), re.MULTILINE)
    names = ["latest", *(f"v{number}" for number in dated)]
    return [{"version": name, "url": f"{root(address)}/{name}/"} for name in names]
