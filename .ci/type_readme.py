"""Type README's examples, with an installed skcalib: python type_readme.py README.md.

The python blocks run in order, and so do the lines that begin with `skcalib`; a `text` block is
what the block before it prints. Run it in an empty directory, which it writes to.
"""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

page = Path(sys.argv[1]).read_text(encoding="utf-8")
namespace, printed = {"__name__": "__main__"}, None
for language, source in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
    if language == "python":
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(source, "README.md", "exec"), namespace)
        printed = out.getvalue()
    elif language == "text" and printed != source:
        raise SystemExit(f"README shows\n{source}and prints\n{printed}")
    elif not language:
        for line in re.findall(r"^skcalib .*", source, re.MULTILINE):
            subprocess.run([sys.executable, "-m", *line.split()], check=True)
    sys.stderr.write(source)

import skcalib  # noqa: E402

where = Path(skcalib.__file__).parents[1]
if where.name != "site-packages":
    raise SystemExit(f"skcalib is not installed: it was imported from {where}")
