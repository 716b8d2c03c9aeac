"""Run a command and return what it prints; scores to save."""

import numpy as np
import samples

from skcalib.__main__ import main
from skcalib._cli.arguments import make_parser
from skcalib._cli.files import read


def scores(n=300, n_classes=3, seed=0):
    """Labels and logits twice too large."""
    return samples.scores(n, n_classes, seed=seed)


def softmax(Z):
    e = np.exp(Z - Z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def contents(path, *options):
    """What is read from a file."""
    return read(make_parser().parse_args(["measure", path, *options]))


def run(capsys, *arguments):
    """Run a command that works and return what it prints."""
    assert main([str(a) for a in arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def fails(capsys, *arguments):
    """Run a command that fails and return the only line it prints."""
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    return err
