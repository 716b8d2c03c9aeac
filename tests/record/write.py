"""Write the record of numbers and of signatures anew: after a change that is meant to move some.

    python tests/record/write.py

`python tests/write.py` adds what has no record, and moves nothing.

Look at the difference before you commit it: each line that moves is a number that users get.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recorded import everything, made_with, rounded, signatures

RECORD = Path(__file__).parent / "values.json"
SIGNATURES = Path(__file__).parent / "signatures.txt"


def write_record(values, made):
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items()]
    body = ",\n".join(lines)
    RECORD.write_text(f'{{\n "made_with": {json.dumps(made)},\n "values": {{\n{body}\n }}\n}}\n')


def write_missing():
    """Add the numbers and signatures that have no record, and remove those that are gone."""
    record, functions = json.loads(RECORD.read_text()), everything()
    kept = record["values"]
    if set(functions) != set(kept):
        values = {
            name: kept[name] if name in kept else rounded(value())
            for name, value in functions.items()
        }
        write_record(values, record["made_with"])
        sys.stdout.write(f"wrote {len(set(values) - set(kept))} new records\n")
    lines = {line.split("(")[0]: line for line in SIGNATURES.read_text().splitlines()}
    names = [(line.split("(")[0], line) for line in signatures()]
    if {name for name, _ in names} != set(lines):
        SIGNATURES.write_text("".join(f"{lines.get(name, line)}\n" for name, line in names))
        sys.stdout.write(f"wrote {SIGNATURES.name}\n")


def write_all():
    SIGNATURES.write_text("\n".join(signatures()) + "\n")
    values = {name: rounded(value()) for name, value in everything().items()}
    write_record(values, made_with())
    sys.stdout.write(f"wrote {len(values)} records to {RECORD}\n")


if __name__ == "__main__":
    write_all()
