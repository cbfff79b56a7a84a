"""The findings of the review of the boards: red on version 0.1 and green today, on record; how both are told."""

import json
import re

import pytest

from scripts.reproduce.field_review import field_review, field_review_page
from tests.support.boards import version_0_1
from tests.support.checkout import ROOT

pytestmark = pytest.mark.programs

RECORD = json.loads((ROOT / field_review.RESULT).read_text())
FINDINGS = field_review.read_findings()
# Their probes take well under a second each.
QUICK = ("root_in_memory", "imagers_first_run", "throttled_between_samples", "network_camera_as_a_service")


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    return version_0_1.unpacked(tmp_path_factory.mktemp("older")).folder


def test_every_finding_is_on_record_red_on_0_1_and_green_today():
    assert [row["finding"] for row in RECORD["rows"]] == [one["text"] for one in FINDINGS]
    for finding, row in zip(FINDINGS, RECORD["rows"], strict=True):
        assert row["on_0_1"]["red"], row["finding"]
        assert re.search(finding["red"], row["on_0_1"]["answer"]).group() == row["on_0_1"]["shows"]
        assert row["today"]["green"], row["finding"]
        assert [one["test"] for one in row["today"]["tests"]] == finding["tests"]
    assert RECORD["red"] == RECORD["green"] == len(FINDINGS)
    assert RECORD["older"]["commit"] == version_0_1.COMMIT


def test_every_test_that_is_named_is_there():
    for test in [test for finding in FINDINGS for test in finding["tests"]]:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text()
        assert not name or f"def {name.partition('[')[0]}(" in text, test


@pytest.mark.parametrize("probe", QUICK)
def test_0_1_answers_as_is_on_record(older, probe):
    (finding,) = [one for one in FINDINGS if one["probe"] == probe]
    (row,) = [one for one in RECORD["rows"] if one["finding"] == finding["text"]]
    assert field_review.asked(finding, older, ()) == row["on_0_1"]


def test_an_answer_without_the_finding_and_a_probe_that_fails_are_not_red(older):
    (finding,) = [one for one in FINDINGS if one["probe"] == "throttled_between_samples"]
    found = field_review.asked({**finding, "red": "problems: throttled"}, older, ())
    assert (found["red"], found["shows"]) == (False, None)
    found = field_review.asked({**finding, "probe": "no_such_probe", "red": ""}, older, ())
    assert not found["red"]
    assert "no_such_probe" in found["answer"]


def test_green_is_what_passed_and_something_did():
    outcomes = field_review.Outcomes()
    outcomes.of = {
        "tests/a.py::test_x[1]": "passed",
        "tests/a.py::test_x[2]": "skipped",
        "tests/b.py::test_y": "skipped",
    }
    before = {"red": True}

    def green(*tests):
        row = field_review.row({"text": "t", "state": "s", "tests": tests}, before, outcomes)
        return row["today"]["green"]

    assert green("tests/a.py")
    assert green("tests/a.py::test_x", "tests/b.py")
    assert not green("tests/a.py::test_x[2]")
    assert not green("tests/a.py", "tests/c.py")
    assert not green("tests/a.py::test")
    outcomes.of["tests/a.py::test_z"] = "failed"
    assert not green("tests/a.py")


def test_the_page_is_what_its_record_says():
    assert (ROOT / field_review_page.PAGE).read_text() == field_review_page.page(RECORD), (
        "run python -m scripts.reproduce.pages.write_pages"
    )


def test_a_finding_that_is_not_red_is_said_on_the_page():
    (first, *_) = RECORD["rows"]
    changed = {**first, "on_0_1": {**first["on_0_1"], "red": False, "shows": None, "answer": "all well"}}
    assert ": not red, `all well` |" in field_review_page.page({**RECORD, "rows": [changed]})
