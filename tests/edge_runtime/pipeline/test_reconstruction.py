"""Raw data under another name: found at open and at a recheck, by a least-squares map and by counting bits."""

import contextlib
import io
import subprocess
import sys

import numpy as np
import pytest

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.api import FrameDropped, Perturber, PrivacyStop
from edgeveil.edge_runtime.manifest.manifest import Input, parse
from edgeveil.edge_runtime.outside.service import Service
from edgeveil.edge_runtime.outside.status import Log
from edgeveil.edge_runtime.pipeline import reconstruction
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.pipeline.reconstruction import (
    LIMIT,
    exact_share,
    index_values,
    reading_bits,
    refuse_capacity,
    refuse_reconstruction,
)
from tests.support import bundles, tiny_models

SHAPES = [(6,), (8, 8, 1), (24, 24, 3)]
EXAMPLES = ("numpy", "whole_samples", "channel", "held")


def flat(x):
    return x.reshape(len(x), -1)


def permuted(x):
    order = np.random.default_rng(0).permutation(x[0].size)
    return flat(x)[:, order].reshape(x.shape)


def split(x):
    half = x[0].size // 2
    frame = flat(x).copy()
    frame[:, half:] = 0
    return {"frame": frame.reshape(x.shape), "code": flat(x)[:, half:].astype(np.float32) * 3}


DISGUISES = {
    "itself": lambda x: {"frame": x},
    "inverted": lambda x: {"frame": 255 - x},
    "mirrored": lambda x: {"frame": x[:, ::-1]},
    "permuted": lambda x: {"frame": permuted(x)},
    "scaled": lambda x: {"frame": x // 2},
    "a pixel off": lambda x: {"frame": np.roll(x, 1, axis=1)},
    "split": split,
    "as a code": lambda x: {"label": np.zeros(len(x), np.int64), "code": flat(x).astype(np.float32) / 255},
}


def spec_of(shape):
    return Input("x", "image", shape, "uint8", 0.0, 255.0)


def golden_of(shape):
    return np.random.default_rng(1).integers(0, 256, (6, *shape)).astype(np.uint8)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("disguise", DISGUISES)
def test_every_disguise_is_found(disguise, shape):
    run, golden = DISGUISES[disguise], golden_of(shape)
    with pytest.raises(PrivacyStop, match=r"another name: a linear map gives (9|10)"):
        refuse_reconstruction(run, spec_of(shape), golden, run(golden))


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_what_is_linear_in_all_outputs_together_is_found(shape):
    size = int(np.prod(shape))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))[0]

    def shares(x):
        hidden = np.random.default_rng().integers(0, 256, x.shape)
        return {"frame": (x + hidden) / 2, "code": flat(hidden)}

    for run in (lambda x: {"frame": flat(x) @ turn}, shares):
        assert exact_share(run, spec_of(shape), golden_of(shape), run(golden_of(shape))) == 1


