"""Time and memory of skcalib, of its peers, and of an earlier revision: `README.md`."""
