"""edgeveil report bench: tables and pictures of recorded results."""

import json
import re

import pytest
from typer.testing import CliRunner

from edgeveil.edge_runtime.bench import latency
from edgeveil.edge_runtime.bench.protocol import Protocol, bench
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.trainer.cli.main import app
from edgeveil.trainer.report.bench import read_results, tables
from tests.support import bundles

SIDE = {
    "kind": "side-by-side",
    "what": "in turns",
    "verdict": "INVALID",
    "reasons": ["busy: a hog"],
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


RATIO = {"artefact": "onnx-int8", "backend": "openvino", "version": "2026.4", "harness_ms": 2.0, "ratio": 1.01}
APP = {**RATIO, "benchmark_app_ms": 1.98}
RUN = {"latency_ms": {"p50": 0.5}, "cpu_ratio": 1.0, "verdict": "VALID", "reasons": []}
START = {"artefact": "onnx-int8", "backend": "openvino", "bare_ms": 500.0, "ours_ms": 600.0, "ratio_ms": 1.2}
SCRIPTS = {
    "harness": {
        "bare": [{**RATIO, "bare_ms": 1.98}],
        "benchmark_app": APP,
        "benchmark_app_and_copies": {**APP, "ratio": 1.07},
        "limits": {"bare": 0.03, "benchmark_app": 0.1},
    },
    "repeat": {
        "apart": 0.02,
        "most_apart": 0.1,
        "quiet": [RUN, RUN],
        "beside_hogs": {**RUN, "verdict": "INVALID", "reasons": ["busy: hogs"]},
    },
    "start": {
        "rows": [
            {**START, "bare_peak": 2**26, "ours_peak": 2**27, "ratio_peak": 2.0},
            {"artefact": "onnx-int8", "backend": "onnxruntime", "refused": "no such operation"},
        ],
        "precision": [{"network": "mine", "format": "onnx", "backend": "openvino", "int8_over_float32": 0.31}],
    },
}


@pytest.fixture
def results(tmp_path):
    made = bundles.make_bundle(tmp_path)
    folder = tmp_path / "results"
    folder.mkdir()
    with Perturber.open(made.path, trust=made.trust) as opened:
        document = bench(opened, Protocol(latency.Minimum(50, 0.01), latency.Minimum(5, 0.001), loop_seconds=0))
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
    assert re.search(r"!\[Time of a frame, median: here .* ms \(INVALID\).*\]\(latency\.svg\)", text)
    assert re.search(r"!\[Median of each window .+\]\(windows\.svg\)", text)
    page = (tmp_path / "out" / "bench.html").read_text()
    assert re.search(r'<tr class="invalid"><th scope="row">here</th>.*INVALID: too short', page)
    assert all(re.search('alt="[A-Z]', image) for image in re.findall("<img[^>]*>", page))
    assert "**" not in page
    for name in ("latency.svg", "windows.svg"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"<?xml")


def test_what_the_scripts_record_has_a_table_each_and_a_busy_machine_is_said(results, tmp_path):
    for kind, document in SCRIPTS.items():
        verdict = {"verdict": "INVALID", "reasons": ["busy: others"]} if kind == "start" else {"verdict": "VALID"}
        (results / f"{kind}.json").write_text(
            json.dumps({"kind": kind, "what": f"{kind} it is", **verdict, **document})
        )
    text = tables(read_results(results))
    assert "in turns. **INVALID: busy: a hog.**" in text
    assert "| onnx-int8 | openvino 2026.4 | a bare loop | 1.980 | 2.000 | 1.010 x | within 3% |" in text
    assert "ours with copies in and out | 1.980 | 2.000 | 1.070 x | not judged" in text
    assert "p50 2.0% apart" in text
    whole = json.loads((results / "here.json").read_text())
    (results / "repeat.json").write_text(
        json.dumps({"kind": "repeat", **SCRIPTS["repeat"], "quiet": [whole], "beside_hogs": whole})
    )
    assert [name for name, _ in read_results(results)["bench"]] == ["here", "repeat 1", "repeat 2"]
    assert "| under load | 0.5000 | 100% | INVALID | busy: hogs |" in text
    assert "start it is. **INVALID: busy: others.**" in text
    assert "| onnx-int8 | openvino | 500 | 600 | 1.20 x | 64 | 128 | 2.00 x |" in text
    assert "| mine | onnx | openvino | 0.31 x |" in text


def test_a_result_of_another_schema_or_no_json_is_one_sentence(results):
    document = json.loads((results / "here.json").read_text())
    (results / "old.json").write_text(json.dumps({**document, "schema": 1}))
    with pytest.raises(BadInput, match=r"old\.json is of schema 1; 3 was expected"):
        read_results(results)
    (results / "old.json").write_text("{")
    with pytest.raises(BadInput, match="cannot be read as JSON"):
        read_results(results)
    with pytest.raises(BadInput, match="there are none"):
        read_results(results / "nowhere")
