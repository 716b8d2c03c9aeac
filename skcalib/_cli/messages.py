"""Errors of the library, said in the words of a file and of the command line."""

from __future__ import annotations

import re
from pathlib import Path

LOGITS_OR_NOT = (
    "--input logits if these are logits; if they are probabilities, is a column missing?"
)
# What the library says, and what it is called by someone who typed a command; in this order.
WORDS = (
    (r"\bX has (\d+) features, but \w+ is expecting (\d+) features as input", r"there are \1 "
     r"columns of scores, but the calibrator was fitted on \2"),
    (r"\b(?:test )?(?:X|y_proba) contains\b", "the scores contain"),
    (r"\b(?:test )?(?:X|y_proba)(?=:| has)", "scores"),
    (r"\b(?:y|y_true) has (\d+ distinct labels)", r"there are \1"),
    (r"\b(?:y|y_true) has the labels", "the labels are"),
    (r"\b(?:X|y_proba) is one column", "there is one column of scores"),
    (r"pass pos_label= with the label that it is the probability of, such as pos_label='?(.*?)'?\.",
     r"name the label that it is the score of, such as --pos-label \1"),
    (r"\bpos_label=", "--pos-label "),
    (r"\b(?:test )?(?:y|y_true) (contain|mixe?)s\b", r"the labels \1"),
    (r"Pass input='proba' after repairing rows that are off by more than 0.01, or input='logits'",
     "Pass --input proba after repairing rows that are off by more than 0.01, or --input logits"),
    (r"Divide each row by its sum if these are percentages or counts; pass input='logits'.*",
     "Divide each row by its sum if these are percentages or counts; pass --input logits if these "
     "are logits"),
    (r"\b(?:test )?(?:y|y_true)(?=:| has| should)", "labels"),
    (r"\b([Pp])ass input='logits' if these are logits;.*", rf"\1ass {LOGITS_OR_NOT}"),
    (r"pass probabilities whose rows sum to 1, or input='logits'", "probabilities sum to 1 in each "
     "row; if these are logits, call them 'logits' or pass --input logits"),
    (r",? but input='proba' was given", ", where probabilities are expected"),
    (r"\binput='(\w+)'", r"--input \1"),
    (r"fitted on (\w+) \(input_='\w+'\)", r"fitted on \1"),
    (r"is not in classes=(\[.*\]);.*", r"is not among the columns, \1"),
    (r"\bn_resamples\b", "--resamples"),
    (r"\brandom_state\b", "--seed"),
    (r"^cv=(\d+) but (.*?): .*", r"--cv \1 but \2: choose fewer, or write a split"),
    (r": pass a dict that names each", ": name it once"),
    (r", as to_dict and save_json write it", ": compare --save writes one"),
    (r"Error tokenizing data. C error: ", ""),
    (r"No columns to parse from file", "the file is empty"),
    (r"'utf-8' codec can't decode.*", "not text in UTF-8: save the table as UTF-8"),
    (r", a scorer of scikit-learn, or a function metric\(y_true, y_proba\)", ""),
    (r", or pass the object", ""),
)  # fmt: skip


def in_file_words(message: str, path: str, labels: str | None = None) -> str:
    """Say an error of the library to someone who has a file and a command line.

    Parameters
    ----------
    message : str
        What the library says.
    path : str
        The file of predictions; its ending decides how columns get names.
    labels : str, default=None
        The array or column of labels, if it is not called "labels".

    Returns
    -------
    said : str
        The same, with columns, arrays and options in the place of arguments.
    """
    if Path(path).suffix.lower() == ".npz":
        named = r"save the \1 labels of the columns as an array 'classes'"
    else:
        named = r"name the \1 columns by the labels, such as cat and dog, or p_cat and p_dog"
    for said, meant in ((r"pass classes= with the (\d+) labels of the columns", named), *WORDS):
        message = re.sub(said, meant, message)
    if labels is None:
        return message
    return re.sub(r"^(?:the )?labels(?=:| )", f"the labels {labels!r}", message)
