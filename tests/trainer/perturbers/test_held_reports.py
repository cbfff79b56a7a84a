"""Answers that a stream keeps: what they cost, what one of them alone tells, and what a recipe may not ask for."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.spending import epsilon_of, repeats
from edgeveil.edge_runtime.stages.draw import COIN
from edgeveil.edge_runtime.stages.mechanism import held
from edgeveil.edge_runtime.stages.rappor import Rappor, epsilon_of_one, instantaneous
from edgeveil.trainer import train
from edgeveil.trainer.measures import exact_law
from edgeveil.trainer.perturbers import local
from tests.trainer.perturbers.test_local import LABEL, READING, recipe

OUTPUTS = [{"tensor": "report"}]


def law(stages, k):
    """P(bits | category) of one instantaneous answer, by all values of the permanent bits, in fractions."""
    p, q, ones, zeros = (Fraction(stage["numerator"], COIN) for stage in stages if "numerator" in stage)
    found = []
    for category in range(k):
        laws = {}
        for kept in itertools.product((0, 1), repeat=k):
            own = [p if place == category else q for place in range(k)]
            here = math.prod(one if bit else 1 - one for bit, one in zip(kept, own, strict=True))
            for bits in itertools.product((0, 1), repeat=k):
                again = [ones if bit else zeros for bit in kept]
                there = math.prod(one if bit else 1 - one for bit, one in zip(bits, again, strict=True))
                laws[bits] = laws.get(bits, 0) + here * there
        found.append(laws)
    return found


@pytest.mark.parametrize(("alpha", "once"), [(2.0, 1.0), (1.0, 0.01), (20.0, 3.0), (5.0, 4.9)])
def test_one_answer_alone_tells_less_than_all_of_them_together(alpha, once):
    made = Rappor().design("label", 3, alpha, once=once)
    ratio = max(max(one.values()) / min(one.values()) for one in zip_laws(law(made.stages, 3)))
    assert once - 1e-9 < math.log(ratio.numerator) - math.log(ratio.denominator) <= once + 1e-12
    assert epsilon_of_one(instantaneous(made.stages)) == pytest.approx(once, abs=1e-9)
    assert alpha - 1e-9 < epsilon_of(made.stages, OUTPUTS, {}) <= alpha
    enumerated = exact_law.largest_ratio(made.stages, OUTPUTS, {})
    assert enumerated.epsilon == pytest.approx(alpha, abs=1e-9)
    assert repeats(made.stages, OUTPUTS)


def zip_laws(laws):
    return [{place: one[bits] for place, one in enumerate(laws)} for bits in laws[0]]


def test_the_decoder_is_of_both_answers():
    made = Rappor().design("label", 3, 2.0, once=1.0)
    for category, one in enumerate(law(made.stages, 3)):
        mean = sum(np.array(bits) * float(p) for bits, p in one.items())
        assert mean @ made.slope + made.offset == pytest.approx(np.eye(3)[category], abs=1e-12)


@pytest.mark.parametrize("name", ["k-rr", "oue", "hrr", "cms", "hcms"])
def test_a_held_report_costs_what_it_costs_once(name):
    plain = local.of_category(name, "label", 4, 1.0)
    kept = held(plain)
    tables = dict(plain.tables or {})
    assert epsilon_of(kept.stages, OUTPUTS, tables) == epsilon_of(plain.stages, OUTPUTS, tables)
    assert (repeats(plain.stages, OUTPUTS), repeats(kept.stages, OUTPUTS)) == (False, True)
    assert (kept.shape, kept.dtype) == (plain.shape, plain.dtype)


@pytest.mark.parametrize(
    ("hold", "stream"), [("first:4", ("track", 4)), ("first:4/60s", ("period", 4)), ("first:1", ("track", None))]
)
def test_a_recipe_asks_for_several_answers_of_a_track(hold, stream):
    found = local._stream(local.Local(**LABEL, hold=hold))
    assert (found["hold"], found.get("draws")) == stream


RAPPOR = {"kind": "local", "of": "label", "mechanism": "rappor", "epsilon": 1.0, "hold": "track", "instantaneous": 0.5}


@pytest.mark.parametrize(
    ("perturber", "says"),
    [
        ({**RAPPOR, "hold": "none"}, '`hold` of "track" or "period:600s" with "rappor"'),
        ({key: value for key, value in RAPPOR.items() if key != "instantaneous"}, "`instantaneous` with `mechanism"),
        ({**LABEL, "instantaneous": 0.5}, "no `instantaneous` with"),
        ({**RAPPOR, "instantaneous": 1.0}, "`instantaneous` below `epsilon`.* 1; got 1"),
        ({**RAPPOR, "instantaneous": 0.0}, "`perturber.instantaneous`: expected greater than 0"),
        ({**RAPPOR, "hold": "track:7"}, "`perturber.hold`"),
        ({**READING, "hold": "track"}, 'no `hold` with `of = "reading"`'),
        ({**RAPPOR, "of": "reading"}, 'with `of = "reading"`; got "rappor"'),
    ],
)
def test_what_a_recipe_may_not_ask_for(tmp_path, perturber, says):
    with pytest.raises(BadInput, match=says) as caught:
        recipe(tmp_path / "none.npz", perturber)
    assert "\n" not in str(caught.value)


def test_what_a_run_says_of_a_kept_answer():
    found = {"of": "share", "expected_error": {}, "unit": "release", "most_micro_epsilon": 10**7, "bounds": "public"}
    said = train.sentence({**found, "epsilon": 2.0, "values": 2, "repeats": True})
    assert "One kept answer costs 2 epsilon, and what is sent of it again nothing; a device may spend 10." in said
    said = train.sentence({**found, "epsilon": 2.0, "values": 2, "repeats": False})
    assert "One release costs 2 epsilon; a device" in said
