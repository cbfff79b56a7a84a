"""The committed pages on MNIST and on codebooks are what the scripts make of the committed records."""

import json

from scripts.reproduce import record
from scripts.reproduce.pages import codebooks_page, emission_times_page, four_slices_page
from scripts.reproduce.pages.dp import local_page, private_page
from scripts.reproduce.pages.papers import mnist_page
from scripts.reproduce.pages.series import motion_page
from scripts.reproduce.publishing import publishing_page
from scripts.reproduce.security import guards, guards_page
from scripts.reproduce.series import motion, motion_unseen
from scripts.reproduce.strangers import strangers, strangers_page
from tests.support.checkout import ROOT

HOW = "run python -m scripts.reproduce.pages.write_pages"


def test_the_page_on_mnist_is_what_its_record_says():
    record = json.loads((ROOT / mnist_page.RECORD).read_text())
    assert (ROOT / mnist_page.PAGE).read_text() == mnist_page.page(record), HOW


def test_the_page_on_codebooks_is_what_their_records_say():
    assert (ROOT / codebooks_page.PAGE).read_text() == codebooks_page.page(ROOT), HOW


def test_the_page_on_four_slices_is_what_the_records_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert four_slices_page.PAGE.read_text() == four_slices_page.page(), HOW


def test_the_page_on_emission_times_is_what_its_record_says():
    record = json.loads((ROOT / emission_times_page.RECORD).read_text())
    assert (ROOT / emission_times_page.PAGE).read_text() == emission_times_page.page(record), HOW


def test_the_page_on_guards_is_what_its_record_says():
    record = json.loads((ROOT / guards.RESULT).read_text())
    assert (ROOT / guards_page.PAGE).read_text() == guards_page.page(record), HOW


def test_the_page_on_local_privacy_is_what_its_records_say():
    found = (json.loads((ROOT / path).read_text()) for path in local_page.RECORDS)
    assert (ROOT / local_page.PAGE).read_text() == local_page.page(*found), HOW


def test_the_page_on_publishing_is_what_its_records_say():
    found = (json.loads((ROOT / path).read_text()) for path in publishing_page.RECORDS)
    assert (ROOT / publishing_page.PAGE).read_text() == publishing_page.page(*found), HOW


def test_the_page_on_private_models_is_what_its_records_say():
    assert (ROOT / private_page.PAGE).read_text() == private_page.page(private_page.records(ROOT)), HOW


def test_the_page_on_strangers_is_what_its_record_says():
    record = json.loads((ROOT / strangers.RESULT).read_text())
    assert (ROOT / strangers_page.PAGE).read_text() == strangers_page.page(record), HOW
    assert {row["outcome"] for row in record["rows"]} <= {"sealed", "said why"}
    assert not any(step.get("traceback") for row in record["rows"] for step in row["steps"])


def test_a_figure_that_became_worse_is_marked():
    old = {"one": {"y right, %": [90.0], "z, best attack, %": [60.0], "kept: ink": [0.9], "only before": [1.0]}}
    new = {"one": {"y right, %": [91.0], "z, best attack, %": [61.0], "kept: ink": [0.8]}}
    found = {row["figure"]: row["worse"] for row in four_slices_page.compared(old, new)}
    assert found == {"y right, %": False, "z, best attack, %": True, "kept: ink": True}


def test_the_note_is_on_pages_with_old_records_alone():
    page, new, old = "# Title\n\nText", {"row": {"learned_on": "fresh"}}, {"row": {}}
    assert four_slices_page.noted(page, new) == page
    assert "Recorded with three slices**: ap." in four_slices_page.noted(page, new, old, which=": ap")


def test_the_page_on_motion_is_what_its_record_says():
    records = [record.read(ROOT / one) for one in (motion.RESULT, motion_unseen.RESULT, motion_page.SWEPT)]
    assert (ROOT / motion_page.PAGE).read_text() == motion_page.page(*records), HOW
