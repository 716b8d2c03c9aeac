"""Dask arrays at scale: what is counted, the arithmetic by hand, and a small run."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are not installed; last, so that it is the installed package that is tested.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.scale import __main__ as scale
from benchmarks.scale import jobs, measure, paper

pytest.importorskip("dask.array", reason="needs the extra dask")
pytest.importorskip("distributed", reason="needs the extra dask")


def test_each_reading_of_a_chunk_is_counted(tmp_path):
    data = jobs.make_data(30, 3, tmp_path)
    X = data.lazy("logits", 4)
    before = data.files["logits"].readings()
    with measure.scheduler("threads"):
        np.testing.assert_array_equal(X.compute(), data.array("logits"))
        X.sum().compute()
    assert X.numblocks == (4, 1)
    assert data.files["logits"].readings() - before == 8


def test_a_peak_is_that_of_the_largest_array():
    peak = measure.traced_peak(lambda: np.ones(2**18).sum())
    assert peak == pytest.approx(2, rel=0.1)


def test_the_arithmetic_is_that_by_hand():
    """8 TB on 32 machines of 1 GB/s: 250 s a pass; 8,000 chunks; 8 columns of 32 GB each fit."""
    machines = paper.Machines()
    scores = paper.Scores("", 2e9, 1000, 4)
    sums = paper.cost(paper.Constant(2, 7.0, 1e5, False), scores, 1.5, machines)
    assert sums == pytest.approx((500, 2e12 * 7e-9 / 512, 24, 0))
    job = paper.Constant(1, 7.0, 1e3, True)
    columns = paper.cost(job, scores, 1.5, machines)
    ns = 7e-9 * math.log(2e9) / math.log(1e3)
    assert columns == pytest.approx((250, 2e12 * ns / (32 * 8), 12, 200))
    assert paper.minutes(columns.total) == "10.5 min"
    longer = paper.Scores("", 1e11, 2, 4)
    assert paper.minutes(paper.cost(job, longer, 1, machines).total) == "no column fits"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster, when its workers end
def test_a_small_run_writes_every_table(tmp_path):
    page = tmp_path / "page.md"
    command = ["--sizes", "300x3", "--chunks", "2", "4", "--repeats", "1", "--page", str(page)]
    scale.main(command)
    text = page.read_text()
    for section in ("machine", "cost", "growth", "peer", "arithmetic"):
        body = text.split(f"<!-- {section} -->")[1].split(f"<!-- end of {section} -->")[0]
        assert body.strip()
    rows = [line.split(" | ") for line in text.splitlines() if " | 300x3 | " in line]
    assert len(rows) == 2 * len(jobs.JOBS)
    for name, _, _, passes, *_ in rows:
        # A metric of sums reads the array once.
        if name.strip("| ") in ("ECE", "SCE"):
            assert float(passes) == 1
