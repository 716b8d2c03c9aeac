"""What a fitted calibrator does, in a sentence behind its parameters and below its diagram."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class ShownFit:
    """Mixin, left of ``BaseEstimator``: shows ``_in_words()`` of an estimator once it is fitted.

    In ``repr`` it is a comment, so that the text still reads as code, and in HTML a paragraph below
    the diagram. Within a pipeline scikit-learn prints the parameters alone.
    """

    # What was fitted, in one short line.
    _in_words: Callable[[], str]

    def _sentence(self) -> str:
        return self._in_words() if hasattr(self, "classes_") else ""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]  # of BaseEstimator
        sentence = self._sentence()
        return f"{parameters}  # {sentence}" if sentence else parameters

    @property
    def _repr_html_(self) -> Callable[[], str]:
        inner = super()._repr_html_  # type: ignore[misc]  # no such attribute without diagrams
        return lambda: inner() + self._paragraph()

    def _repr_mimebundle_(self, **keywords: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**keywords)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._paragraph()
        return bundle

    def _paragraph(self) -> str:
        sentence = self._sentence()
        return f"<p>{escape(sentence)}</p>" if sentence else ""


def span(values: ArrayLike) -> str:
    """Write the smallest and the largest number, or one of them if they look the same."""
    ends = np.min(values), np.max(values)
    if isinstance(ends[0], np.integer):
        low, high = (f"{end:,}" for end in ends)
    else:  # without what is rounding error
        low, high = (f"{np.round(end, 6) + 0.0:.3g}" for end in ends)
    return low if low == high else f"{low} to {high}"


def counted(n: int, what: str) -> str:
    """Write a number of things."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def levels(values: list[Any]) -> str:
    """Say how many different values each of several maps gives."""
    return f"{span([np.unique(each).size for each in values])} levels"


def softness(temperature: float) -> str:
    """Say what a temperature does."""
    T = f"{temperature:.3g}"
    effect = "unchanged" if float(T) == 1 else "softer" if temperature > 1 else "sharper"
    return f"T = {T}: {effect}"
