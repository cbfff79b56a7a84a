"""A cleaner on the board: vectors without a range, the numpy backend, batches, codes and their decoder."""

import io

import numpy as np
import pytest

from edgeveil.edge_runtime.api import RawFrame
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.backends.base import Backend
from edgeveil.edge_runtime.bench import latency, protocol
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, FrameDropped
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.stages.preprocess import to_raw, to_unit
from edgeveil.trainer.linear import Cleaner
from tests.support import bundles


@pytest.fixture(scope="module")
def arrays():
    return bundles.cleaner_arrays()


@pytest.fixture(scope="module")
def backend(arrays):
    data = bundles.npz(arrays)
    return open_backend("numpy", data, bundles.cleaner_entry(data))


def vectors(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6)).astype(np.float32)
    x[0] = 0
    x[1] *= 1e-15
    x[2] *= 1e4
    return x


def test_without_a_range_only_the_type_changes():
    x = np.array([[-5e6, 0.1, 3e-9]])
    assert to_unit("float64", None, None)(x).tolist() == x.astype(np.float32).tolist()
    assert to_raw("float64", None, None)(x.astype(np.float32)).dtype == np.float64


def test_numpy_backend_is_the_cleaner(arrays, backend):
    x = vectors(9000)
    out = backend.run({"features": x})
    cleaner = Cleaner(arrays["encoder"], arrays["decoder"].T, float(arrays["eps"]))
    mean = arrays["decoder_bias"]
    scale = np.abs(x).max(axis=1, keepdims=True) + 1
    assert (np.abs(out["output"] - mean - cleaner.clean(x - mean)) / scale).max() < 1e-5
    assert (np.abs(out["code"] - cleaner.code(x - mean)) / scale).max() < 1e-5
    assert backend.info()["backend"] == "numpy"


@pytest.mark.parametrize("bad", [np.inf, np.nan, 3e38])
def test_what_overflows_is_dropped_and_costs_itself_alone(tmp_path, bad):
    made = bundles.make_bundle(tmp_path, example=bundles.cleaner_example())
    x = vectors(5)
    x[3, 0] = bad
    with Perturber.open(made.path, trust=made.trust) as perturber:
        out = perturber.perturb_batch([RawFrame(row, i) for i, row in enumerate(x)])
        assert [frame.index for frame in out] == [0, 1, 2, 4]
        assert perturber.dropped == {"not-finite": 1}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda a: a.pop("eps"), "expected the arrays"),
        (lambda a: a.update(encoder=a["encoder"].astype(np.float64)), "encoder"),
        (lambda a: a.update(encoder=a["encoder"][0]), "encoder"),
        (lambda a: a.update(decoder=a["decoder"].T), "decoder"),
        (lambda a: a.update(eps=np.float32(np.nan)), "eps"),
        (
            lambda a: a.update(encoder=a["encoder"][:5], decoder=a["decoder"][:, :5], decoder_bias=np.zeros(5, "f4")),
            "features",
        ),
    ],
)
def test_arrays_that_are_no_cleaner_are_refused(arrays, change, match):
    changed = dict(arrays)
    change(changed)
    data = bundles.npz(changed)
    with pytest.raises(DeviceFailed, match=match):
        open_backend("numpy", data, bundles.cleaner_entry(data))


def test_python_objects_in_the_file_are_never_loaded(arrays):
    data = bundles.npz({**arrays, "eps": np.array(object())})
    with pytest.raises(DeviceFailed, match="allow_pickle"):
        open_backend("numpy", data, bundles.cleaner_entry(data))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 0])
def test_batches_are_filled_up_and_cut_again(n):
    """A backend that takes three at a time, and one that takes one, say the same."""
    entry = bundles.cleaner_entry(b"")
    for tensor in entry["inputs"] + entry["outputs"]:
        tensor["shape"][0] = 3

    class Three(Backend):
        def _open(self, model):
            self._inputs = self._inputs[:1]

        def _infer(self, feeds):
            assert feeds[0].shape == (3, 6)
            return [feeds[0] * 2, feeds[0][:, :2] + 1]

    x = vectors(7)[:n]
    out = Three(b"", entry).run({"features": x})
    assert np.array_equal(out["output"], x * 2)
    assert np.array_equal(out["code"], x[:, :2] + 1)
    entry["outputs"][0]["shape"][0] = 2
    with pytest.raises(BadInput, match="one batch size"):
        Three(b"", entry)


def test_a_code_leaves_quantised_and_its_decoder_gives_the_frame_back(tmp_path):
    x = vectors(200)
    x[2] /= 1e4
    results = {}
    for code in (False, True):
        made = bundles.make_bundle(tmp_path, example=bundles.cleaner_example(code=code), name=f"{code}.veil")
        with Perturber.open(made.path, trust=made.trust) as perturber:
            results[code] = np.stack([f.data for f in perturber.perturb_batch([RawFrame(r, 0) for r in x])])
    assert results[True].dtype == np.int16
    decoder = np.load(io.BytesIO(made.members["tables/decoder.npy"]))
    decoded = np.hstack([results[True], np.ones((200, 1))]) @ decoder
    step = np.abs(decoder[:-1]).sum(axis=0).max()
    assert np.abs(decoded - results[False]).max() <= step / 2 + 1e-5


def test_a_code_out_of_range_saturates_and_is_not_dropped(tmp_path):
    made = bundles.make_bundle(tmp_path, example=bundles.cleaner_example(code=True))
    with Perturber.open(made.path, trust=made.trust) as perturber:
        out = perturber.perturb(RawFrame(np.full(6, 1e5, np.float32), 0)).data
    assert set(out.tolist()) <= {-32768, 32767}


def test_a_float_of_a_large_file_becomes_infinite_and_is_dropped(tmp_path):
    def double(manifest, members):
        manifest["input"]["dtype"] = manifest["stages"][2]["dtype"] = manifest["outputs"][0]["dtype"] = "float64"
        for name in ("golden/input.npy", "golden/numpy-float32.frame.npy"):
            members[name] = bundles.npy(np.load(io.BytesIO(members[name])).astype(np.float64))

    made = bundles.make_bundle(tmp_path, example=bundles.cleaner_example(), change=double)
    with Perturber.open(made.path, trust=made.trust) as perturber, pytest.raises(FrameDropped, match="not-finite"):
        perturber.perturb(RawFrame(np.full(6, 1e300), 0))


def test_it_can_be_timed_without_a_range(tmp_path):
    made = bundles.make_bundle(tmp_path, example=bundles.cleaner_example())
    with Perturber.open(made.path, trust=made.trust) as perturber:
        assert protocol.bench(perturber, protocol.Protocol(latency.Minimum(20, 0.01)))["backend"] == "numpy"
