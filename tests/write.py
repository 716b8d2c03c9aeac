"""Write what follows from the code after a calibrator, a metric or an option is added.

    python tests/write.py

These are rows of pages of docs/, and the records, signatures and stored files that are missing. No
number, signature or stored file that is there is changed.
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "record")]

from listing import write_pages  # noqa: E402

if __name__ == "__main__":
    for page in write_pages():
        sys.stdout.write(f"wrote {page}\n")
    for folder in ("storage/stored", "record"):
        runpy.run_path(str(HERE / folder / "write.py"))["write_missing"]()
