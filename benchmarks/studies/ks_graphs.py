"""KS graphs of the top label, before and after the spline (Gupta 2021, Figures 1 and 2).

The paper's claim: cumulative score and cumulative accuracy, which part where a network is
over-confident (DenseNet-40 on CIFAR-10: a KS error of 5.5 %), lie on each other after the spline
on the rows it was fitted to, and nearly so on others (0.7 %), and the accuracy is unchanged.

``python -m benchmarks.studies.ks_graphs [PATH.npz]`` prints the KS error, accuracy and mean score
of the top label on both parts before and after. The figure has the paper's four graphs for each:
cumulative score and accuracy against percentile, both against cumulative score, and score and
accuracy (a spline's derivative, as in the paper's section 4) against percentile and score.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchmarks.studies._arguments import study_parser
from benchmarks.studies._data import load_scores
from skcalib import IdentityCalibrator, KSDisplay, SplineCalibrator
from skcalib.metrics import binary_view, ks_calibration_error


def main(argv: Sequence[str] | None = None) -> pd.DataFrame:
    """Print the table and return it."""
    parser = study_parser(__doc__)
    parser.add_argument("--knots", type=int, default=6)
    args = parser.parse_args(argv)

    scores = load_scores(args.npz)
    identity = IdentityCalibrator(input="logits", classes=scores.classes)
    identity.fit(scores.fit_logits, scores.fit_labels)
    parts = {
        part: binary_view(y, identity.predict_proba(Z), labels=scores.classes)
        for part, Z, y in (
            ("calibration", scores.fit_logits, scores.fit_labels),
            ("test", scores.test_logits, scores.test_labels),
        )
    }
    spline = SplineCalibrator(mode="classwise", n_knots=args.knots, input="proba")
    spline.fit(*parts["calibration"])
    graphs = {f"{part}, before": view for part, view in parts.items()}
    for part, (score, hit) in parts.items():
        graphs[f"{part}, after"] = (spline.predict_proba(score)[:, 1], hit)
    table = pd.DataFrame(
        {
            name: {
                "KS": ks_calibration_error(hit, score, mode="classwise", average=None)[1],
                "accuracy": hit.mean(),
                "mean score": score.mean(),
            }
            for name, (score, hit) in graphs.items()
        }
    ).T
    print(table.to_string(float_format="{:.4f}".format))

    if args.figure:
        from matplotlib.figure import Figure

        shown = ("test, before", "calibration, after", "test, after")
        figure = Figure(figsize=(14, 10), layout="constrained")
        for row, name in zip(figure.subplots(len(shown), 4), shown, strict=True):
            score, hit = graphs[name]
            KSDisplay.from_predictions(
                hit, score, pos_label=True, n_knots=args.knots, name=name, ax=row
            )
        figure.savefig(args.figure, dpi=120)
    return table


if __name__ == "__main__":
    main()
