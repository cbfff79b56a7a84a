"""People never seen: who is where, and the page that the record makes."""

import json

import numpy as np
import pytest

from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.readings import Readings
from scripts.reproduce.pages import unseen_people_page
from scripts.reproduce.streams import measure_unseen
from tests.support.checkout import ROOT


def readings() -> Readings:
    rng = np.random.default_rng(0)
    y, z, session = (a.reshape(-1) for a in np.meshgrid(np.arange(2), np.arange(4), np.arange(9), indexing="ij"))
    return Readings(
        rng.integers(0, 255, (len(y), 8, 8, 1)).astype(np.uint8),
        y,
        z,
        ("arms", "walk"),
        tuple(f"person-{n}" for n in (1, 3, 5, 7)),
        "image",
        0.0,
        255.0,
        session=(y * 4 + z) * 9 + session,
    )


def test_nobody_is_both_seen_and_new_and_classes_of_y_stay_in_their_order(tmp_path):
    everybody = readings()
    new = np.isin(everybody.z, (1, 2))
    seen, other = (
        datasets.load(measure_unseen.recipe_of("depth", everybody, rows, tmp_path / name, 3))
        for rows, name in ((~new, "seen"), (new, "new"))
    )
    assert (seen.z_names, other.z_names) == (("person-1", "person-7"), ("person-3", "person-5"))
    assert seen.y_names == other.y_names == ("arms", "walk")
    assert seen.cluster_kind == "session"
    assert (other.x == everybody.x[new]).all()
    assert (other.input.low, other.input.high) == (0.0, 255.0)


def rate(accuracy: float, name: str = "CNN") -> dict:
    return {"name": name, "accuracy": accuracy, "low": accuracy - 0.1, "high": accuracy + 0.1}


def one(best: float) -> dict:
    row = {name: rate(0.4) for name in ("target", "fixed", "transfer")}
    rows = {
        name: {**row, "worst_adaptive": rate(best), "chance": {"majority": 0.3}} for name in unseen_people_page.ROWS
    }
    return {"rows": rows, "people": {"seen": 5, "new": 3}, "training_s": {"perturber": 50.0, "classifier_target": 10.0}}


def test_the_page_has_means_over_splits_and_says_what_is_missing():
    record = {"depth": {"settings": {"adversaries": "quick"}, "splits": {"1, 2, 3": one(0.8), "4, 5, 6": one(0.9)}}}
    page = unseen_people_page.page(record)
    assert "2 splits into 5 people who were seen and 3 who were not" in page
    assert "| PR-GAN | 40.0 [40.0, 40.0] | 40.0 [40.0, 40.0] | 40.0 [40.0, 40.0] | **85.0 [21.5, 100.0]** |" in page
    assert "| 4, 5, 6 | 40.0 [30.0, 50.0] | 40.0 [30.0, 50.0] | 90.0 [80.0, 100.0] | CNN |" in page
    assert page.count("Not recorded.") == 1
    assert unseen_people_page.over_splits([0.5]) == "50.0"


@pytest.mark.skipif(not (ROOT / unseen_people_page.RECORD).is_file(), reason="people never seen are not recorded")
def test_the_committed_page_is_what_the_record_says():
    record = json.loads((ROOT / unseen_people_page.RECORD).read_text())
    assert (ROOT / unseen_people_page.PAGE).read_text() == unseen_people_page.page(record)
