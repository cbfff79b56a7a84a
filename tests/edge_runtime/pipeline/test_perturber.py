"""edge_runtime.Perturber: verified, self-tested, watched."""

import io

import numpy as np
import pytest

from edgeveil.edge_runtime.api import (
    BadInput,
    BundleRefused,
    DeviceFailed,
    FrameDropped,
    Perturber,
    PrivacyStop,
    RawFrame,
)
from edgeveil.edge_runtime.backends import select
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.perturber import RUN, PassthroughCheck
from tests.support import bundles, tiny_models


def open_numpy(folder, change=None, example=None, **options):
    made = bundles.make_bundle(folder, change=change, example=example)
    return Perturber.open(made.path, trust=made.trust, **options)


def frames(n, seed=0):
    x = np.random.default_rng(seed).integers(0, 17, (n, 4)).astype(np.uint8)
    return [RawFrame(row, index) for index, row in enumerate(x)]


@pytest.mark.parametrize("variant", tiny_models.VARIANTS)
def test_a_real_bundle_runs(tiny, variant):
    with Perturber.open(tiny.path, trust=tiny.trust, artefact=variant) as perturber:
        assert perturber.artefact == variant
        assert perturber.info["self_test"]["max_abs"] <= 4
        assert (
            perturber.info["artefact_sha256"]["generator"]
            == (tiny.manifest["models"]["generator"]["artefacts"][variant]["sha256"])
        )
        out = perturber.perturb(RawFrame(np.full(tiny_models.SHAPE, 200, np.uint8), 3))
        assert (out.index, out.data.shape, out.data.dtype) == (3, tiny_models.SHAPE, np.uint8)


def test_noise_is_new_for_every_frame(tiny):
    with Perturber.open(tiny.path, trust=tiny.trust, artefact="tflite-float32") as perturber:
        frame = RawFrame(np.full(tiny_models.SHAPE, 200, np.uint8), 0)
        assert not np.array_equal(perturber.perturb(frame).data, perturber.perturb(frame).data)


def test_bytes_and_a_trust_object_will_do(tiny):
    Perturber.open(tiny.path.read_bytes(), trust=open_trust(tiny.trust)).close()


def test_auto_takes_the_first_preferred_artefact_that_can_run(tiny, monkeypatch):
    def chosen(**options):
        with Perturber.open(tiny.path, trust=tiny.trust, **options) as perturber:
            return perturber.artefact, perturber.info["backends"]["generator"]["backend"]

    assert chosen() == ("tflite-int8", "ai-edge-litert")
    assert chosen(backend="onnxruntime") == ("onnx-float32", "onnxruntime")
    real = select.importlib.util.find_spec
    monkeypatch.setattr(select.importlib.util, "find_spec", lambda name: real(name) if name == "onnxruntime" else None)
    assert chosen() == ("onnx-float32", "onnxruntime")
    with pytest.raises(DeviceFailed, match=r"tflite-int8: .*pip install ai-edge-litert") as caught:
        chosen(artefact="tflite-int8")
    assert caught.value.exit_code == 2
    monkeypatch.setattr(select.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceFailed, match=r"pip install ai-edge-litert.*pip install onnxruntime"):
        chosen()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"artefact": "tflite-int4"}, "no artefact 'tflite-int4'; it has onnx-float32"),
        ({"backend": "tensorrt"}, "expected a backend of .* got 'tensorrt'"),
        ({"artefact": "tflite-int8", "backend": "onnxruntime"}, "expected a backend that runs tflite"),
    ],
)
def test_names_nobody_knows_are_refused(tiny, options, match):
    with pytest.raises(BadInput, match=match):
        Perturber.open(tiny.path, trust=tiny.trust, **options)


def test_a_bundle_without_models_runs_on_numpy_alone(tmp_path):
    with open_numpy(tmp_path) as perturber:
        assert perturber.artefact == "numpy"
        out = perturber.perturb(RawFrame(np.array([9, 1, 2, 3], np.uint8), 0))
        assert out.data.tolist() == [16, 0, 0, 0]
        assert out.outputs["label"] == 0
    with pytest.raises(BadInput, match="no models"):
        open_numpy(tmp_path, artefact="tflite-int8")


