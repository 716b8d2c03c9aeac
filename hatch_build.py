"""README on the package index: its links, which are relative to the repository, in full."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ADDRESS = re.compile(r'(\]\(|src=")(?![a-z]+:|#)')


class ReadmeHook(MetadataHookInterface):
    """Set `readme`; the address of the repository is that of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the address before each relative link and picture."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        where = {"](": f"]({repository}/blob/HEAD/", 'src="': f'src="{repository}/raw/HEAD/'}
        text = ADDRESS.sub(lambda found: where[found[1]], text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
