"""Capacity, audit, policy and promise go through the list of all outlets: a new entry is seen by each."""

import io
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.policy import read_policy
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, PrivacyStop
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.count import parse_count
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.outlets import EXACT, NOISE, NONE, OUTLETS, Outlet
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.reconstruction import refuse_capacity
from edgeveil.trainer.audit.sections import sections
from edgeveil.trainer.audit.sections.outlets_section import Outlets
from edgeveil.trainer.audit.subject import bottleneck
from tests.support import bundles
from tests.support.promised.counted_bundles import counted_example
from tests.support.promised.counting_bundle import counting_example

SPEND = b'{"schema":1,"hide":[],"spend":{"most_epsilon":10,"period_s":86400}}'
HIDE = b'{"schema":1,"hide":[{"sensitive":"less-than-five","most_attack_over_chance":null,"audited":false}]%s}'
NOISY = {"micro_epsilon": 10**6, "most_each": 1, "most_micro_epsilon": 10**7}
ENTRY = {"name": "extra", "kind": "code", "tensor": "x", "shape": [4], "dtype": "uint8"}
# One more outlet: the reading itself, as an entry that is attacked, or beyond the outputs.
MORE = {
    "entry": Outlet(
        "extra", "codes", "none", "none", lambda _: [ENTRY], lambda _: 0.0, outlets.untold, lambda _: "has an extra"
    ),
    "beyond": Outlet(
        "extra", "codes", "none", "none", lambda _: [], lambda _: 32.0, lambda _: EXACT, lambda _: "has an extra"
    ),
}


@pytest.fixture(params=["", "entry", "beyond"])
def extra(request, monkeypatch):
    """What is in the list in addition; empty where nothing is."""
    if request.param:
        monkeypatch.setattr(outlets, "OUTLETS", [*OUTLETS, MORE[request.param]])
    return request.param


@pytest.fixture
def promised():
    return counted_example()


def test_the_list_names_every_outlet():
    assert [outlet.name for outlet in OUTLETS] == ["outputs", "label", "counts", "drops", "status", "card"]
    manifest, _ = bundles.numpy_example()
    assert outlets.values(manifest) == manifest["outputs"]
    assert outlets.values({**manifest, "outputs": manifest["outputs"][::-1]}) == manifest["outputs"][::-1]


def test_an_outlet_that_does_not_answer_each_of_them_is_an_error():
    for left_out in ("values", "bits", "told", "uncounted"):
        with pytest.raises(TypeError, match=left_out):
            Outlet(**{name: value for name, value in MORE["beyond"]._asdict().items() if name != left_out})


def test_the_capacity_counts_it(extra):
    manifest = parse(bundles.numpy_example()[0])
    made = {"frame": np.zeros((1, 4)), "label": np.array([3])}
    if not extra:
        refuse_capacity(manifest, "numpy", made)
        return
    with pytest.raises(PrivacyStop, match="can carry 34 bits"):
        refuse_capacity(manifest, "numpy", made)


def test_the_audit_attacks_it_or_says_that_it_did_not(extra):
    manifest, members = bundles.channel_example()
    found = bottleneck(manifest, {"q": np.load(io.BytesIO(members["tables/q.npy"]))})
    assert (found == "more of a reading leaves than a code, so there is nothing to count") == (extra == "entry")
    (asked,) = (one for one in sections() if isinstance(one, Outlets))
    about = SimpleNamespace(subject=SimpleNamespace(manifest=manifest))
    unread = [(one.question, one.not_run.split(";")[0]) for one in asked.measure(about, [])]
    assert unread == [("extra", "codes, leave exactly, up to 32.0 bits in each")] * (extra == "beyond")


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        (SPEND, {"entry": "and has an extra", "beyond": "and has an extra"}),
        (HIDE % b"", {"beyond": "its extra leave exactly"}),  # what an audit attacks, its figures are of
    ],
)
def test_the_policy_asks_for_it(extra, promised, policy, refused):
    manifest = parse(promised[0])
    if extra not in refused:
        read_policy(policy).check(manifest, None)
        return
    with pytest.raises(BundleRefused, match=refused[extra]):
        read_policy(policy).check(manifest, None)
    if policy is not SPEND:
        read_policy(HIDE % b',"extra":"exact"').check(manifest, None)