def test_nothing_is_looked_at_before_the_signature(tmp_path, monkeypatch):
    made = bundles.make_bundle(tmp_path)
    opened = []
    monkeypatch.setattr("edgeveil.edge_runtime.pipeline.perturber.load_pipeline", lambda *a, **k: opened.append(a))
    data = bytearray(made.path.read_bytes())
    data[-len(data) // 3] ^= 1
    with pytest.raises(BundleRefused):
        Perturber.open(bytes(data), trust=made.trust)
    stranger = bundles.make_bundle(tmp_path / "other", key=bundles.STRANGER)
    with pytest.raises(BundleRefused) as caught:
        Perturber.open(stranger.path, trust=made.trust)
    assert caught.value.reason == "untrusted-key"
    assert not opened


def test_a_development_bundle_is_announced_loudly(tmp_path, capsys):
    made = bundles.make_bundle(tmp_path, development=True)
    Perturber.open(made.path, trust=made.trust).close()
    assert "*** DEVELOPMENT BUNDLE: numpy-example" in capsys.readouterr().err


def test_a_bundle_nobody_audited_is_said_to_be_so(tmp_path, capsys):
    open_numpy(tmp_path).close()
    assert "not audited" in capsys.readouterr().err


def replace(name, function):
    def change(manifest, members):
        members[name] = bundles.npy(function(np.load(io.BytesIO(members[name]))))

    return change


@pytest.mark.parametrize(
    "change",
    [
        replace("golden/numpy.frame.npy", lambda x: x + 1),
        replace("golden/numpy.frame.npy", lambda x: x.astype(np.int16)),
        replace("golden/numpy.frame.npy", lambda x: x[:2]),
        replace("golden/numpy.label.npy", lambda x: x + 1),
    ],
)
def test_an_output_that_is_not_the_recorded_one_fails_the_self_test(tmp_path, change):
    with pytest.raises(DeviceFailed, match="golden self-test"):
        open_numpy(tmp_path, change)


def test_a_golden_input_of_another_form_fails_the_self_test(tmp_path):
    with pytest.raises(DeviceFailed, match=r"dropped \(shape\)"):
        open_numpy(tmp_path, replace("golden/input.npy", lambda x: x[:, :2]))


def test_the_tolerance_is_the_recorded_one(tiny, tmp_path):
    def shifted(by):
        manifest, members = tiny.manifest, dict(tiny.members)
        name = "golden/tflite-float32.frame.npy"
        frame = np.load(io.BytesIO(members[name])).astype(int)
        members[name] = bundles.npy(np.clip(frame + by, 0, 255).astype(np.uint8))
        made = bundles.make_bundle(tmp_path, example=(manifest, members))
        return Perturber.open(made.path, trust=made.trust, artefact="tflite-float32")

    shifted(4).close()
    with pytest.raises(DeviceFailed, match="off by 5"):
        shifted(5)


def test_wrong_production_kernels_are_caught(tiny, monkeypatch):
    """A kernel that is off, silently, in the one interpreter that will run."""
    from edgeveil.edge_runtime.backends.tflite import LiteRT

    right = LiteRT._infer
    monkeypatch.setattr(LiteRT, "_infer", lambda self, feeds: [np.roll(v, 3, axis=1) for v in right(self, feeds)])
    with pytest.raises(DeviceFailed, match="golden self-test of tflite-int8"):
        Perturber.open(tiny.path, trust=tiny.trust, artefact="tflite-int8")


def with_identity(allowed, golden=None):
    """Every reading of the golden input is the row of its class, so it comes out as it went in."""

    def change(manifest, members):
        rows = np.array([[16, 0, 0, 0], [2, 4, 8, 16]] if golden is None else golden, np.uint8)
        means = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.125, 0.25, 0.5, 1]], np.float32)
        members["tables/means.npy"] = bundles.npy(means)
        members["golden/input.npy"] = bundles.npy(rows)
        label = rows.argmax(axis=1)
        members["golden/numpy.label.npy"] = bundles.npy(label)
        members["golden/numpy.frame.npy"] = bundles.npy(np.rint(means[label] * 16).astype(np.uint8))
        manifest["perturber"]["identity_allowed"] = allowed

    return change


def test_a_model_that_lets_a_golden_vector_through_is_stopped_at_open(tmp_path):
    with pytest.raises(PrivacyStop, match="golden vector came out as it went in"):
        open_numpy(tmp_path, with_identity(False))
    open_numpy(tmp_path, with_identity(True)).close()


