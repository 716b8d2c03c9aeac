"""The command-line interface: the commands of ``skcalib``."""