@pytest.mark.parametrize("removed", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_cleaner_that_removes_a_few_directions_opens(shape, removed):
    size = int(np.prod(shape))
    # As many for each feature, whatever the size.
    removed *= max(size // 256, 1)
    gone = np.linalg.qr(np.random.default_rng(0).normal(size=(size, removed)))[0]
    golden = golden_of(shape)
    for _ in range(5):
        share = exact_share(lambda x: {"f": flat(x) - flat(x) @ gone @ gone.T}, spec_of(shape), golden, {"f": golden})
        assert share < LIMIT


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_noise_and_nothing_open(shape):
    golden, rng = golden_of(shape), np.random.default_rng(2)
    for run in (lambda x: {"frame": x + rng.laplace(0, 40, x.shape)}, lambda x: {"frame": 0 * x}):
        assert exact_share(run, spec_of(shape), golden, run(golden)) == 0


@pytest.mark.parametrize("high", [1, 2])
def test_a_guess_at_an_integer_of_few_values_is_not_exact(high):
    shape, rng = (300,), np.random.default_rng(3)
    spec = Input("x", "vector", shape, "uint8", 0.0, float(high))
    golden = rng.integers(0, high + 1, (6, *shape)).astype(np.uint8)
    nothing = lambda x: {"frame": np.zeros_like(x)}  # noqa: E731 - as a disguise
    assert exact_share(nothing, spec, golden, nothing(golden)) < 0.05
    itself = lambda x: {"frame": x}  # noqa: E731
    assert exact_share(itself, spec, golden, itself(golden)) > LIMIT


def test_fresh_inputs_and_golden_vectors_each_show_it_alone():
    golden = np.random.default_rng(3).integers(0, 256, (8, 6)).astype(np.uint8)
    assert exact_share(lambda x: {"frame": x}, spec_of((6,)), golden, {"frame": golden[::-1]}) == 1
    rng = np.random.default_rng(4)

    def noisy(x):
        return {"f": x + rng.normal(0, 3, x.shape)}

    shares = [exact_share(noisy, spec_of((6,)), golden, {"f": golden}) for _ in range(20)]
    assert np.mean(shares) > LIMIT


@pytest.mark.parametrize(("shares", "opens"), [([0.2], True), ([0.7, 0.2, 0.2], True), ([0.7, 0.2, 0.8], False)])
def test_one_draw_of_inputs_alone_refuses_nothing(shares, opens, monkeypatch):
    drawn = iter(shares)
    monkeypatch.setattr(reconstruction, "exact_share", lambda *_: next(drawn))
    with contextlib.nullcontext() if opens else pytest.raises(PrivacyStop, match="gives 70% of the features"):
        refuse_reconstruction(None, spec_of((6,)), None, None)
    assert list(drawn) == []


def test_an_input_that_is_dropped_shows_nothing_and_is_refused():
    def run(x):
        raise FrameDropped("not-finite")

    golden = golden_of((6,))
    with pytest.raises(PrivacyStop, match=r"dropped \(not-finite\)"):
        refuse_reconstruction(run, spec_of((6,)), golden, {"frame": golden})


def test_inputs_are_new_in_range_and_of_every_kind():
    spec, golden = spec_of((8, 8, 1)), golden_of((8, 8, 1))
    one, two = (reconstruction.probes(spec, golden, 6) for _ in range(2))
    assert one.dtype == np.uint8
    assert not (flat(one) == flat(two)).all(axis=1).any()
    steps = [np.abs(np.diff(x[..., 0].astype(int), axis=0)).mean() for x in one]
    assert steps[2] < 0.9 * steps[0]  # the smooth one: a third on average, and both are drawn anew each time
    assert sorted(np.unique(one[1])) in (sorted({*np.unique(g)}) for kind in (golden, 255 - golden) for g in kind)


# whole bundles


def coded(rank, dtype, allowed=False):
    """A bundle whose code is the whole reading: six features times the identity."""
    manifest, members = bundles.cleaner_example(code=True)
    eye = np.eye(6, rank, dtype=np.float32)
    arrays = {"encoder": eye, "encoder_bias": np.zeros(rank), "decoder": eye.T, "decoder_bias": np.zeros(6), "eps": 0}
    data = bundles.npz({name: np.asarray(array, np.float32) for name, array in arrays.items()})
    entry = bundles.cleaner_entry(data, rank=rank)
    entry["tolerance"]["max_abs"] = 1e-4 if dtype == "float32" else 2.0
    members[entry["file"]] = data
    manifest["models"]["cleaner"]["artefacts"]["numpy-float32"] = entry
    manifest["perturber"]["identity_allowed"] = allowed
    manifest["input"]["dtype"] = "float32"
    x = np.load(io.BytesIO(members["golden/input.npy"]))
    del members["tables/decoder.npy"]
    manifest["tables"] = {}
    code, tensor = x[:, :rank], "c"
    if dtype == "int16":
        code, tensor = np.rint(code * 1024), "q"
    else:
        del manifest["stages"][2]
    members["golden/numpy-float32.code.npy"] = bundles.npy(code.astype(dtype))
    manifest["outputs"] = [{"name": "code", "kind": "code", "tensor": tensor, "shape": [rank], "dtype": dtype}]
    return manifest, members


def opened(folder, example):
    made = bundles.make_bundle(folder, example=example)
    return Perturber.open(made.path, trust=made.trust)


def test_a_reading_sent_as_a_code_is_refused_at_open(tmp_path):
    with pytest.raises(PrivacyStop, match="raw data leaves under another name"):
        opened(tmp_path / "a", coded(6, "int16"))
    with pytest.raises(PrivacyStop, match="can carry 192 bits, and a reading has 192"):
        opened(tmp_path / "b", coded(6, "float32"))
    opened(tmp_path / "c", coded(2, "int16")).close()


def test_identity_allowed_is_signed_and_said_at_every_start(tmp_path, capsys):
    perturber = opened(tmp_path, coded(6, "float32", allowed=True))
    assert "manifest says identity_allowed" in capsys.readouterr().err
    assert perturber.info["identity_allowed"] is True
    perturber.close()
    opened(tmp_path / "not", coded(2, "int16")).close()
    assert "identity_allowed" not in capsys.readouterr().err


def test_the_log_and_the_health_pages_say_identity_allowed(tmp_path):
    for allowed in (True, False):
        made = bundles.make_bundle(tmp_path / str(allowed), example=coded(2, "int16", allowed=allowed))
        flags = {"bundle": str(made.path), "trust": str(made.trust), "source": "csv:x", "sink": ["none"]}
        service = Service(config.merged(flags, {}), Log("memory"))
        service.status.log_start()
        assert ("identity-allowed" in [event["event"] for event in service.log.kept()]) is allowed
        assert service.status.healthz()["identity_allowed"] is allowed
        assert f"edgeveil_identity_allowed {int(allowed)}" in list(service.status.metrics())
        assert any("identity_allowed" in note for note in service.status.notes()) is allowed


def test_a_recheck_finds_what_golden_vectors_do_not(tmp_path):
    perturber = opened(tmp_path, bundles.numpy_example())
    perturber.recheck()
    real, golden = perturber.pipeline.run, np.load(io.BytesIO(perturber._golden["golden/input.npy"]))

    def run(x, draws=None):
        out = real(x, draws)
        return out if np.array_equal(x, golden) else {**out, "frame": 16 - x}

    perturber.pipeline.run = run
    with pytest.raises(PrivacyStop, match="raw data leaves under another name"):
        perturber.recheck()


@pytest.mark.parametrize("name", EXAMPLES)
def test_bundles_without_a_model_are_not_refused(tmp_path, name):
    perturber = opened(tmp_path, getattr(bundles, f"{name}_example")())
    for _ in range(30):
        perturber.recheck()


@pytest.mark.parametrize("variant", tiny_models.VARIANTS)
def test_a_trained_generator_is_not_refused(tiny, variant):
    manifest = parse(tiny.manifest)
    pipeline = load_pipeline(manifest, tiny.members, variant)
    x = np.load(io.BytesIO(tiny.members["golden/input.npy"]))
    for _ in range(5):
        assert exact_share(pipeline.run, manifest.input, x, pipeline.run(x)) < LIMIT / 2


# capacity


def test_bits_of_a_reading_are_those_of_its_range():
    assert reading_bits(Input("x", "vector", (4,), "uint8", 0.0, 15.0)) == 16
    assert reading_bits(Input("x", "vector", (2,), "int16", [0.0, 0.0], [1.0, 7.0])) == 4
    assert reading_bits(Input("x", "vector", (3,), "float32", None, None)) == 96


def test_an_index_has_as_many_values_as_what_it_counts():
    manifest, _ = bundles.held_example()
    assert index_values(parse(manifest), "numpy") == {"label": 4, "held": 5, "drawn": 3, "kept": 3}
    manifest, _ = bundles.channel_example()
    assert index_values(parse(manifest), "numpy") == {"label": 4, "code": 4}


@pytest.mark.parametrize("value", [-1, 4, 2**40])
def test_an_index_beyond_its_declared_values_is_refused(value):
    manifest = parse(bundles.numpy_example()[0])
    refuse_capacity(manifest, "numpy", {"frame": np.zeros((1, 4)), "label": np.array([3])})
    with pytest.raises(PrivacyStop, match="other values than the 4"):
        refuse_capacity(manifest, "numpy", {"frame": np.zeros((1, 4)), "label": np.array([value])})


def test_labels_and_codes_are_counted_together():
    manifest, _ = bundles.numpy_example()
    manifest["input"] |= {"high": 1.0}
    label = {"kind": "label", "tensor": "label", "shape": [], "dtype": "int64"}
    outputs = {"frame": np.zeros((1, 4)), "a": np.array([3]), "b": np.array([3])}
    manifest["outputs"] = [manifest["outputs"][0], {"name": "a", **label}]
    refuse_capacity(parse(manifest), "numpy", outputs)
    manifest["outputs"].append({"name": "b", **label})
    with pytest.raises(PrivacyStop, match="can carry 4 bits, and a reading has 4"):
        refuse_capacity(parse(manifest), "numpy", outputs)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="this numpy always loads its masked arrays")
def test_no_masked_arrays_are_loaded_for_it(tmp_path):
    """They would take as long as the rest of the self-test, at every start."""
    made = bundles.make_bundle(tmp_path)
    code = "import sys; from edgeveil.edge_runtime.api import Perturber\n"
    code += "Perturber.open(sys.argv[1], trust=sys.argv[2]).close(); sys.exit('numpy.ma' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, made.path, made.trust], check=False).returncode == 0
