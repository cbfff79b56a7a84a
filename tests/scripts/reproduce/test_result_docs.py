"""The committed pages on MNIST and on codebooks are what the scripts make of the committed records."""

import json

from scripts.reproduce import record
from scripts.reproduce.dp import federated_devices, local, local_sgd
from scripts.reproduce.pages import codebooks_page, four_slices_page, write_pages
from scripts.reproduce.pages.dp import private_page
from scripts.reproduce.pages.series import motion_page
from scripts.reproduce.security import guards
from scripts.reproduce.series import motion, motion_unseen
from scripts.reproduce.strangers import strangers
from tests.support.checkout import ROOT

HOW = "run python -m scripts.reproduce.pages.write_pages"


def test_the_page_on_mnist_is_what_its_record_says():
    record = json.loads((ROOT / write_pages.RECORD).read_text())
    assert (ROOT / write_pages.PAGE).read_text() == write_pages.page(record), HOW


def test_the_page_on_codebooks_is_what_their_records_say():
    assert (ROOT / codebooks_page.PAGE).read_text() == codebooks_page.page(ROOT), HOW


def test_the_page_on_four_slices_is_what_the_records_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert write_pages.FOUR_SLICES_PAGE.read_text() == write_pages.four_slices(), HOW


def test_the_page_on_emission_times_is_what_its_record_says():
    record = json.loads((ROOT / write_pages.EMISSION).read_text())
    assert (ROOT / write_pages.EMISSION_PAGE).read_text() == write_pages.emission_times(record), HOW


def test_the_page_on_guards_is_what_its_record_says():
    record = json.loads((ROOT / guards.RESULT).read_text())
    assert (ROOT / write_pages.GUARDS_PAGE).read_text() == write_pages.guards_page(record), HOW


def test_the_page_on_local_privacy_is_what_its_records_say():
    records = (local.RESULT, local_sgd.RESULT, federated_devices.RESULT)
    found = (json.loads((ROOT / path).read_text()) for path in records)
    assert (ROOT / write_pages.LOCAL_PAGE).read_text() == write_pages.local_privacy(*found), HOW


def test_the_page_on_publishing_is_what_its_records_say():
    found = (json.loads((ROOT / path).read_text()) for path in write_pages.PUBLISHING)
    assert (ROOT / write_pages.PUBLISHING_PAGE).read_text() == write_pages.publishing(*found), HOW


def test_the_page_on_private_models_is_what_its_records_say():
    assert (ROOT / write_pages.PRIVATE_PAGE).read_text() == write_pages.private_models(private_page.records(ROOT)), HOW


def test_the_page_on_strangers_is_what_its_record_says():
    record = json.loads((ROOT / strangers.RESULT).read_text())
    assert (ROOT / write_pages.STRANGERS_PAGE).read_text() == write_pages.of_strangers(record), HOW
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
    records = [record.read(ROOT / one.RESULT) for one in (motion, motion_unseen)]
    assert (ROOT / motion_page.PAGE).read_text() == motion_page.page(*records), HOW