def test_the_promise_must_cover_it(extra, promised):
    if extra == "entry":
        with pytest.raises(BundleRefused, match="'x' is not made of reports alone"):
            check_manifest(promised[0], sealed=False)
    else:
        check_manifest(promised[0], sealed=False)


@pytest.mark.parametrize(
    ("noise", "told"),
    [(None, EXACT), (NOISY, NOISE), ({**NOISY, "micro_epsilon": 10**6 + 1}, EXACT), ("no counts", NONE)],
)
@pytest.mark.parametrize("allowed", ["", "none", "noise", "exact"])
def test_counts_leave_as_the_owner_says(noise, told, allowed):
    document = counting_example()[0] if noise == "no counts" else counting_example(noise=noise)[0]
    if noise == "no counts":
        del document["count"]
    document["perturber"]["sensitive"] = "less-than-five"
    assert [level for _, level in outlets.unattacked(document)] == [told] * (told != NONE)
    policies = [HIDE % (b',"counts":"%s"' % allowed.encode() if allowed else b"")]
    policies += [b'{"schema":1,"hide":[],"counts":"%s"}' % allowed.encode()] * bool(allowed)
    for policy in map(read_policy, policies):
        if outlets.LEVELS.index(told) <= outlets.LEVELS.index(allowed or NOISE):
            policy.check(parse(document), None)
            continue
        with pytest.raises(BundleRefused, match=r"its counts leave .* unless the policy has .counts.:.exact"):
            policy.check(parse(document), None)


@pytest.mark.parametrize("level", ['"Exact"', "null", "[]", '{"most":1}'])
def test_another_word_for_counts_is_refused(level):
    with pytest.raises(BadInput, match=r"counts: expected (one of none, noise, exact|text)"):
        read_policy(b'{"schema":1,"hide":[],"counts":%s}' % level.encode())


def test_counts_carry_what_people_in_eight_zones_can_say():
    """Finding 4 of the review: 8 numbers from 0 to 16."""
    zones = [{"name": f"z{n}", "corners": [[0, n], [0, 99], [99, 99]]} for n in range(8)]
    document, _ = counting_example(lines=[], zones=zones)
    assert outlets.bits(document) == pytest.approx(8 * np.log2(17))
    document["input"].update(shape=[2, 2, 1])
    document["perturber"]["identity_allowed"] = False
    with pytest.raises(PrivacyStop, match="can carry 33 bits, and a reading has 16"):
        refuse_capacity(parse(document), "numpy", {"frame": np.zeros((1, 2, 2, 1))})


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_noise_takes_bits_away_and_the_bound_holds(epsilon):
    """The capacity of a number's channel by Blahut and Arimoto's algorithm, from below, is never above it."""
    noise = {**NOISY, "micro_epsilon": int(epsilon * 10**6)}
    rules = parse_count(counting_example(noise=noise, lines=[])[0]["count"])
    wide = int(20 / epsilon)
    channel = np.exp(-epsilon * np.abs(np.arange(-wide, 17 + wide) - np.arange(17)[:, None]))
    channel /= channel.sum(axis=1, keepdims=True)
    weights = np.full(17, 1 / 17)
    for _ in range(100):
        ratio = np.exp((channel * np.log(channel / weights.dot(channel))).sum(axis=1))
        capacity, weights = weights.dot(ratio), weights * ratio / weights.dot(ratio)
    assert 0 < np.log2(capacity) <= rules.bits <= np.log2(17) + 1e-9
