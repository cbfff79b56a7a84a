"""scripts/soak.py for twenty seconds, and what half an hour of it recorded."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_short_soak_accounts_for_every_frame(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("soak", ROOT / "scripts/soak.py")
    soak = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "soak", soak)
    spec.loader.exec_module(soak)
    document = soak.soak(20)
    assert document["exit_code"] == 0
    assert document["unaccounted"] == 0
    assert document["frames_out"] > 100
    assert list(document["record_sizes"]) == ["112"]


def test_the_recorded_soak_accounts_for_every_frame():
    document = json.loads((ROOT / "docs/results/bench/soak.json").read_text())
    assert document["seconds"] >= 1800
    assert document["unaccounted"] == 0
    assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
    assert len(document["record_sizes"]) == 1
