"""Titles of papers lead to them, by DOI or arXiv; so does ``arXiv:`` with a number."""

import re
from typing import Any

from docutils import nodes

ARXIV = {
    "On calibration of modern neural networks": "1706.04599",
    "Beyond temperature scaling": "1910.12656",
    "Calibration of neural networks using splines": "2006.12800",
    "Deep anomaly detection with outlier exposure": "1812.04606",
    "Evaluating model calibration in classification": "1902.06977",
    "Improving model calibration with accuracy versus uncertainty optimization": "2012.07923",
    "Large-scale probabilistic predictors with and without guarantees of validity": "1511.00213",
    "Mitigating bias in calibration error estimation": "2012.08668",
    "Mix-n-Match": "2003.07329",
    (
        "Posterior calibration and exploratory analysis for natural language processing models"
    ): "1508.05154",
    "Soft calibration objectives for neural networks": "2108.00106",
    "Venn-Abers predictors": "1211.0025",
    "Verified uncertainty calibration": "1909.10155",
}
DOI = {
    (
        "A guide to systematic review and meta-analysis of prediction model performance"
    ): "10.1136/bmj.i6460",
    "Bayesian interpolation": "10.1162/neco.1992.4.3.415",
    "Better bootstrap confidence intervals": "10.1080/01621459.1987.10478410",
    "Calibration: the Achilles heel of predictive analytics": "10.1186/s12916-019-1466-7",
    "Graphical assessment of internal and external calibration": "10.1002/sim.5941",
    (
        "Novel decompositions of proper scoring rules for classification"
    ): "10.1007/978-3-319-23528-8_5",
    "Predicting good probabilities with supervised learning": "10.1145/1102351.1102430",
    "Sequential Monte Carlo p-values": "10.1093/biomet/78.2.301",
    "Smoothing noisy data with spline functions": "10.1007/BF01404567",
    "Stable reliability diagrams for probabilistic classifiers": "10.1073/pnas.2016191118",
    "The comparison and evaluation of forecasters": "10.2307/2987588",
    "The Integrated Calibration Index (ICI) and related metrics": "10.1002/sim.8281",
    "The index of prediction accuracy": "10.1186/s41512-018-0029-2",
    (
        "Transforming classifier scores into accurate multiclass probability estimates"
    ): "10.1145/775047.775151",
    "Two further applications of a model for binary regression": "10.1093/biomet/45.3-4.562",
}
ADDRESSES = {
    **{title.lower(): f"https://arxiv.org/abs/{number}" for title, number in ARXIV.items()},
    **{title.lower(): f"https://doi.org/{number}" for title, number in DOI.items()},
}
TITLES = sorted(ADDRESSES, key=len, reverse=True)
PAPER = re.compile(
    "(" + "|".join(r"\s+".join(map(re.escape, title.split())) for title in TITLES) + ")"
    r"|arXiv:(\d{4}\.\d{4,5}(?:v\d+)?)",
    re.IGNORECASE,
)
KEPT = (nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.math)


def inside(node: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether a node has an ancestor of these kinds."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def link_papers(app: Any, doctree: Any) -> None:
    """Make a link of each title and number."""
    for text in list(doctree.findall(nodes.Text)):
        found = list(PAPER.finditer(text))
        if not found or inside(text, KEPT):
            continue
        parts: list[Any] = []
        end = 0
        for match in found:
            title, number = match.groups()
            address = (
                ADDRESSES[" ".join(title.lower().split())]
                if title
                else f"https://arxiv.org/abs/{number}"
            )
            parts += [
                nodes.Text(text[end : match.start()]),
                nodes.reference("", match[0], refuri=address),
            ]
            end = match.end()
        parent = text.parent
        parent.replace(text, [*parts, nodes.Text(text[end:])])


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    app.connect("doctree-read", link_papers)
    return {"parallel_read_safe": True}
