"""Frames of any library, as frames of pandas or polars."""

from __future__ import annotations

from typing import Any

# Libraries, besides pandas and polars, whose frames are read.
LIBRARIES = ("pyarrow", "duckdb", "modin", "cudf", "narwhals")


def read_frame(X: Any, name: str = "X") -> Any:
    """Return a frame of pyarrow, duckdb or modin as one of pandas, and all else as it came."""
    if type(X).__module__.partition(".")[0] not in LIBRARIES:
        return X
    try:
        import narwhals  # late, and not required: scikit-learn 1.9 brings it
    except ImportError as error:
        raise ImportError(
            f"{name} is a {type(X).__module__}.{type(X).__name__}, which narwhals reads: pip "
            "install narwhals, or pass a frame of pandas or polars."
        ) from error
    frame = narwhals.from_native(X, pass_through=True)
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    return frame.to_pandas() if isinstance(frame, narwhals.DataFrame) else X
