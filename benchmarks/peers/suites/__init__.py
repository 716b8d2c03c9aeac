"""Tests of scikit-learn, as they are installed, run on the classes of skcalib."""
