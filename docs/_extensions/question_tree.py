"""The tree of questions on the start page: an SVG whose branches end in the line to type.

On the site, the drawing is part of the page, so that its links work and its colours are those of
the theme. ``python docs/_extensions/question_tree.py`` writes the image that a repository's view of
the page shows.
"""

from html import escape
from pathlib import Path
from typing import Any

COPY = "pictures/tree.svg"
# Depth; a question or an answer; for an answer without a further question: page, lines to type.
TREE = [
    (0, "Do you want to use Python?", "", ""),
    (0, "no, I want to look at a file in the browser", "try", "the page Try it"),
    (0, "no, I want to type commands", "command_line", "skcalib measure FILE"),
    (0, "yes", "", ""),
    (1, "What do you have?", "", ""),
    (1, "a scikit-learn classifier", "", ""),
    (2, "Is the classifier fitted?", "", ""),
    (2, "no", "fitting", "CalibratedClassifier(model).fit(X, y)"),
    (
        2,
        "yes",
        "fitting",
        "frozen = FrozenEstimator(model)\nCalibratedClassifier(frozen).fit(X_cal, y_cal)",
    ),
    (1, "logits or probabilities, and labels", "", ""),
    (2, "What do you want to do?", "", ""),
    (2, "correct the probabilities", "choosing", "AutoCalibrator().fit(Z, y)"),
    (
        2,
        "test whether they can be trusted",
        "getting_started",
        "calibration_interval(\n    expected_calibration_error, y, P)",
    ),
    (
        2,
        "act on the confident predictions",
        "acting",
        "SelectiveClassifier(\n    AutoCalibrator(), accuracy=0.95).fit(Z, y)",
    ),
]
WIDTH, INDENT, LINE = 430, 20, 19
# Outside the site, the colours can be read on white and on black.
STYLE = """<style>
.tree text { font: 14px system-ui, sans-serif; fill: var(--pst-color-text-base, #768390); }
.tree .question { font-weight: 600; }
.tree .code { font: 12.5px ui-monospace, monospace; }
.tree a .code { fill: var(--pst-color-link, #2f81b7); }
.tree path { fill: none; stroke: var(--pst-color-text-muted, #768390); }
</style>"""


def draw() -> str:
    """Return the tree as an SVG."""
    shapes, y = [STYLE], 0
    branch: dict[int, int] = {}  # where the line from a question has got to, for each depth
    for depth, text, page, lines in TREE:
        left = INDENT * depth
        if text.endswith("?"):
            y += LINE + 6
            branch[depth] = y + 6
            shapes.append(f'<text class="question" x="{left}" y="{y}">{text}</text>')
            continue
        y += LINE + 4
        shapes.append(f'<path d="M{left + 6} {branch[depth]}V{y - 5}h9"/>')
        branch[depth] = y - 5
        shapes.append(f'<text x="{left + INDENT}" y="{y}">{text}</text>')
        if page:
            code = ""
            for line in lines.split("\n"):
                y += LINE
                x = left + INDENT + 8 * (len(line) - len(line.lstrip()))
                code += f'<text class="code" x="{x}" y="{y}">{escape(line.lstrip())}</text>'
            shapes.append(f'<a href="{page}.html">{code}</a>')
    shapes.append("</svg>")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tree" viewBox="0 0 {WIDTH} {y + 8}" '
        f'width="{WIDTH}" role="group" aria-label="Which line to type, by four questions">'
        + "\n".join(shapes)
    )


def add_tree(app: Any, docname: str, source: list[str]) -> None:
    """Put the drawing in place of its image."""
    if docname == "index":
        before, _, after = source[0].partition("![Which line to type")
        source[0] = f"{before}{draw()}\n{after.partition(')')[2]}"


def setup(app: Any) -> dict[str, bool]:
    """Connect the hook."""
    app.connect("source-read", add_tree, priority=300)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    (Path(__file__).parents[1] / COPY).write_text(draw() + "\n", encoding="utf-8")
