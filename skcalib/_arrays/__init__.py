"""Where numbers lie, and how they are passed over: blocks of rows and columns, threads."""
