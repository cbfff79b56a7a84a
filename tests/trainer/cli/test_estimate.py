"""edgeveil estimate: a range and its provenance on the terminal and as JSON, and a refusal that ends with 3."""

import json
import re

import pytest
from typer.testing import CliRunner

from edgeveil.devices.latency.estimate import Network
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli import estimate
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.export.convert import to_tflite
from tests.support.export_models import calibration, image_net


def said(*arguments):
    return CliRunner().invoke(app, ["estimate", *map(str, arguments)])


def test_a_range_says_that_it_is_one_and_what_carried_it(monkeypatch, tmp_path):
    network = Network("occu", 6.8e8, 0, 4e5, 32400)
    monkeypatch.setattr(estimate, "networks_of", lambda *_: {"tflite-int8": network})
    done = said(tmp_path / "x.veil", "--for", "raspberry-pi-cpu")
    assert "ESTIMATED, not measured" in done.stdout
    assert "carried by" in done.stdout
    assert "raspberry-pi-5/tflite, tflite-int8 as int8: no range" in done.stdout
    assert done.exit_code == 0
    document = json.loads(said(tmp_path / "x.veil", "--for", "coral-dev-board", "--json").stdout)
    (only,) = document["estimates"]
    assert (document["kind"], only["fps"]) == ("estimate", None)
    assert only["fps_low"] < only["fps_high"]


def test_table_fours_line_can_be_shown_beside_it(monkeypatch, tmp_path):
    network = Network("occu", 6.8e8, 0, 4e5, 32400)
    monkeypatch.setattr(estimate, "networks_of", lambda *_: {"tflite-int8": network})
    board = (tmp_path / "x.veil", "--for", "coral-dev-board", "--reference")
    assert "through 13 networks" in said(*board, "coral-dev-board-cpu/tflite=2000").stdout
    document = json.loads(said(*board, "coral-dev-board-cpu/tflite=2000", "--json").stdout)
    line = document["estimates"][0]["line"]
    assert line["fps_low"] < line["fps"]
    assert "table has 1" in said(*board, "raspberry-pi-5/tflite=3").stdout
    for wrong in ("nowhere/x=3", "coral-dev-board-cpu/tflite", "coral-dev-board-cpu/tflite=-1"):
        assert "reference" in str(said(*board, wrong).exception)


def test_a_small_network_gets_a_bound_and_a_huge_one_is_refused_with_three(monkeypatch, tmp_path):
    model = image_net()
    (tmp_path / "net-int8.tflite").write_bytes(to_tflite.convert(model, ["int8"], calibration(model, 4))["int8"])
    done = said(tmp_path / "net-int8.tflite", "--for", "coral-dev-board")
    assert done.exit_code == 0
    assert "no range" in done.stdout
    assert "times below" in done.stdout
    assert "BOUND: at least" in done.stdout
    assert "ESTIMATE" not in done.stdout.replace("ESTIMATED", ""), (
        "where the operations run on an Edge TPU is not known"
    )
    assert "costs less in every respect than mobilenet_v" in done.stdout
    (tmp_path / "net.tflite").write_bytes((tmp_path / "net-int8.tflite").read_bytes())
    with pytest.raises(BadInput, match="its precision in its name"):
        estimate.networks_of(tmp_path / "net.tflite", None)
    huge = Network("huge", 1e13, 0, 4e9, 32400)
    monkeypatch.setattr(estimate, "networks_of", lambda *_: {"tflite-int8": huge})
    done = said(tmp_path / "x.veil", "--for", "coral-dev-board")
    assert isinstance(done.exception, LimitNotMet)
    assert done.exception.exit_code == 3
    assert "times above" in done.stdout
    assert "at least" not in done.stdout


def test_a_small_network_gets_an_estimate_that_is_told_from_the_bound_with_its_error(monkeypatch, tmp_path):
    small = Network("small", 7.8e5, 0, 1e4, 784)
    monkeypatch.setattr(estimate, "networks_of", lambda *_: {"tflite-int8": small})
    done = said(tmp_path / "x.veil", "--for", "raspberry-pi-cpu")
    three, four, five = re.split(r"\n  (?=raspberry)", done.stdout)[1:]
    for text in (three, four):
        bound, about = (
            float(re.search(words, text)[1]) for words in (r"BOUND: at least (\S+)", r"ESTIMATE: about (\S+)")
        )
        assert about > bound
        assert re.search(r"ERROR of the estimate: [\d.]+ times in the median and [\d.]+ at worst, on 2 of these", text)
        assert "likely too low" in text
    assert "BOUND" in five, "one network measured there allows a bound"
    assert "ESTIMATE" not in five, "and no line"
    document = json.loads(said(tmp_path / "x.veil", "--for", "raspberry-pi-cpu", "--json").stdout)
    found = document["estimates"][0]["by_overhead"]
    assert found["fps"] == pytest.approx(1000 / (found["overhead_ms"] + found["ms_per_gmac"] * 7.8e-4))
    assert 1 < found["error"]["median"] <= found["error"]["worst"]
    assert document["estimates"][2]["by_overhead"] is None
