"""JSON output: docs/command_line.md has a row for each name, with its commands and its type."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from listing import ROOT
from running import scores
from sklearn.frozen import FrozenEstimator

from skcalib import SelectiveClassifier, TemperatureScaling, save_json
from skcalib.__main__ import main
from skcalib._cli.measured import SCHEMA

COMMANDS = ["measure", "compare", "threshold", "plan", "monitor", "apply"]
TYPES = {
    "text": (str,),
    "whole number": (int,),
    "number": (int, float),
    "true": (),
    "false": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "texts": (list,),
    "label": (str, int, float, bool),
}


def schema(command):
    """The types of each name of a command, from the page."""
    text = (ROOT / "docs" / "command_line.md").read_text().split("<!-- schema -->")[1]
    found = {}
    for row in re.findall(r"^\| (`.*) \| (.*) \| (.*) \|$", text, re.MULTILINE):
        if command in row[1].split(", ") or row[1] == "all":
            words = row[2].partition(":")[0].split(" or ")
            kinds = sum((TYPES[word] for word in words), ())
            found |= dict.fromkeys(re.findall(r"`([^`]*)`", row[0]), kinds)
    return found


def entries(value, path, free):
    """Yield (path, value) of all entries; objects whose path is `free` have any names."""
    if isinstance(value, dict) and path not in free:
        for name, inner in value.items():
            yield from entries(inner, f"{path}.{name}" if path else name, free)
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for inner in value:
            yield from entries(inner, f"{path}[]", free)
    else:
        yield path, value


def outputs(capsys, command):
    """The JSON of a command for several files and options."""
    y, Z = scores(240)
    names = np.array(["cat", "dog", "owl"])
    site = np.where(np.arange(240) % 2, "a", "b")
    frame = pd.DataFrame(Z, columns=names).assign(labels=names[y], site=site)
    frame.to_csv("p.csv", index=False)
    frame.assign(weights=1 + np.arange(240) % 2).to_csv("w.csv", index=False)
    one = pd.DataFrame({"p": 1 / (1 + np.exp(Z[:, 0])), "labels": (y > 0) * 1, "site": site})
    one.assign(split=np.arange(240) % 2).to_csv("one.csv", index=False)
    tags = (names[y][:, None] == names[:2]).astype(int)
    tags = pd.DataFrame(tags, columns=names[:2])
    tags.assign(prob_cat=one["p"], prob_dog=0.3).to_csv("tags.csv", index=False)
    calibrator = TemperatureScaling().fit(Z, names[y])
    save_json(calibrator, "c.json")

    save_json(
        SelectiveClassifier(FrozenEstimator(calibrator), accuracy=0.6).fit(Z, names[y]), "gate.json"
    )
    few = ["--calibrators", "temperature", "--metrics", "log_loss", "static_calibration_error"]
    by_site = ["--groups", "site"]
    runs = {
        "measure": [["p.csv", *by_site], ["one.csv", *by_site], ["p.csv"],
                    ["tags.csv", "--multilabel"]],
        "compare": [["p.csv", *few], ["w.csv", *few], ["one.csv", *few]],
        "threshold": [["p.csv", *by_site], ["one.csv", "--accuracy", "0.9999"], ["w.csv"],
                      ["p.csv", "--calibrator", "temperature", "--accuracy", "0.7"]],
        "plan": [["one.csv", "--width", "0.3", "--metric", "oe"], ["p.csv", "--calibrate"]],
        "monitor": [["p.csv", "--state", "s.json"], ["one.csv", "--state", "t.json", *by_site]],
        "apply": [["c.json", "p.csv", "-o", "q.csv", *options] for options in (
            [], ["--priors", "estimate"], ["--priors", "cat=0.2", "dog=0.3"])]
        + [["gate.json", "p.csv", "-o", "q.csv"]],
    }  # fmt: skip
    for arguments in runs[command]:
        assert main([command, *arguments, "--format", "json"]) in (0, 1)
        yield json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("few_errors")
@pytest.mark.parametrize("command", COMMANDS)
def test_json_has_the_names_and_types_of_the_page(command, capsys):
    types = schema(command)
    free = {name for name, kinds in types.items() if kinds == (dict,)}
    seen = set()
    for record in outputs(capsys, command):
        assert (record["command"], record["schema"]) == (command, SCHEMA)
        for path, value in entries(record, "", free):
            name = path.replace("groups[].thresholds[]", "thresholds[]")
            name = re.sub(r"\.(log_loss|\w+_calibration_error)_", ".METRIC_", name)
            if value == [] and any(other.startswith(f"{name}[]") for other in types):
                continue
            assert name in types, name
            kinds = types[name]
            assert isinstance(value, kinds), (name, value)
            assert bool in kinds or not isinstance(value, bool), (name, value)
            seen.add(name)
    assert seen == set(types)


def test_json_of_a_table_on_standard_output_goes_to_stderr(capsys):
    y, Z = scores(60)
    pd.DataFrame(Z, columns=["a", "b", "c"]).to_csv("p.csv", index=False)
    save_json(TemperatureScaling().fit(Z, np.array(["a", "b", "c"])[y]), "c.json")
    assert main(["apply", "c.json", "p.csv", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(err)["output"] == "-"
    assert out.startswith("prob_a,prob_b,prob_c\n")
    assert not Path("-").exists()
