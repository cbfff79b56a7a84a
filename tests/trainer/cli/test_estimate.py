"""``edgeveil board estimate``: the published rows that are nearest to a network, each with its source."""

import json

import pytest
from typer.testing import CliRunner

from edgeveil.devices import published
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.cli import cost_command
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.export.converters.tf_lite import TfLite
from tests.support.export_models import calibration, image_net


def said(*arguments):
    return CliRunner().invoke(app, ["board", "estimate", *map(str, arguments)])


def test_the_nearest_rows_are_shown_with_their_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(cost_command, "macs_of", lambda *_: {"tflite-int8": 6.8e8})
    done = said(tmp_path / "x.veil", "--for", "raspberry-pi-cpu")
    assert done.exit_code == 0
    title, *lines = done.stdout.splitlines()
    assert "measured by others" in title
    assert lines[0] == "  raspberry-pi-3/tflite, tflite-int8 as int8, 680 M MACs:"
    assert lines[1].endswith(")")
    assert " times " in lines[1]
    document = json.loads(said(tmp_path / "x.veil", "--for", "raspberry-pi-cpu", "--json").stdout)
    assert (document["schema"], document["kind"]) == (2, "estimate")
    three = document["estimates"][0]
    assert (three["group"], three["macs"]) == ("raspberry-pi-3/tflite", 6.8e8)
    assert f"{three['rows'][0]['latency_ms']:g} ms: {three['rows'][0]['model']}" in lines[1]
    assert all(row["source"] for row in three["rows"])


def test_without_a_row_for_any_board_it_ends_with_three(monkeypatch, tmp_path):
    monkeypatch.setattr(cost_command, "macs_of", lambda *_: {"tflite-int8": 6.8e8})
    monkeypatch.setattr(published, "published", list)
    done = said(tmp_path / "x.veil", "--for", "coral-dev-board")
    assert isinstance(done.exception, LimitNotMet)
    assert "nothing was measured there" in done.stdout


def test_macs_are_counted_in_the_file_and_its_name_has_the_precision(tmp_path):
    model = image_net()
    (tmp_path / "net-int8.tflite").write_bytes(TfLite().convert(model, ["int8"], calibration(model, 4))["int8"])
    done = said(tmp_path / "net-int8.tflite", "--for", "coral-dev-board")
    assert done.exit_code == 0
    assert "times as many" in done.stdout
    (tmp_path / "net.tflite").write_bytes((tmp_path / "net-int8.tflite").read_bytes())
    with pytest.raises(BadInput, match="its precision in its name"):
        cost_command.macs_of(tmp_path / "net.tflite", None)
