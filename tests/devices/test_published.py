"""Published latencies: a sound table, the nearest rows of a board with their sources."""

import json
import re

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.published import Row, for_profile, published
from edgeveil.edge_runtime.errors import BadInput

NANO, PI = "jetson-nano/tensorrt", "raspberry-pi-4/tflite"


def row(macs, precision="fp16", group=NANO):
    return Row(group, precision, f"net{macs:g}", "224x224", macs / 1e8, macs, 0, "made", "counted")


def test_the_published_table_is_sound_and_every_profile_points_into_it():
    rows = published()
    assert len(rows) > 100
    # Nothing is guessed: MACs are counted, or the source is named.
    assert all(re.match("counted$|published: .{10}", row.cost_from) for row in rows)
    assert {row.macs for row in rows if row.model == "mobilenet_v2_1.0" and row.input == "224x224"} == {307_000_000}
    groups = {row.group for row in rows}
    for name in profiles.names():
        assert {c.group for c in profiles.load(name).calibration} <= groups


def test_the_nearest_by_macs_come_first_and_those_of_the_precision_before_others():
    rows = [row(1e8), row(4e8), row(2e9), row(9e9), row(1.1e9, "fp32"), row(1e9, "fp16", PI)]
    (one,) = for_profile({"onnx-float32": 1e9}, profiles.load("jetson-nano"), rows)
    assert (one.group, one.artefact, one.precision, one.macs) == (NANO, "onnx-float32", "fp16", 1e9)
    assert [row.macs for row in one.rows] == [2e9, 4e8, 9e9], "by their ratio: 2, 2.5 and 9 times"
    (one,) = for_profile({"onnx-float32": 1e9}, profiles.load("jetson-nano"), [row(1e8), row(1.1e9, "fp32")])
    assert [row.precision for row in one.rows] == ["fp16", "fp32"]
    json.dumps(one.document(), allow_nan=False)


def test_a_profile_gets_rows_for_each_of_its_boards_or_says_what_is_missing():
    pis = for_profile({"tflite-int8": 6.8e8}, profiles.load("raspberry-pi-cpu"), published())
    assert [one.group for one in pis] == [f"raspberry-pi-{n}/tflite" for n in (3, 4, 5)]
    assert [len(one.rows) for one in pis] == [3, 3, 1]
    assert all(row.group == one.group and row.source for one in pis for row in one.rows)
    with pytest.raises(BadInput, match="edgeveil bench --on"):
        for_profile({"tflite-int8": 6.8e8}, profiles.load("workstation"), published())
    with pytest.raises(BadInput, match="Export the run"):
        for_profile({"onnx-float32": 6.8e8}, profiles.load("coral-dev-board"), published())


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [("27.78", "-1", "above 0"), ("27.78", "soon", "not a table"), ("latency_ms", "ms", "not a table")],
)
def test_a_table_that_is_damaged_is_named(tmp_path, old, new, match):
    from edgeveil.devices.published import TABLE

    (tmp_path / "t.csv").write_text(TABLE.read_text().replace(old, new, 1))
    with pytest.raises(BadInput, match=match):
        published(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ('[[calibration]]\ngroup = "a/b"\nartefact = "onnx-float32"\nprecision = "fp16"', "one of this board's"),
        ('[[calibration]]\ngroup = "a"\nartefact = "tflite-int8"\nprecision = "int8"', "jetson-nano/tensorrt"),
        ('[[calibration]]\ngroup = "a/b"\nartefact = "tflite-int8"\nprecision = "int4"', "fp16"),
        ('[sensors]\nclock = "/sys/x"', "sensors must be a table of clock_khz"),
        ("[sensors]\nclock_khz = 3", "clock_khz must be"),
    ],
)
def test_a_profile_that_is_wrong_about_sensors_or_rows_says_so(tmp_path, more, match):
    board = (profiles.FOLDER / "raspberry-pi-cpu.toml").read_text().partition("\n[[calibration]]")[0]
    (tmp_path / "own.toml").write_text(f"{board}\n{more}\n")
    with pytest.raises(BadInput, match=match):
        profiles.load(tmp_path / "own.toml")
