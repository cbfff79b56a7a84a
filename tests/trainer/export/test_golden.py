"""Golden vectors are drawn by formulas, chosen so that a board's self-test is fair; their tolerance is measured."""

import dataclasses

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.export import golden
from edgeveil.trainer.runs.fitted import FittedPerturber
from tests.support.export_runs import IMAGE, VECTOR, generator, label_only


def dark(x):
    """What a perturber that inverts everything would give."""
    return {"frame": (16 - x).astype(x.dtype)}


@pytest.mark.parametrize("spec", [IMAGE, VECTOR, InputSpec("image", (6, 9, 3), "uint16", 0.0, 4095.0)])
def test_candidates_are_synthetic_always_the_same_and_of_the_inputs_kind(spec):
    one, two = golden.candidates(generator(spec)), golden.candidates(generator(spec))
    assert np.array_equal(one.x, two.x)
    assert one.x.shape == (24 if spec.kind == "image" else 48, *spec.shape)
    assert one.x.dtype == spec.dtype
    low, high = np.broadcast_to(spec.low, spec.shape), np.broadcast_to(spec.high, spec.shape)
    assert np.allclose(one.x[0], low)
    if spec.shape[-1] == 1 or spec.kind == "vector":
        assert np.allclose(one.x[1], high)
    assert (one.x >= low).all()
    assert (one.x <= high).all()
    assert len({reading.tobytes() for reading in one.x}) >= 20


def test_no_candidate_is_a_real_reading():
    from sklearn.datasets import load_digits

    real = {reading.tobytes() for reading in load_digits().images.astype(np.uint8)}
    assert not real & {reading[..., 0].tobytes() for reading in golden.candidates(generator()).x}


def test_draws_are_recorded_for_every_draw_stage():
    draws = (
        {"stage": "draw", "distribution": "uniform", "output": "noise", "shape": [3]},
        {"stage": "draw", "distribution": "channel", "input": "label", "table": "q", "output": "code"},
    )
    fitted = FittedPerturber("x", IMAGE, draws, (), tables={"q": np.ones((4, 6), np.uint32)})
    found = golden.candidates(fitted).draws
    assert found["noise"].shape == (24, 3)
    assert found["noise"].dtype == np.float32
    assert 0 <= found["noise"].min() < found["noise"].max() < 1
    assert found["code"].shape == (24,)
    assert set(found["code"]) <= set(range(6))


def test_the_tolerance_is_twice_what_was_measured_in_units_of_x():
    one = {"frame": np.full((3, 8, 8, 1), 5, np.uint8)}
    other = {"frame": np.full((3, 8, 8, 1), 9, np.uint8)}
    assert golden.tolerance(generator(), "int8", [(one, one), (one, other)]) == golden.Tolerance(4.0, 8.0, loose=True)


@pytest.mark.parametrize(("precision", "steps"), [("int8", 3 / 255), ("float16", 1e-3), ("float32", 1e-4)])
def test_the_tolerance_has_a_floor_for_kernels_that_were_not_here(precision, steps):
    same = {"frame": np.zeros((2, 5), np.float32)}
    found = golden.tolerance(generator(VECTOR), precision, [(same, same)])
    assert found == golden.Tolerance(0.0, pytest.approx(steps * 200))
    # A whole number may be rounded either way, and 3/255 of 16 is less than one.
    whole = {"frame": np.zeros((2, 8, 8, 1), np.uint8)}
    assert golden.tolerance(generator(), precision, [(whole, whole)]).allowed == 1.0


def test_kernels_that_differ_by_a_tenth_of_the_range_are_said_to():
    one, other = {"frame": np.zeros((1, 5), np.float32)}, {"frame": np.full((1, 5), 30.0, np.float32)}
    assert golden.tolerance(generator(VECTOR), "int8", [(one, other)]).loose
    other["frame"][:] = 10.0
    assert not golden.tolerance(generator(VECTOR), "int8", [(one, other)]).loose


