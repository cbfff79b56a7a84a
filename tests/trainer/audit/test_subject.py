"""What is attacked is what the exported pipeline lets out, once per artefact."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.families.code_counts import values
from edgeveil.trainer.audit import subject as perturbing
from edgeveil.trainer.audit.subject import RELEASED, SENT, Bottleneck, Subject, bottleneck
from edgeveil.trainer.perturbers.codebook import stream_codes

SHAPE = (2, 2, 1)


def subject(table_scale: float = 1.0) -> Subject:
    """A pipeline without networks: every reading becomes row 0 of a table, and a label leaves beside it."""
    rows = np.full((2, *SHAPE), 0.5 * table_scale, np.float32)
    data = io.BytesIO()
    np.save(data, rows)
    manifest = {
        "input": {"name": "x", "kind": "image", "shape": [2, 2, 1], "dtype": "uint8", "low": 0.0, "high": 16.0},
        "stream": None,
        "stages": [
            {"stage": "preprocess", "input": "x", "output": "u", "low": 0.0, "high": 16.0},
            {"stage": "output", "input": "u", "output": "x_out", "low": 0.0, "high": 16.0, "dtype": "uint8"},
        ],
        "outputs": [{"name": "frame", "kind": "frame", "tensor": "x_out", "shape": [2, 2, 1], "dtype": "uint8"}],
        "models": {},
        "tables": {"rows": {"file": "tables/rows.npy", "shape": [2, 2, 2, 1], "dtype": "float32"}},
    }
    return Subject(manifest, {"tables/rows.npy": data.getvalue()}, "tflite-int8")


def readings(n: int = 9000) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 17, (n, *SHAPE)).astype(np.uint8)


def test_every_row_goes_through_the_edge_pipeline_in_order(tmp_path):
    x = readings()
    outputs, backends = perturbing.run_artefact(subject(), x, tmp_path)
    assert np.array_equal(outputs["frame"], x)  # this pipeline passes readings through
    assert backends == {}


def test_the_same_artefact_is_run_once(tmp_path, monkeypatch):
    x = readings(100)
    first, _ = perturbing.run_artefact(subject(), x, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(perturbing, "in_chunks", lambda *_: pytest.fail("ran again"))
    again, _ = perturbing.run_artefact(subject(), x, tmp_path)
    assert np.array_equal(first["frame"], again["frame"])


@pytest.mark.parametrize("changed", ["readings", "table", "stage"])
def test_whatever_changes_x_prime_is_run_again(tmp_path, changed):
    x, one = readings(100), subject()
    perturbing.run_artefact(one, x, tmp_path)
    if changed == "readings":
        x = 16 - x
    elif changed == "table":
        one = subject(table_scale=0.5)
    else:
        one.manifest["stages"][1]["high"] = 8.0
    outputs, _ = perturbing.run_artefact(one, x, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert outputs["frame"].max() == (8 if changed == "stage" else 16)


def test_another_model_file_is_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(
        perturbing,
        "load_pipeline",
        lambda _, members, __: SimpleNamespace(
            run=lambda x: {"frame": x + members["g"][0]}, runners={}, close=lambda: None
        ),
    )
    x = readings(10)
    for add in (1, 2):
        artefact = {"file": "g", "sha256": f"{add:064x}", "inputs": [], "outputs": []}
        models = {"generator": {"artefacts": {"tflite-int8": artefact}}}
        manifest = {**subject().manifest, "models": models, "tables": {}}
        outputs, _ = perturbing.run_artefact(Subject(manifest, {"g": bytes([add])}, "tflite-int8"), x, tmp_path)
        assert np.array_equal(outputs["frame"], x + add)


def test_rows_that_lie_in_the_runs_folder_are_not_believed(tmp_path, monkeypatch):
    """The maker computes the name of the kept rows, puts others there, and hands over the run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    x, kept, run = readings(9), tmp_path / "run" / "audit-cache", SimpleNamespace(folder=tmp_path / "run")
    perturbing.run_artefact(subject(), x, kept)
    (path,) = kept.iterdir()
    np.savez(path, frame=np.zeros_like(x))
    about = SimpleNamespace(y=np.zeros(9, int), z=np.zeros(9, int), cluster=None)
    spec = SimpleNamespace(shape=SHAPE, dtype="uint8")
    dataset = SimpleNamespace(x=x, rows=lambda _: about, input=spec)
    perturbed = perturbing.perturb_rows(subject(), run, dataset, np.arange(9))
    assert np.array_equal(perturbed.outputs["frame"], x)
    assert len(list((tmp_path / "own").rglob("*.npz"))) == 1


