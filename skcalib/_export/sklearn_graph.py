"""Converters of calibrators and calibrated classifiers for skl2onnx."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper
from onnx.compose import add_prefix
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.common import data_types
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC

from skcalib import calibrators
from skcalib._export.common import columns_of_scores, plan_of, two_columns
from skcalib._export.onnx_model import LEAST_OPSET, written_labels
from skcalib._export.onnx_operations import OnnxOperations, Value
from skcalib.extending import (
    NEVER,
    CalibratedClassifier,
    ClassifierScores,
    check_count,
    has_formula,
    places_among,
    response_kind,
    without_frozen,
)

# Options that skl2onnx accepts for classifiers. The option "nocl" (no class labels) is read for the
# default output, a dictionary of probabilities for each row.
ZIPMAP = {"zipmap": [False, True, "columns"], "nocl": [False]}
OPTIONS = {**ZIPMAP, "output_class_labels": [False, True]}


def register() -> None:
    """Register the converters of the classifiers and calibrators of this package in skl2onnx."""
    every = (getattr(calibrators, name) for name in calibrators.__all__)
    converters: dict[Any, Any] = dict.fromkeys(filter(has_formula, every), convert_calibrator)
    converters |= {CalibratedClassifier: convert_classifier, ClassifierScores: convert_scores}
    for kind, convert in converters.items():
        options = None if kind is ClassifierScores else OPTIONS
        name = f"Skcalib{kind.__name__}"
        update_registered_converter(kind, name, set_types, convert, options=options)


def set_types(operator: Any) -> None:
    """Set the types and shapes of an operator's outputs: labels, if any, and columns of scores."""
    classes = np.asarray(operator.raw_operator.classes_)
    *labels, columns = operator.outputs
    for label in labels:
        strings = written_labels(classes).dtype.kind == "U"
        kind = data_types.StringTensorType if strings else data_types.Int64TensorType
        label.type = kind([None])
    columns.type = data_types.guess_tensor_type(operator.inputs[0].type)
    columns.type.shape = [None, classes.size]


class GraphNodes:
    """Builder of the nodes of one estimator, which are then added to the graph of skl2onnx.

    Parameters
    ----------
    scope, operator, container : objects of skl2onnx
        The scope creates names, the operator contains the estimator, and the container collects
        nodes.
    """

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        opset = container.target_opset_any_domain("")
        check_count("target_opset of skl2onnx.to_onnx", opset, LEAST_OPSET)
        tensor_type = data_types.guess_tensor_type(operator.inputs[0].type)
        double = isinstance(tensor_type, data_types.DoubleTensorType)
        self.o = OnnxOperations("float64" if double else "float32", opset)
        self.scope, self.operator, self.container = scope, operator, container

    def read_float64(self, name: str) -> Value:
        """Return a value of the graph of skl2onnx, converted to float64."""
        return self.o.to_float(Value(self.o, name, "float32"))

    def scores(self, estimator: Any, response: str, classes: NDArray[Any]) -> Any:
        """Convert an estimator by skl2onnx, and return its scores in the order of `classes`."""
        estimator = unwrapped(estimator, response)
        o, known, kind = self.o, np.asarray(estimator.classes_), response_kind(response)
        name, width = self._converted(estimator, response)
        x = self.read_float64(name)
        if response == "predict_log_proba":
            x = o.log(x)
        if response == "decision_function" and known.size == 2:
            # The decision values are (-f, f) or f, so that f is the last column.
            x = two_columns(o, o.columns(x, width - 1, width), kind)
        return self.placed(x, known, classes, NEVER[kind])

    def _converted(self, estimator: Any, response: str) -> tuple[str, int]:
        """Add the nodes of an estimator; return the name and number of columns of its scores."""
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        options = {"zipmap": False}
        if response == "decision_function":
            options["raw_scores"] = True
        inputs = self.operator.inputs
        names = dict.fromkeys(type(each).__name__ for each in (estimator, last))
        try:
            model = to_onnx(
                estimator,
                initial_types=[(each.raw_name, each.type) for each in inputs],
                target_opset=self.container.target_opset,
                options={id(last): options},
            )
        except NameError as error:  # raised by skl2onnx for an unknown option
            raise ValueError(
                f"skl2onnx does not convert the {response} of {type(last).__name__}: fit with "
                "response_method='predict_proba'."
            ) from error
        except Exception as error:
            raise ValueError(
                f"skl2onnx cannot convert {' of '.join(names)}: {first_cause(error)} To convert "
                "only the calibrator of its scores, pass calibrator_ to skcalib.to_onnx."
            ) from error
        prefix = self.scope.get_unique_variable_name("estimator") + "_"
        graph = (model := add_prefix(model, prefix)).graph
        for each in inputs:
            self._add(helper.make_node("Identity", [each.full_name], [prefix + each.raw_name]))
        for node in graph.node:
            self._add(node)
        self.container.initializers.extend(graph.initializer)
        for each in model.opset_import:
            self.container.node_domain_version_pair_sets.add((each.domain, each.version))
        scores = graph.output[1]
        shape = scores.type.tensor_type.shape.dim
        return scores.name, shape[1].dim_value if len(shape) == 2 and shape[1].dim_value else 2

    def placed(self, x: Any, known: NDArray[Any], classes: NDArray[Any], absent: float) -> Any:
        """Sort columns into the order of `classes`, and fill columns of absent classes."""
        if np.array_equal(known, classes):
            return x
        o, index = self.o, places_among(known, classes)
        # An absent class has the index -1, which selects the last column.
        longer = o.concat(x, o.filled(o.columns(x, 0, 1), absent))
        return o.emit("Gather", longer, o.constant(index), axis=1)

    def calibrated(self, calibrator: Any, x: Any) -> tuple[Any, Any]:
        """Return the probabilities and the column of the predicted class of each row."""
        o, plan = self.o, plan_of(calibrator, "skl2onnx.to_onnx")
        q = o.probabilities(plan, x, calibrator)
        return q, o.predicted(x, q, plan.label)

    def finish(self, q: Any, best: Any) -> None:
        """Name the outputs for labels and probabilities, and add all nodes to the graph."""
        o, names = self.o, written_labels(np.asarray(self.operator.raw_operator.classes_))
        names = names.astype(np.int64) if names.dtype.kind == "b" else names
        label, probabilities = self.operator.outputs
        o.name_output(o.take(o.constant(names), best), label.full_name)
        o.name_output(o.cast_to_scores(q), probabilities.full_name)
        self.paste()

    def paste(self) -> None:
        """Add the nodes to the graph of skl2onnx, under unused names."""
        prefix = self.scope.get_unique_variable_name("calibrated") + "_"
        outputs = {value.full_name for value in self.operator.outputs}
        constants = self.o.drop_unused()
        names_here = {value.name for value in constants}
        names_here.update(
            name for node in self.o.nodes for name in node.output if name not in outputs
        )
        for node in self.o.nodes:
            for names in (node.input, node.output):
                names[:] = [prefix + name if name in names_here else name for name in names]
            self._add(node)
        for tensor in constants:
            tensor.name = prefix + tensor.name
        self.container.initializers.extend(constants)
        self.container.node_domain_version_pair_sets.add(("", self.o.opset))

    def _add(self, node: Any) -> None:
        node.name = self.scope.get_unique_operator_name(node.op_type)
        self.container.nodes.append(node)


