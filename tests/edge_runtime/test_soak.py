"""soak for five seconds with the faults of twenty; what half an hour of it and service_cost --faults recorded."""

import json

import pytest

from scripts.measure import service_cost, soak
from tests.support import bundles
from tests.support.checkout import ROOT


@pytest.mark.nightly  # by day each fault: outside/test_service.py, inside/test_leaks.py
def test_a_short_soak_accounts_for_every_frame(monkeypatch):
    """Its cleaner is a ready one, which takes no training."""
    monkeypatch.setattr(soak, "FEATURES", 6)
    monkeypatch.setattr(
        soak, "bundle", lambda folder: bundles.make_bundle(folder, example=bundles.cleaner_example()).path
    )
    document = soak.soak(5, hurry=4)
    assert document["exit_code"] == 0
    assert document["unaccounted"] == 0
    assert document["frames_out"] > 40
    assert list(document["record_sizes"]) == ["72"]


def test_the_recorded_soak_accounts_for_every_frame():
    document = json.loads((ROOT / "docs/results/bench/soak.json").read_text())
    assert document["seconds"] >= 1800
    assert document["unaccounted"] == 0
    assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
    assert len(document["record_sizes"]) == 1


def test_the_recorded_ten_minutes_under_faults_account_for_every_frame_and_record():
    document = json.loads((ROOT / "docs/results/bench/field-run.json").read_text())
    frames, sink = document["frames"], document["sink"]
    assert document["run_s"] >= 600
    assert [one["fault"] for one in document["faults"]] == list(service_cost.FAULTS)
    assert frames["in"] == frames["out"] + sum(frames["dropped"].values())
    assert sink["put"] == sink["delivered"] + sink["lost"] + sink["waiting"]
    assert document["counted"]["sink_dropped_total"] == document["counted"]["sink_full"] == sink["lost"] > 0
    received = {"records": sink["delivered"], "twice": 0, "sizes": [32448], "streams": 1}
    assert document["received"] == received
    assert document["ratio"] <= service_cost.MOST_RATIO
    started, ended = document["quiet"]["last"]["rss_bytes"]
    assert ended["outside"] - started["outside"] < 2**20
