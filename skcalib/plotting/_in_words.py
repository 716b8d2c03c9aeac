"""Displays that say in a line what they show, for ``print`` and the terminal."""

from __future__ import annotations


class InWords:
    """Mixin: ``repr`` is the class, the name of the model, and ``_in_words()``."""

    def _in_words(self) -> str:
        """Return what is shown, in one short line."""
        raise NotImplementedError

    def __repr__(self) -> str:
        name = getattr(self, "name", None)
        model = f"{name}: " if name else ""
        return f"<{type(self).__name__} {model}{self._in_words()}>"