def test_a_dropped_reading_ends_the_audit_with_its_reason(tmp_path):
    with pytest.raises(BadInput, match="dtype"):
        perturbing.run_artefact(subject(), readings(10).astype(np.int32), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_artefact_that_was_not_exported_is_named_with_those_that_were(tmp_path):
    manifest = {**subject().manifest, "models": {"generator": {"artefacts": {"onnx-float32": {}}}}}
    with pytest.raises(BadInput, match="onnx-float32"):
        perturbing.run_artefact(Subject(manifest, {}, "tflite-int8"), readings(10), tmp_path)


def test_labels_and_codes_stand_beside_the_frame():
    y = np.arange(5)
    labels = SimpleNamespace(y=y[[4, 1]], z=y[[4, 1]], cluster=None)
    dataset = SimpleNamespace(rows=lambda _: labels, input=SimpleNamespace(shape=SHAPE, dtype="uint8"))
    frame, label = readings(2), np.array([2, 1])
    declared = [{"name": "frame", "kind": "frame"}, {"name": "label", "kind": "label"}]
    part = perturbing.released_rows(declared, {"frame": frame, "label": label}, dataset, np.array([4, 1]))
    assert np.array_equal(part.x, frame)
    assert np.array_equal(part.also, [[0, 0, 1], [0, 1, 0]])
    assert part.y.tolist() == [4, 1]
    bare = perturbing.released_rows(declared[1:], {"label": label}, dataset, np.array([4, 1]))
    assert bare.x.shape == frame.shape
    assert not bare.x.any()
    assert bare.also.argmax(axis=1).tolist() == label.tolist()


@pytest.mark.parametrize(("noise", "expected"), [(False, True), (True, False)])
def test_the_code_of_a_frame_alone_is_looked_up_unless_it_is_under_noise(noise, expected):
    """A donor of one of four codes leaves, and nothing else: a receiver has the table."""
    n = 400
    x = readings(n)
    pictures = np.arange(16, dtype=np.uint8).repeat(4).reshape(16, *SHAPE)
    donors = np.kron(np.eye(4), np.ones((1, 4))).astype(np.uint32)
    stages = [
        {"stage": "preprocess", "input": "x", "output": "u", "low": 0.0, "high": 16.0},
        {"stage": "table", "op": "argmax", "input": "u", "output": "code"},
        {"stage": "draw", "distribution": "channel", "input": "code", "table": "donors", "output": "donor"},
        {"stage": "synthesis", "op": "row", "input": "donor", "table": "pictures", "output": "x_out"},
    ]
    if noise:
        stages += [
            {"stage": "draw", "distribution": "laplace", "shape": list(SHAPE), "output": "steps"},
            {"stage": "add", "input": "x_out", "noise": ["steps"], "output": "noisy"},
        ]
    frame = {"name": "frame", "kind": "frame", "tensor": "noisy" if noise else "x_out", "shape": list(SHAPE)}
    found = bottleneck({"stages": stages, "outputs": [frame]}, {"donors": donors, "pictures": pictures})
    assert found.pictured == expected
    sent = x.reshape(n, -1).argmax(axis=1)
    donor = 4 * sent + np.random.default_rng(0).integers(0, 4, n)
    outputs = {"frame": pictures[donor], SENT: sent, RELEASED: donor}
    z = np.arange(n) % 2
    labels = SimpleNamespace(y=z, z=z, cluster=None)
    dataset = SimpleNamespace(rows=lambda _: labels, input=SimpleNamespace(shape=SHAPE, dtype="uint8"))
    about = {"donors": donors}, outputs, found, dataset, np.arange(n), {}
    perturbed = perturbing._perturbed({"outputs": [frame], "input": {}}, *about)
    codes = perturbed.released.codes
    assert (codes is not None) == expected
    if expected:
        label, more = {"name": "label", "kind": "label"}, {**outputs, "label": sent}
        about = {"donors": donors}, more, found, dataset, np.arange(n), {}
        beside = perturbing._perturbed({"outputs": [frame, label], "input": {}}, *about)
        assert beside.released.codes is None  # the class leaves anyway, and is all there is
        assert np.array_equal(codes.received, sent)
        assert len(set(values(perturbed.released, few=True))) == 4  # counted as codes, not as sixteen pictures


# What of a manifest decides all that leaves.

HEAD = [
    {"stage": "preprocess", "input": "x", "output": "u"},
    {"stage": "artefact", "model": "e", "inputs": {"i": "u"}, "outputs": {"l": "logits", "c": "codes"}},
    {"stage": "table", "op": "argmax", "input": "logits", "output": "label"},
]
WITHIN = {"stage": "table", "op": "argmax_within", "input": "codes", "group": "label", "groups": 2, "output": "code"}
LABEL = {"name": "label", "kind": "label", "tensor": "label"}


def picture(of: str) -> list[dict]:
    row = {"stage": "synthesis", "op": "row", "input": of, "table": "pictures", "output": "v"}
    return [row, {"stage": "output", "input": "v", "output": "x_out"}]


def frame_of(tensor: str = "x_out") -> dict:
    return {"name": "frame", "kind": "frame", "tensor": tensor}


def draw(of: str, table: str, to: str) -> dict:
    return {"stage": "draw", "distribution": "channel", "input": of, "table": table, "output": to}


TABLES = {
    "pictures": np.zeros((6, 1)),
    "means": np.zeros((2, 1)),
    "channel": np.kron(np.eye(2), np.full((3, 3), 4)).astype(np.uint32),
    "donors": stream_codes.donors_within(6, 2),
}


def found(stages: list[dict], outputs: list[dict]) -> Bottleneck | str:
    return bottleneck({"stages": [*HEAD, *stages], "outputs": outputs}, TABLES)


def test_what_a_code_and_noise_decide_can_be_counted():
    code = {"name": "code", "kind": "code", "tensor": "code"}
    assert found([WITHIN, *picture("code")], [frame_of(), LABEL, code]) == Bottleneck(
        "code", "code", None, 6, False, True
    )
    behind = found([WITHIN, draw("code", "channel", "c2"), *picture("c2")], [frame_of(), LABEL])
    assert behind == Bottleneck("code", "c2", "channel", 6, False, True)
    donors = found([WITHIN, draw("code", "donors", "d"), *picture("d")], [frame_of(), LABEL, code])
    assert donors == Bottleneck("code", "code", None, 6, False, True)  # the code itself leaves beside its donor
    assert found(picture("label"), [frame_of(), LABEL]) == Bottleneck("label", "label", None, None, False, True)
    hidden = found([draw("label", "channel", "other"), *picture("other")], [frame_of()])
    assert hidden == Bottleneck("label", "other", "channel", None, True, True)


def test_a_held_stream_is_seen_through():
    stages = [
        {"stage": "hold", "op": "majority", "input": "label", "groups": 2, "output": "held"},
        draw("held", "channel", "drawn"),
        {"stage": "hold", "op": "keep", "input": "drawn", "by": "held", "output": "kept"},
        *picture("kept"),
    ]
    both = found(stages, [frame_of(), {**LABEL, "tensor": "held"}])
    assert isinstance(both, Bottleneck)
    assert (both.sent, both.table, both.hidden_label) == ("label", None, False)


def test_more_than_a_code_is_said_to_be_more():
    whole = [{"stage": "output", "input": "codes", "output": "x_out"}]
    assert "more of a reading leaves than a code" in found(whole, [frame_of()])
    beside = found([WITHIN, *whole, *picture("code")[:1]], [frame_of(), LABEL])
    assert "more of a reading" in beside
    mixing = {**TABLES, "channel": np.ones((6, 6), np.uint32)}
    stages = [*HEAD, WITHIN, draw("code", "channel", "c2"), *picture("c2")]
    assert "leaves the class" in bottleneck({"stages": stages, "outputs": [frame_of(), LABEL]}, mixing)
