"""Estimates of networks that the published table does not have: those that the record says, and of no others."""

import json

import pytest

from scripts.reproduce.estimator import not_in_table
from tests.support.checkout import ROOT


def test_the_record_is_what_the_estimator_says_today():
    recorded = json.loads((ROOT / not_in_table.RESULT).read_text())["rows"]
    for said, kept in zip(not_in_table.rows(), recorded, strict=True):
        for key in ("fps_low", "fps", "fps_high"):
            assert said.pop(key) == pytest.approx(kept.pop(key), rel=0.01)
        assert said == kept


def test_a_row_of_the_table_is_none_of_these(monkeypatch):
    row = ("resnet50", "jetson-nano/tensorrt", "fp16", 27.78, "NV")
    monkeypatch.setattr(not_in_table, "MEASURED", [row])
    with pytest.raises(ValueError, match="is in the table"):
        not_in_table.rows()
