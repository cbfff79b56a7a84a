"""What was recorded of paper 000 is within the bands it must be in."""

import json

import pytest

from tests.support.checkout import ROOT

DOCS = ROOT / "docs"
RESULTS = DOCS / "results" / "predictors"


def rows(name: str, **wanted):
    found = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


# What reproduces paper 000: e_privacy and CP without attack, e_privacy under it, each with its band.
SCENE = {
    1: (0.88, 0.03, 0.82, 0.01, 0.317, 0.02),
    3: (1.28, 0.05, 0.805, 0.01, 0.231, 0.02),
    5: (3.42, 0.25, 0.824, 0.02, 0.038, 0.007),
}
WQ = {1: (2.570, 0.524, 0.271), 7: (0.685, 0.440, 0.124), 13: (1.152, 0.330, 0.095)}


@pytest.mark.parametrize("wanted", SCENE)
def test_scene_reproduces(wanted):
    (row,) = rows("figures-1-and-2", data="scene", wanted=wanted, splits=10)
    none, none_band, cp, cp_band, attack, attack_band = SCENE[wanted]
    assert row["ours"]["e_privacy"]["mean"] == pytest.approx(none, abs=none_band)
    assert row["ours"]["cp"]["mean"] == pytest.approx(cp, abs=cp_band)
    assert row["ours"]["attack_e_privacy"]["mean"] == pytest.approx(attack, abs=attack_band)


@pytest.mark.parametrize("wanted", WQ)
def test_wq_reproduces(wanted):
    (row,) = rows("figures-1-and-2", data="wq", wanted=wanted, splits=200, labels="first")
    for key, value in zip(("e_privacy", "cp", "attack_e_privacy"), WQ[wanted], strict=True):
        assert row["ours"][key]["mean"] == pytest.approx(value, rel=0.1)


def test_laplace_hides_what_it_costs():
    for row in rows("figure-3"):
        assert 0.90 <= row["ours"]["laplace_ratio"]["mean"] <= 0.96
        assert row["ours"]["attack_cp"]["mean"] > row["ours"]["laplace_cp"]["mean"]


def test_theorem_held_on_every_split():
    for row in rows("figures-1-and-2"):
        assert row["ours"]["theorem_error_float64"]["largest"] <= 1e-9
        assert row["ours"]["theorem_error_float32"]["largest"] <= 1e-5


def test_speed_is_near_the_limit():
    (row,) = rows("cleaner-speed", features=294, rank=5, dtype="float32", batch=4096, what="cleaner")
    assert row["of_limit"] >= 0.5
    assert row["vectors_per_s"] >= 1e6


def test_exported_files_ran_on_every_backend():
    for batch in (1, 256):
        found = {row["what"] for row in rows("cleaner-speed", features=294, rank=5, batch=batch, dtype="float32")}
        assert {name for name in found if name.startswith("exported")} >= {
            "exported tflite on ai-edge-litert",
            "exported onnx on onnxruntime",
            "exported numpy on numpy",
        }


def test_a_million_lines_took_no_more_memory_than_a_tenth_of_them():
    found = rows("stream")
    assert any(row["what"].startswith("cleaner") for row in found)
    for row in found:
        assert row["lines"] >= 1_000_000
        assert row["peak_rss_bytes"] - row["peak_rss_bytes_of_a_tenth"] < 8 * 2**20
