"""Write the record of numbers and of signatures anew: after a change that is meant to move some.

    python tests/record/write.py

Look at the difference before it is kept: each line that moves is a number that users get.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recorded import everything, made_with, rounded, signatures

RECORD = Path(__file__).parent / "values.json"
SIGNATURES = Path(__file__).parent / "signatures.txt"


def write_record():
    values = {name: rounded(value()) for name, value in everything().items()}
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items()]
    made = json.dumps(made_with())
    body = ",\n".join(lines)
    RECORD.write_text(f'{{\n "made_with": {made},\n "values": {{\n{body}\n }}\n}}\n')
    sys.stdout.write(f"wrote {len(values)} records to {RECORD}\n")


if __name__ == "__main__":
    SIGNATURES.write_text("\n".join(signatures()) + "\n")
    write_record()
