"""Capacity, audit, policy and promise go through the list of all that leaves: a new entry is seen by each."""

import io

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.policy import read_policy
from edgeveil.edge_runtime.errors import BundleRefused, PrivacyStop
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.outlets import OUTLETS, Outlet
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.reconstruction import refuse_capacity
from edgeveil.trainer.audit.subject import bottleneck
from tests.support import bundles
from tests.support.promised.counted_bundles import counted_example

SPEND = b'{"schema":1,"hide":[],"spend":{"most_epsilon":10,"period_s":86400}}'


@pytest.fixture
def extra(monkeypatch):
    """One more outlet: the reading itself, as a code."""
    entry = {"name": "extra", "kind": "code", "tensor": "x", "shape": [4], "dtype": "uint8"}
    more = Outlet("extra", "codes", "nothing", "none", lambda _manifest: [entry], lambda _manifest: "has an extra")
    monkeypatch.setattr(outlets, "OUTLETS", [*OUTLETS, more])


@pytest.fixture
def promised():
    return counted_example()


def test_the_list_names_what_leaves():
    assert [outlet.name for outlet in OUTLETS] == ["outputs", "label", "counts", "drops", "status", "card"]
    manifest, _ = bundles.numpy_example()
    assert outlets.values(manifest) == manifest["outputs"]
    assert outlets.values({**manifest, "outputs": manifest["outputs"][::-1]}) == manifest["outputs"][::-1]


@pytest.mark.parametrize("seen", [False, True])
def test_the_capacity_counts_it(seen, request):
    if seen:
        request.getfixturevalue("extra")
    manifest = parse(bundles.numpy_example()[0])
    made = {"frame": np.zeros((1, 4)), "label": np.array([3])}
    if not seen:
        refuse_capacity(manifest, "numpy", made)
        return
    with pytest.raises(PrivacyStop, match="can carry 34 bits"):
        refuse_capacity(manifest, "numpy", made)


@pytest.mark.parametrize("seen", [False, True])
def test_the_audit_follows_it(seen, request):
    if seen:
        request.getfixturevalue("extra")
    manifest, members = bundles.channel_example()
    found = bottleneck(manifest, {"q": np.load(io.BytesIO(members["tables/q.npy"]))})
    assert (found == "more of a reading leaves than a code, so there is nothing to count") == seen


@pytest.mark.parametrize("seen", [False, True])
def test_the_policy_asks_for_it(seen, request, promised):
    manifest = check_manifest(promised[0], sealed=False)
    if seen:
        request.getfixturevalue("extra")
        with pytest.raises(BundleRefused, match="and has an extra"):
            read_policy(SPEND).check(manifest, None)
    else:
        read_policy(SPEND).check(manifest, None)


@pytest.mark.parametrize("seen", [False, True])
def test_the_promise_must_cover_it(seen, request, promised):
    if seen:
        request.getfixturevalue("extra")
        with pytest.raises(BundleRefused, match="'x' is not made of reports alone"):
            check_manifest(promised[0], sealed=False)
    else:
        check_manifest(promised[0], sealed=False)
