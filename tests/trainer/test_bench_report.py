"""edgeveil report bench: tables and pictures of recorded results, estimated and measured apart."""

import json

import bundles
import pytest
from typer.testing import CliRunner

from edge_runtime import series
from edge_runtime.bench import Protocol, bench
from edge_runtime.errors import BadInput
from edge_runtime.perturber import Perturber
from trainer.cli import app
from trainer.report.bench import estimator_table, read_results, tables

SIDE = {
    "kind": "side-by-side",
    "what": "in turns",
    "rows": [
        {
            **{"name": "mine", "artefact": "tflite-int8", "backend": "ai-edge-litert", "version": "2.3", "macs": 5e6},
            **{"p50_ms": 0.5, "fps": 2000.0},
            "ratio": {"to": "mine tflite-int8 ai-edge-litert", "median": 1.0, "low": 0.9, "high": 1.1},
        }
    ],
    "refused": [
        {"name": "mine", "artefact": "onnx-int8", "backend": "openvino", "macs": 5e6, "refused": "no such operation"}
    ],
}


@pytest.fixture
def results(tmp_path):
    made = bundles.make_bundle(tmp_path)
    folder = tmp_path / "results"
    folder.mkdir()
    with Perturber.open(made.path, trust=made.trust) as opened:
        document = bench(opened, Protocol(series.Floors(50, 0.01), series.Floors(5, 0.001), loop_seconds=0))
    (folder / "here.json").write_text(json.dumps(document))
    (folder / "side.json").write_text(json.dumps(SIDE))
    (folder / "something-else.json").write_text("{}")
    return folder


def test_the_command_writes_tables_and_pictures(results, tmp_path):
    done = CliRunner().invoke(
        app, ["report", "bench", "--results", str(results), "--out", str(tmp_path / "out")], catch_exceptions=False
    )
    assert done.exit_code == 0
    text = (tmp_path / "out" / "bench.md").read_text()
    assert "INVALID: too short" in text
    assert "not measured" in text
    assert "REFUSED: no such operation" in text
    assert "1.00 (0.90 to 1.10) of mine" in text
    for name in ("latency.svg", "windows.svg"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"<?xml")


def test_a_result_of_another_schema_or_no_json_is_one_sentence(results):
    document = json.loads((results / "here.json").read_text())
    (results / "old.json").write_text(json.dumps({**document, "schema": 1}))
    with pytest.raises(BadInput, match=r"old\.json is of schema 1; 2 was expected"):
        read_results(results)
    (results / "old.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read as JSON"):
        read_results(results)
    with pytest.raises(BadInput, match="there are none"):
        read_results(results / "nowhere")


def test_the_recorded_estimator_makes_a_table(request):
    recorded = request.config.rootpath / "docs/results/bench/estimator.json"
    guide = (request.config.rootpath / "docs/benchmarks.md").read_text()
    assert estimator_table(json.loads(recorded.read_text())) in guide  # scripts/measure_estimator.py writes it
    text = tables(
        {"bench": [], "side-by-side": [], "tables": [], "estimator": [("e", json.loads(recorded.read_text()))]}
    )
    assert "coral-dev-board/edgetpu | 20 |" in text
    assert "100%" in text