def unwrapped(estimator: Any, response: str) -> Any:
    """Return an equivalent estimator or pipeline that skl2onnx converts correctly."""
    estimator = without_frozen(estimator)
    if isinstance(estimator, Pipeline):
        steps = [(name, unwrapped(step, response)) for name, step in estimator.steps]
        return Pipeline(steps)
    if isinstance(estimator, (SVC, NuSVC)) and response == "decision_function":
        # If the estimator has parameters of Platt scaling, skl2onnx 1.20 returns probabilities
        # instead of the decision function.
        estimator = copy(estimator)
        estimator.probability = False
        estimator._probA = estimator._probB = np.empty(0)
    if isinstance(estimator, LinearSVC):  # skl2onnx 1.20 would round the coefficients to float32
        twin = LogisticRegression()
        for name in ("coef_", "intercept_", "classes_", "n_features_in_"):
            setattr(twin, name, getattr(estimator, name))
        return twin
    return estimator


def first_cause(error: BaseException) -> str:
    """Return the message of the root cause of an error, as a sentence."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".") + "."


def convert_calibrator(scope: Any, operator: Any, container: Any) -> None:
    """Convert a calibrator, whose input is scores, for skl2onnx."""
    nodes = GraphNodes(scope, operator, container)
    calibrator = operator.raw_operator
    x = columns_of_scores(nodes.o, nodes.read_float64(operator.inputs[0].full_name), calibrator)
    nodes.finish(*nodes.calibrated(calibrator, x))


def convert_scores(scope: Any, operator: Any, container: Any) -> None:
    """Convert a `ClassifierScores`, whose output is a classifier's scores, for skl2onnx."""
    nodes, model = GraphNodes(scope, operator, container), operator.raw_operator
    scores = nodes.scores(model.estimator_, model.response_method_, model.classes_)
    nodes.o.name_output(nodes.o.cast_to_scores(scores), operator.outputs[0].full_name)
    nodes.paste()


def convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Convert a `CalibratedClassifier` for skl2onnx: the mean of its calibrated classifiers."""
    nodes, model = GraphNodes(scope, operator, container), operator.raw_operator
    classes = np.asarray(model.classes_)
    members = []
    for estimator, calibrator in model._pairs():
        x = nodes.scores(estimator, model.response_method_, classes)
        q, best = nodes.calibrated(calibrator, x)
        members.append(nodes.placed(q, np.asarray(calibrator.classes_), classes, 0.0))
    if len(members) == 1 and len(calibrator.classes_) == classes.size:
        nodes.finish(members[0], best)
        return
    mean = sum(members[1:], members[0]) / float(len(members))
    nodes.finish(mean, nodes.o.predicted(mean, mean, "near"))
