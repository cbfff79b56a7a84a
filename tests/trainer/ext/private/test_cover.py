"""The guarantee of a bundle: only where every part of it is public or paid for."""

import copy

import pytest

from edgeveil.trainer.audit import card
from edgeveil.trainer.audit.sections.training import promised
from edgeveil.trainer.ext.private import cover
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.runs.fitted import FittedPerturber
from tests.support.export_runs import IMAGE

PAID = {
    "models": {"classifier": cover.mark("DP-SGD", 0.9)},
    "tables": {"means": cover.mark("Gaussian mechanism", 0.1)},
    "range": "public",
    "calibration": "public",
}


def manifest(**marks):
    asked = Private(epsilon=8.0, delta=1e-5)
    return {
        "models": {"classifier": {}},
        "tables": {"means": {}},
        "training": cover.promise(asked, "row", copy.deepcopy(PAID) | marks),
    }


def guaranteed(section):
    """The guarantees of a card whose audit found this promise."""
    findings = [promised("training", section, "[private]").as_json()]
    return [one["sentence"] for one in card._guarantees([{"artefact": "tflite-int8", "findings": findings}], {})]


def test_the_sentence_has_unit_neighbours_epsilon_delta_and_what_it_leaves_out():
    found = cover.section(manifest())
    assert found["given"]
    assert found["unpaid"] == []
    for part in (
        "Adding or removing one row",
        "e^8",
        "delta 1e-05",
        "all networks",
        "given public classes",
        "leaves out",
    ):
        assert part in found["sentence"]
    for outside in ("the figures of this card", "golden vectors are synthetic", "settings", "floating-point"):
        assert outside in found["sentence"].partition("leaves out")[2]
    assert guaranteed(found) == [found["sentence"]]


@pytest.mark.parametrize(
    ("marks", "part"),
    [
        ({"models": {"classifier": "data"}}, "the network classifier"),
        ({"tables": {"means": "data"}}, "the table means"),
        ({"tables": {}}, "the table means"),
        ({"range": "data"}, "the range"),
        ({"calibration": "data"}, "the calibration"),
    ],
)
def test_one_part_that_carries_no_noise_takes_it_away_and_is_named(marks, part):
    found = cover.section(manifest(**marks))
    assert not found["given"]
    assert found["sentence"] == (
        f"There is no guarantee for the people behind the training data: {part} depends on them without noise."
    )
    assert guaranteed(found) == []


def test_a_network_that_the_promise_does_not_know_takes_it_away():
    found = manifest()
    found["models"]["another"] = {}
    assert cover.section(found)["unpaid"] == ["the network another"]


def test_without_private_nothing_is_said():
    assert cover.section({"models": {}, "tables": {}}) is None


def test_a_perturber_says_data_of_what_nobody_marked():
    plain = FittedPerturber("label-only", IMAGE, (), (), models={"classifier": None}, tables={"means": None})
    assert plain.marks() == {"models": {"classifier": "data"}, "tables": {"means": "data"}, "range": "data"}
    assert "training" not in plain.description()