def test_a_row_from_a_table_has_no_tolerance_and_another_label_is_no_arithmetic():
    one = {"frame": np.zeros((2, 8, 8, 1), np.uint8), "label": np.array([0, 1])}
    other = {"frame": np.stack([one["frame"][0], one["frame"][0] + 9]), "label": np.array([0, 0])}
    assert golden.tolerance(label_only(), "int8", [(one, other)]) == golden.Tolerance(0.0, 0.0)


def test_chosen_vectors_keep_their_draws():
    candidates = golden.candidates(generator())
    candidates = golden.Golden(candidates.x, {"noise": np.arange(24.0)}, candidates.rows)
    chosen = golden.choose(generator(), candidates, [dark(candidates.x)] * 3, [{}] * 3, allowed=1.0)
    assert len(chosen.x) == golden.KEPT
    assert np.array_equal(chosen.draws["noise"], chosen.rows)
    assert np.array_equal(chosen.x, candidates.x[chosen.rows])


def test_a_vector_that_one_artefact_hardly_changes_is_not_kept():
    candidates = golden.candidates(generator())
    clear, close = dark(candidates.x), dark(candidates.x)
    close["frame"][8:12] = np.clip(candidates.x[8:12].astype(int) + 1, 0, 16)
    chosen = golden.choose(generator(), candidates, [clear, close], [{}] * 2, allowed=1.0)
    assert not set(chosen.rows) & {8, 9, 10, 11}
    # By more than the tolerance is far enough.
    chosen = golden.choose(generator(), candidates, [clear, close], [{}] * 2, allowed=0.5)
    assert set(chosen.rows) & {8, 9, 10, 11}


def test_a_perturber_that_lets_readings_through_is_refused():
    candidates = golden.candidates(generator())
    with pytest.raises(BadInput, match="22 of 22 synthetic samples come out unchanged"):
        golden.choose(generator(), candidates, [{"frame": candidates.x}] * 2, [{}] * 2, allowed=1.0)
    allowed = generator(identity_allowed=True)
    assert (
        len(golden.choose(allowed, candidates, [{"frame": candidates.x}] * 2, [{}] * 2, allowed=1.0).x) == golden.KEPT
    )


def test_kernels_that_are_far_apart_are_blamed_and_not_the_training():
    candidates = golden.candidates(generator())
    runs = [dark(candidates.x)] * 2
    with pytest.raises(BadInput, match="the production and the reference kernels of onnx-int8 differ by more"):
        golden.choose(generator(), candidates, runs, [{}] * 2, allowed=26.0, loose=["onnx-int8"])
    with pytest.raises(BadInput, match=r"come out unchanged.*hides too little.*`budget.epochs`.*another `seed`"):
        golden.choose(generator(), candidates, [{"frame": candidates.x}] * 2, [{}] * 2, 26.0, loose=["onnx-int8"])


def test_codes_compete_within_their_class_alone():
    """Codes of another class may be as high as they like: argmax_within never looks at them."""
    stage = {"stage": "table", "op": "argmax_within", "input": "codes", "group": "label", "groups": 2, "output": "code"}
    fitted = label_only()
    fitted = dataclasses.replace(fitted, stages=(*fitted.stages, stage))
    candidates = golden.candidates(fitted)
    run = {**dark(candidates.x), "label": np.zeros(24, np.int64)}
    codes = np.tile([5.0, 1.0, 5.0, 5.0], (24, 1))
    codes[3, :2] = [5.0, 4.9]
    flows = [{"codes": codes}, {"codes": codes + np.array([0.0, 0.1, 3.0, -3.0])}]
    chosen = golden.choose(fitted, candidates, [run, run], flows, 0.0)
    assert 3 not in chosen.rows
    assert len(chosen.rows) == golden.KEPT


