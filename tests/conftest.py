"""One thread a process: the arrays are small, and two workers on two cores would only get in each
other's way.
"""

import os

# Read once, when the numerical libraries are first imported: after this file.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
