"""Clusters of rows: what labels are read as, and which are refused."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from calls import refused

from skcalib._validation.rows import check_predictions
from skcalib.metrics import _common, spiegelhalter_test
from skcalib.metrics._resampling import repeat_rows

Y, P = [0, 1, 1, 0, 1, 0], [0.2, 0.7, 0.6, 0.4, 0.8, 0.3]
LABELS = ["b", "a", "b", "c", "a", "c"]
DAYS = [f"2026-03-{day}" for day in ("20", "02", "20", "10", "02", "10")]


def numbers(clusters, **keywords):
    return check_predictions(Y, P, clusters=clusters, **keywords).cluster


FORMS = {
    "list": LABELS,
    "array": np.array(LABELS),
    "series": pd.Series(LABELS, index=range(6, 0, -1)),
    "categorical": pd.Categorical(LABELS, ["c", "unused", "b", "a"]),
    "frame": pd.DataFrame({"ward": LABELS}),
    "polars": pl.Series("ward", LABELS),
    "floats": [2.0, 1.0, 2.0, 7.0, 1.0, 7.0],
    "mixed": ["2", 1, "2", "x", 1, "x"],
    "column": np.array([[3], [9], [3], [1], [9], [1]]),
    "days": np.array(DAYS, dtype="datetime64[D]"),
    "weeks": pd.Series(pd.to_datetime(DAYS)).dt.isocalendar().week,
}


@pytest.mark.parametrize("form", FORMS)
def test_clusters_are_numbered_in_the_order_of_their_first_rows(form):
    assert numbers(FORMS[form]).tolist() == [0, 1, 0, 2, 1, 2]


@pytest.mark.torch
def test_labels_may_be_a_tensor():
    torch = pytest.importorskip("torch")
    assert numbers(torch.tensor([5, 3, 5, 4, 3, 4])).tolist() == [0, 1, 0, 2, 1, 2]


def test_labels_may_be_a_dask_array():
    da = pytest.importorskip("dask.array")
    chunks = da.from_array(np.column_stack([1 - np.array(P), P]), chunks=(2, 2))
    codes = da.from_array(np.array([5, 3, 5, 4, 3, 4]), chunks=2)
    found = check_predictions(da.from_array(np.array(Y), chunks=2), chunks, clusters=codes)
    assert found.cluster.tolist() == [0, 1, 0, 2, 1, 2]


REFUSED = {
    "clusters has 2 different labels: an interval needs 3. Without clusters=, the interval "
    "describes only the clusters in the data.": list("ababab"),
    "clusters has 1 different label: an interval needs 3. Without clusters=, the interval "
    "describes only the clusters in the data.": list("aaaaaa"),
    "clusters has no label in row 2: give each row a label, and a row without a cluster a label of "
    "its own.": ["a", "b", None, "c", "a", "c"],
    "clusters has no label in row 1: give each row a label, and a row without a cluster a label of "
    "its own.": [1, np.nan, 2, 3, 1, 3],
    "clusters has 5 rows, but there are 6 rows of scores: pass one label for each row.": LABELS[1:],
    "clusters: it has shape (); pass one label for each row.": "hospital",
    "clusters has 2 columns: pass one label for each row; if clusters are nested, pass "
    "the outermost one (the hospital, not the patient).": pd.DataFrame(
        {"hospital": LABELS, "patient": LABELS}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_cluster_is_refused(message):
    refused(f"^{re.escape(message)}$", spiegelhalter_test, Y, P, clusters=REFUSED[message])


def test_rows_of_weight_0_are_absent():
    """Their labels may be missing, and clusters of such rows alone are not counted."""
    w, rows = [1, 1, 0, 1, 1, 1], [0, 1, 3, 4, 5]
    labels = ["b", "a", None, "c", "a", "c"]
    part = [[each[i] for i in rows] for each in (Y, P, labels)]
    assert numbers(labels, sample_weight=w).tolist() == [0, 1, 2, 1, 2]
    found = spiegelhalter_test(Y, P, clusters=labels, sample_weight=w)
    assert found == spiegelhalter_test(*part[:2], clusters=part[2])
    with pytest.raises(ValueError, match="clusters has 2 different labels"):
        numbers(["x", "a", "x", "c", "a", "c"], sample_weight=[0, 1, 0, 1, 1, 1])


def test_rows_that_are_clusters_of_their_own_are_independent():
    assert numbers(range(6)) is None
    assert numbers(range(6), sample_weight=[0.5, 2.0, 1.0, 1.5, 3.0, 1.0]) is None
    assert spiegelhalter_test(Y, P, clusters=range(6)) == spiegelhalter_test(Y, P)


def test_copies_of_a_row_are_in_its_cluster():
    w = [2, 1, 1, 0, 1, 1]
    assert numbers(range(6), sample_weight=w).tolist() == [0, 1, 2, 3, 4]
    copies = repeat_rows(check_predictions(Y, P, w, clusters=range(6)))
    assert copies.cluster.tolist() == [0, 0, 1, 2, 3, 4]
    assert copies.take(np.array([5, 2, 5])).cluster.tolist() == [0, 1, 0]
    assert copies.take(np.array([5, 2])).cluster is None


def test_one_cluster_with_most_of_the_rows_is_told():
    message = (
        "clusters: 'big' has 67 % of the rows, so that the 3 clusters count as 2 of equal size: "
        "intervals are wide."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$") as warned:
        spiegelhalter_test(Y, P, clusters=["a", "big", "big", "big", "big", "c"])
    assert [each.filename for each in warned] == [__file__]
    numbers(LABELS)  # three of equal size: warnings are errors


def test_the_repr_says_how_many_clusters():
    result = spiegelhalter_test(Y, P, clusters=LABELS)
    assert repr(result).endswith(", 3 clusters)")
    assert "clusters" not in repr(spiegelhalter_test(Y, P))
    statistic, pvalue = result
    assert result == (statistic, pvalue)


def test_sums_over_clusters_and_how_many_clusters_count():
    rng = np.random.default_rng(0)
    cluster, values = rng.integers(0, 5, 40), rng.normal(size=(40, 2, 3))
    expected = np.zeros((5, 2, 3))
    for c, each in zip(cluster, values, strict=True):
        expected[c] += each
    np.testing.assert_allclose(_common.cluster_sums(values, cluster), expected, rtol=1e-12)
    np.testing.assert_allclose(_common.cluster_sums(values[:, 0, 0], cluster), expected[:, 0, 0])
    assert _common.effective_number(np.ones(7)) == 7
    assert _common.effective_number(np.array([3.0, 1.0])) == pytest.approx(16 / 10)
    of_tables = 2.2281388520  # of Student's t with 10 degrees of freedom
    assert _common.student(10, 0.95) == pytest.approx(of_tables, abs=1e-9)
    equal = _common.EventRows(np.ones(22), np.ones(22), np.ones(22), np.repeat(np.arange(11), 2))
    expected = of_tables / 1.9599639845 * np.sqrt(11 / 10)
    assert _common.widening(equal, 0.95) == pytest.approx(expected, abs=1e-9)


def test_many_clusters_are_joined_whole():
    cluster = np.repeat(np.arange(1200), 2)
    fewer = _common.merge_clusters(cluster, np.random.default_rng(0), 500)
    assert np.array_equal(fewer[::2], fewer[1::2])
    assert sorted(set(np.bincount(fewer).tolist())) == [4, 6]
    assert fewer.max() == 499
    assert _common.merge_clusters(cluster[:1000], np.random.default_rng(0), 500) is not cluster
    few = np.arange(500)
    assert _common.merge_clusters(few, np.random.default_rng(0), 500) is few
