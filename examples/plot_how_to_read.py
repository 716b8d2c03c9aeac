"""
How to read a reliability diagram
=================================

A random forest recognises handwritten digits. A reliability diagram compares the confidence of the
forest, which is its largest probability, with its accuracy.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skcalib import ReliabilityDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
forest = RandomForestClassifier(random_state=0).fit(X_train, y_train)
display = ReliabilityDisplay.from_estimator(forest, X_test, y_test, name="forest")
table = display.table[display.table["weight"] > 0]
print(table[["weight", "confidence", "accuracy"]].round(2))

points = table[["confidence", "accuracy"]].to_numpy()
first, one, middle = points[0], points[1], points[4]
notes = {
    f"mean confidence {one[0]:.0%},\nright in {one[1]:.0%} of its rows": (one, (0, 0.93)),
    "95% interval": (first - [0, 0.2], (0, 0.4)),
    "gap: the mean gap\nis the ECE": ((middle[0], 0.8), (0.72, 0.5)),
    "points of a calibrated\nmodel are in the shade": (middle[[0, 0]] - [0, 0.06], (0.56, 0.34)),
}
for text, (place, at) in notes.items():
    arrow = {"arrowstyle": "->", "color": "0.5"}
    display.ax_.annotate(text, place, at, arrowprops=arrow, fontsize="small")

# %%
# * Each point is a bin: x is its mean confidence, y its accuracy.
# * Above the dotted line, accuracy is higher than confidence: the model is under-confident. Below
#   the line, the model is over-confident. The star is the mean of all rows.
# * Points of bins with few rows are faint, and no line leads to them. The histogram shows how many
#   rows have each confidence. A gap is important where there are many rows.
#
# Conclusion: this forest is under-confident at every confidence.
plt.show()