def test_a_further_token_competes_within_the_one_before():
    """The token before is not sent, so its group is taken of the logits that decided it."""
    within = {"stage": "table", "op": "argmax_within"}
    first = {**within, "input": "codes", "group": "label", "groups": 2, "output": "token_1"}
    second = {**within, "input": "further", "group": "token_1", "groups": 4, "output": "code"}
    fitted = label_only()
    fitted = dataclasses.replace(fitted, stages=(*fitted.stages, first, second))
    candidates = golden.candidates(fitted)
    run = {**dark(candidates.x), "label": np.ones(24, np.int64)}
    codes = np.tile([0.0, 0.0, 5.0, 1.0], (24, 1))  # of class 1 the first: group 2 of the four
    further = np.tile([9.0, 9.0, 9.0, 9.0, 5.0, 1.0, 9.0, 9.0], (24, 1))
    further[3, 4:6] = [5.0, 4.9]
    off = np.array([3.0, -3.0, 3.0, -3.0, 0.0, 0.1, 3.0, -3.0])
    flows = [{"codes": codes, "further": further}, {"codes": codes, "further": further + off}]
    chosen = golden.choose(fitted, candidates, [run, run], flows, 0.0)
    assert 3 not in chosen.rows
    assert len(chosen.rows) == golden.KEPT


def test_near_ties_and_disagreements_about_labels_are_not_kept():
    candidates = golden.candidates(label_only())
    logits = np.tile([4.0, 1.0], (24, 1))
    logits[3] = [1.0, 0.9]  # a near tie: the other kernels are off by 0.1
    other = logits + np.array([0.0, 0.1])
    run = {**dark(candidates.x), "label": np.zeros(24, np.int64)}
    flipped = {**run, "label": np.where(np.arange(24) == 7, 1, 0)}
    chosen = golden.choose(label_only(), candidates, [run, flipped], [{"logits": logits}, {"logits": other}], 0.0)
    assert not set(chosen.rows) & {3, 7}
    assert len(chosen.rows) == golden.KEPT
    wild = other + 9.0 * (np.arange(24) == 11)[:, None]  # a reading beyond what int8 holds costs itself alone
    chosen = golden.choose(label_only(), candidates, [run, flipped], [{"logits": logits}, {"logits": wild}], 0.0)
    assert not set(chosen.rows) & {3, 7, 11}
    assert len(chosen.rows) == golden.KEPT
    every = {"logits": np.tile([1.0, 0.9], (24, 1))}
    with pytest.raises(BadInput, match="near tie"):
        golden.choose(label_only(), candidates, [run, run], [every, {"logits": every["logits"] + [0, 0.1]}], 0.0)


def seen_or_not() -> FittedPerturber:
    """A perturber of readings that are 0 or 1, whose output stage rounds what a model makes."""
    return generator(InputSpec("vector", (8,), "uint8", (0.0,) * 8, (1.0,) * 8))


def rounded(v):
    return {"frame": np.rint(v).astype(np.uint8)}


def test_readings_of_two_levels_have_no_tolerance_and_are_kept_where_no_value_is_a_near_tie():
    fitted = seen_or_not()
    one, other = {"frame": np.zeros((2, 8), np.uint8)}, {"frame": np.ones((2, 8), np.uint8)}
    assert golden.tolerance(fitted, "int8", [(one, other)]).allowed == 0.0
    candidates = golden.candidates(fitted)
    v = 0.9 - 0.8 * candidates.x.astype(np.float32)  # the other way round, and clear of one half
    fast, plain = v.copy(), v.copy()
    near, apart = np.arange(0, len(v), 3), np.arange(1, len(v), 3)
    fast[near, 2] = plain[near, 2] = 0.505
    fast[apart, 3], plain[apart, 3] = 0.1, 0.9  # kernels that disagree
    flows = [{"v": v}, {"v": fast}, {"v": plain}]
    chosen = golden.choose(fitted, candidates, [rounded(one["v"]) for one in flows], flows, allowed=0.0)
    assert len(chosen.rows) == golden.KEPT
    assert set(chosen.rows % 3) == {2}
    fast[np.arange(len(v)) % 100 != 77, 2] = 0.505  # of many levels that a network spreads over, one is always a tie
    assert set(golden.choose(fitted, candidates, [rounded(one["v"]) for one in flows], flows, 0.0).rows % 100) == {77}
    same = {"frame": candidates.x}
    with pytest.raises(BadInput, match="come out unchanged"):
        golden.choose(fitted, candidates, [same] * 3, [{"v": candidates.x.astype(np.float32)}] * 3, allowed=0.0)
