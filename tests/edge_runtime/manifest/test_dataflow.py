"""Tables of whole samples, and codes of which the receiver draws: they run, and do what the scaled table did."""

import io

import numpy as np

from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from tests.support import bundles


def opened(example):
    manifest, members = example
    return Perturber.open(bundles.sealed(bundles.with_members(manifest, members), members), trust=bundles.trust())


def sent(perturber, x):
    return [perturber.perturb(RawFrame(row, index=i)).outputs for i, row in enumerate(x)]


X = np.random.default_rng(0).integers(0, 17, (50, 4)).astype(np.uint8)


def test_whole_samples_are_sent_as_they_are():
    scaled, whole = (sent(opened(example()), X) for example in (bundles.numpy_example, bundles.whole_samples_example))
    for one, other in zip(scaled, whole, strict=True):
        assert other["frame"].dtype == np.uint8
        assert np.array_equal(one["frame"], other["frame"])


def test_a_code_may_leave_alone_with_the_pool_that_its_receiver_draws_from():
    manifest, members = bundles.whole_samples_example()
    means = np.load(io.BytesIO(members.pop("tables/means.npy")))
    members["tables/pool.npy"] = bundles.npy(np.stack([means, means], axis=1))
    manifest["tables"] = {"pool": {"file": "tables/pool.npy", "shape": [4, 2, 4], "dtype": "uint8"}}
    manifest["stages"] = manifest["stages"][:2]
    label = manifest["outputs"][1]
    manifest["outputs"] = [{**label, "name": "code", "kind": "code", "decoder": "pool"}]
    del members["golden/numpy.frame.npy"]
    members["golden/numpy.code.npy"] = members.pop("golden/numpy.label.npy")
    manifest["golden"]["outputs"]["numpy"] = {"code": "golden/numpy.code.npy"}
    for row, out in zip(X, sent(opened((manifest, members)), X), strict=True):
        assert set(out) == {"code"}
        assert out["code"] == row.argmax()
