"""Collectors of count-mean sketches: exact means, intervals that cover, and the errors next to OUE and HRR."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.trainer.ext.local import collect
from edgeveil.trainer.ext.local.reporting import Sketch
from edgeveil.trainer.measures import exact_law
from edgeveil.trainer.perturbers import local
from tests.support.promised import local_examples
from tests.support.shipped import sent

SKETCHES = ("cms", "hcms")


def decoder(stages) -> Sketch:
    made = {stage["output"]: stage for stage in stages}
    return Sketch(kind_of(stages[-1]).worth(stages[-1], made, None))


def estimated(sketch: Sketch, reports: np.ndarray, *, units: np.ndarray | None = None, kind="histogram"):
    found = collect.Estimate(kind, sketch, categories=True, dependent=units is not None)
    for part in np.array_split(np.arange(len(reports)), 3):  # blocks, as a feed has them
        found.add(reports[part], np.zeros(len(part), "S8") if units is None else units[part])
    return found.document(1)


def values(sketch: Sketch, reports: np.ndarray) -> np.ndarray:
    """What each report is worth by the definition, (n, categories)."""
    row, signs = sketch.signs(reports)
    places = np.stack([sketch.hashes.places(row, np.full(len(row), x)) for x in range(sketch.width)], axis=1)
    return sketch.slope * np.take_along_axis(signs, places, axis=1) + sketch.start


@pytest.mark.parametrize("op", SKETCHES)
def test_over_every_draw_a_report_is_worth_its_category_but_for_collisions(op):
    rows, width, k = 4, 8, 5
    stages = local_examples.stages(op, 1.3, k, sketch=(rows, width))
    sketch, (*draws, stage) = decoder(stages), stages
    noise = [kind_of(one).every(one, 0) for one in draws]
    chosen = np.array(list(itertools.product(*(range(len(weights)) for _, weights in noise))))
    chance = np.prod(
        [np.array(weights, float)[chosen[:, at]] / sum(weights) for at, (_, weights) in enumerate(noise)], axis=0
    )
    run, everywhere = exact_law.shipped(stage, draws), np.arange(rows)
    for x in range(k):
        flow = {one["output"]: noise[at][0][chosen[:, at]] for at, one in enumerate(draws)}
        flow["label"] = np.full(len(chosen), x)
        run(flow)
        assert sketch.made(flow["report"]).all()
        mean = chance @ values(sketch, flow["report"])
        same = [
            (
                sketch.hashes.places(everywhere, np.full(rows, x))
                == sketch.hashes.places(everywhere, np.full(rows, other))
            )
            for other in range(k)
        ]
        assert mean == pytest.approx(width / (width - 1) * (np.mean(same, axis=1) - 1 / width), abs=1e-9)
        assert mean[x] == pytest.approx(1)


def test_over_hash_functions_collisions_average_out_and_vary_as_stated():
    """The mean over seeds of the exact expectation for another category: 0, with the variance of ``collided``."""
    rows, width, seeds = 4, 8, 4000
    every = np.arange(rows)
    shares = []
    for seed in range(seeds):
        sketch = decoder(local_examples.stages("hcms", 1.0, 2, sketch=(rows, width), seed=seed))
        same = [sketch.hashes.places(every, np.full(rows, x)) for x in (0, 1)]
        shares.append(width / (width - 1) * ((same[0] == same[1]).mean() - 1 / width))
    assert abs(np.mean(shares)) < 5 * math.sqrt(sketch.collisions / seeds)
    assert np.var(shares) == pytest.approx(sketch.collisions, rel=0.1)


@pytest.mark.parametrize("op", SKETCHES)
def test_sums_are_those_of_the_reports_one_by_one(op):
    stages = local_examples.stages(op, 1.0, 6, sketch=(16, 32))
    sketch, n = decoder(stages), 3000
    reports = sent(stages, np.random.default_rng(0).integers(0, 6, n))
    found, one_by_one = estimated(sketch, reports), values(sketch, reports)
    assert found["shares"] == pytest.approx(one_by_one.mean(axis=0))
    half = np.diff(np.array(found["interval_95"]), axis=1)[:, 0] / 2
    error = np.sqrt(one_by_one.var(axis=0, ddof=1) / n + 1 / (16 * 31))
    assert half == pytest.approx(collect.Z * error)
    assert found["influence"]["one_report"] * n == pytest.approx(np.ptp(one_by_one))


@pytest.mark.parametrize("op", SKETCHES)
def test_of_reports_that_hang_together_the_error_is_no_smaller_than_that_by_unit(op):
    stages = local_examples.stages(op, 1.0, 6, sketch=(16, 32))
    sketch = decoder(stages)
    rng = np.random.default_rng(1)
    units = rng.integers(0, 150, 3000)
    held = sent(stages, rng.integers(0, 6, 150))
    for kept, reports in ((True, held[units]), (False, sent(stages, rng.integers(0, 6, 3000)))):
        by_unit = collect.ByUnit(6)
        by_unit.add(values(sketch, reports), units.astype("S8"))
        found = estimated(sketch, reports, units=units.astype("S8"))
        assert found["units"] == 150
        half = np.diff(np.array(found["interval_95"]), axis=1)[:, 0] / 2
        assert (half >= collect.Z * by_unit.standard_error()).all()
        if kept:  # of answers that a unit sends again and again it is little larger
            assert (half < 1.5 * collect.Z * by_unit.standard_error()).all()


# The sizes of a recipe's sketch. At 65,536 categories OUE would send as many bytes, and HRR's collector has no table.


@pytest.mark.parametrize(("op", "k", "n"), [("cms", 4096, 20_000), ("hcms", 4096, 20_000), ("cms", 65_536, 4_000)])
def test_errors_at_many_categories_are_those_of_the_formula(op, k, n):
    """Of categories that no device has; and the interval covers 95 % of all."""
    made = local.of_category(op, "label", k, 1.0, seed=11)
    rng = np.random.default_rng(4)
    truth = np.array([0.3, 0.2, *[0.05] * 10])
    categories = rng.choice(len(truth), n, p=truth)
    found = estimated(decoder(made.stages), sent(made.stages, categories))
    shares = np.array(found["shares"])
    theory = local.named("share")[op].variance(k, 1.0) / n
    assert np.mean(shares[len(truth) :] ** 2) == pytest.approx(theory, rel=0.1)
    real = np.bincount(categories, minlength=k) / n
    low, high = np.array(found["interval_95"]).T
    assert np.mean((low <= real) & (real <= high)) > 0.94
    assert shares[:2] == pytest.approx(real[:2], abs=5 * math.sqrt(theory))


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_variances_next_to_oue_and_hrr_do_not_grow_with_the_domain(alpha):
    of = {name: kind.variance(4096, alpha) for name, kind in local.named("share").items() if name != "rappor"}
    assert of["oue"] < of["cms"] < 1.3 * of["oue"]  # symmetric bits for optimised ones
    assert of["hrr"] < of["hcms"] < 1.01 * of["hrr"]  # places that collide
    assert of["k-rr"] > 100 * of["cms"]
    for op in SKETCHES:
        assert local.named("share")[op].variance(65_536, alpha) == of[op]
    sizes = {op: local.of_category(op, "label", 4096, alpha) for op in ("oue", "cms", "hcms")}
    sent_bytes = {op: np.dtype(one.dtype).itemsize * math.prod(one.shape) for op, one in sizes.items()}
    assert sent_bytes == {"oue": 4096, "cms": 132, "hcms": 8}


@pytest.mark.parametrize("kind", ["median", "quantiles", "mean"])
def test_a_sketch_has_a_histogram_alone(kind):
    sketch = decoder(local_examples.stages("cms", 1.0, 6))
    with pytest.raises(BadInput, match=r"[Aa]sk for histogram"):
        estimated(sketch, np.zeros((0, 5), np.uint8), kind=kind)


def test_only_what_a_sketch_makes_is_taken():
    sketch = decoder(local_examples.stages("cms", 1.0, 6))
    assert sketch.made(np.array([[3, 0, 0, 0, 255], [4, 0, 0, 0, 0], [0, 0, 0, 1, 0]], np.uint8)).tolist() == [
        True,
        False,
        False,
    ]
    sketch = decoder(local_examples.stages("hcms", 1.0, 6))
    assert sketch.made(np.array([-1, 0, 63, 64])).tolist() == [False, True, True, False]
