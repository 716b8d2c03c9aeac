"""The benchmarks are not installed: they are imported from here."""

import sys
from pathlib import Path

# Last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))