def test_golden_vectors_that_cannot_show_it_are_refused(tmp_path):
    with pytest.raises(PrivacyStop, match="every golden vector is constant"):
        open_numpy(tmp_path, with_identity(False, golden=[[3, 3, 3, 3]]))


UNCHANGED, CHANGED = [16, 0, 0, 0], [16, 1, 0, 0]


HOW = {
    "one": lambda perturber, frames: [perturber.perturb(frame) for frame in frames],
    "batch": lambda perturber, frames: perturber.perturb_batch(frames),
}


def feed(perturber, rows, how="one"):
    return HOW[how](perturber, [RawFrame(np.array(row, np.uint8), index) for index, row in enumerate(rows)])


@pytest.mark.parametrize("how", HOW)
def test_thirty_unchanged_frames_in_a_row_stop_everything_for_good(tmp_path, how):
    perturber = open_numpy(tmp_path, with_identity(False, golden=[CHANGED]))
    assert len(feed(perturber, [UNCHANGED] * (RUN - 1), how)) == RUN - 1
    with pytest.raises(PrivacyStop, match="30 frames in a row"):
        feed(perturber, [UNCHANGED], how)
    with pytest.raises(PrivacyStop):
        feed(perturber, [CHANGED], how)


def test_unchanged_frames_among_others_count_in_a_batch_too(tmp_path):
    perturber = open_numpy(tmp_path, with_identity(False, golden=[CHANGED]))
    for _ in range(2):
        feed(perturber, [CHANGED] * 5 + [UNCHANGED] * (RUN - 1) + [CHANGED] * 5, "batch")
    with pytest.raises(PrivacyStop):
        feed(perturber, [CHANGED] * 5 + [UNCHANGED] * RUN, "batch")


def test_one_changed_frame_starts_the_count_anew(tmp_path):
    perturber = open_numpy(tmp_path, with_identity(False, golden=[CHANGED]))
    feed(perturber, ([UNCHANGED] * (RUN - 1) + [CHANGED]) * 3)


def test_constant_frames_neither_count_nor_start_anew(tmp_path):
    perturber = open_numpy(tmp_path, with_identity(False, golden=[CHANGED]))
    feed(perturber, [UNCHANGED] * (RUN - 1) + [[0, 0, 0, 0]] * 50)
    with pytest.raises(PrivacyStop):
        feed(perturber, [UNCHANGED])


def test_where_identity_is_allowed_nothing_is_counted(tmp_path):
    feed(open_numpy(tmp_path, with_identity(True, golden=[CHANGED])), [UNCHANGED] * 100)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint16"])
def test_rounding_does_not_hide_a_pass_through(dtype):
    high = 3.7 if dtype[0] == "f" else 1000.0
    manifest, _ = bundles.numpy_example()
    manifest["input"] |= {"dtype": dtype, "low": 0.0, "high": high}
    watch = PassthroughCheck(parse(manifest))
    x = (np.random.default_rng(0).random(4) * high).astype(dtype)
    same = watch._same(x)
    assert watch.unchanged(x, same)
    assert not watch.unchanged(x, x[::-1].copy())
    assert not watch.unchanged(np.full(4, 1, dtype), np.full(4, 1, dtype))
    if dtype[0] == "f":
        assert watch.unchanged(x, x + dtype_step(high))
        assert not watch.unchanged(x, x + 10 * dtype_step(high))


def dtype_step(high):
    return np.float32(high / 255 / 3)


def test_dropped_frames_are_counted_by_reason(tmp_path):
    perturber = open_numpy(tmp_path)
    good, short, other = (RawFrame(np.zeros(n, t), 0) for n, t in ((4, np.uint8), (3, np.uint8), (4, np.int8)))
    for frame in (short, other, short):
        with pytest.raises(FrameDropped):
            perturber.perturb(frame)
    assert len(perturber.perturb_batch([good, short, other, good])) == 2
    assert perturber.dropped == {"shape": 3, "dtype": 2}
    told = []
    assert len(perturber.perturb_batch([good, short, good], on_drop=lambda *drop: told.append(drop))) == 2
    assert told == [(short, "shape")]
    assert perturber.dropped == {"shape": 4, "dtype": 2}


def test_a_channel_bundle_lets_codes_out_alone(tmp_path):
    with open_numpy(tmp_path, example=bundles.channel_example()) as perturber:
        outs = perturber.perturb_batch(frames(50))
        assert {out.data.shape for out in outs} == {()}
        assert {tuple(out.outputs) for out in outs} == {("code",)}
