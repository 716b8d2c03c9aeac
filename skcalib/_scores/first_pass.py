"""The first pass over remote scores: their survey and, of probabilities, the smallest one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import NamedTuple

from skcalib._arrays.passes import LIGHT, merge_rows
from skcalib._arrays.source import Source
from skcalib._arrays.types import FloatArray
from skcalib._scores.clip import Smallest, smallest_of_block
from skcalib._validation.scores import Survey, merge_surveys, sum_tolerance, survey_block


class FirstPass(NamedTuple):
    """The survey, and the smallest probabilities of blocks.

    The latter are None if a row is not a probability vector or has to be corrected first.
    """

    survey: Survey
    smallest: list[Smallest] | None


def first_pass(S: Source, input: str) -> FirstPass:
    """Read remote scores once."""
    kernel = partial(first_of_block, tolerance=sum_tolerance(input))
    rows = range(S.shape[0])
    return FirstPass(*merge_rows(kernel, S, rows, merge=_merged, work=LIGHT, nested=True))


def first_of_block(block: FloatArray, rows: range, tolerance: float) -> FirstPass:
    """Survey a block and, if it may be used as it is, find its smallest probability."""
    survey = survey_block(block, rows, tolerance=tolerance)
    usable = survey.is_simplex and not survey.is_rounded
    return FirstPass(survey, [smallest_of_block(block)] if usable else None)


def _merged(parts: Iterable[FirstPass]) -> FirstPass:
    surveys, smallest = zip(*parts, strict=True)
    usable = all(each is not None for each in smallest)
    return FirstPass(merge_surveys(surveys), list(chain(*smallest)) if usable else None)
