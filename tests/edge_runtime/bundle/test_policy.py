"""bundle.policy: what the owner of a device demands, whoever signed; and every way back that is not one."""

import json

import pytest

from edgeveil.edge_runtime.bundle.audit_document import read_audit
from edgeveil.edge_runtime.bundle.audit_figures import ATTACKS
from edgeveil.edge_runtime.bundle.audit_figures import HIDDEN as OF_ONE
from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.bundle.policy import Demand, NoPolicyForAudit, Policy, announce, open_policy, read_policy
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy, update_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.releases.store import Releases, RolledBack
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here
HIDDEN = bundles.numpy_example()[0]["perturber"]["sensitive"]


def document(**change):
    entry = {"sensitive": HIDDEN, "most_attack_over_chance": 0.13, "audited": True, **change}
    return json.dumps({"schema": 1, "hide": [entry]}).encode()


def numpy_bundle(
    folder, *, name="b.veil", version=1, accuracy=None, upper=None, audience="", sensitive=HIDDEN, of=None, **key
):
    """A bundle that runs. ``accuracy``: the upper end of the best attack in its audit (chance 0.51), None: no audit.

    ``upper`` are the upper ends of the audit's verdict; None: it was made before there was one.
    """

    def change(manifest, members):
        manifest["security_version"] = version
        manifest["audience"] = audience
        manifest["perturber"]["sensitive"] = sensitive
        if accuracy is not None:
            audit = bundles.audit_document(manifest, "numpy", members)
            for one in audit["adversaries"]:
                one.update(accuracy=0.5, low=0.48, high=accuracy if one["kind"] == "adaptive" else 0.505)
            if upper is not None:
                audit["verdict"] = {"word": "cannot tell", "upper": upper}
            audit["data"]["sensitive"] = sensitive if of is None else of
            bundles.add_audit(manifest, members, audit)

    return bundles.make_bundle(folder, change=change, name=name, **key).path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sensitive": ""}, "name of an attribute"),
        ({"audited": 1}, "true or false"),
        ({"most_attack_over_chance": True}, "expected a number"),
        ({"most_attack_over_chance": 5}, "expected 0 to 1, got 5"),
        ({"audited": False}, "needs an audit"),
        ({"also": 1}, "the key 'also' is not known here"),
        ({"verdict": "holds"}, r"hide\[0\].verdict: expected one of bounded, nothing found, got 'holds'"),
        ({"verdict": None}, r"hide\[0\].verdict: expected text, got None"),
        ({"verdict": "bounded", "audited": False, "most_attack_over_chance": None}, "verdict needs an audit"),
    ],
)
def test_a_policy_is_read_strictly(change, words):
    with pytest.raises(BadInput, match=words):
        read_policy(document(**change))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"schema":2,"hide":[]}', b'{"hide":[],"schema":1}', b"{" * 70000]
)
def test_what_is_no_policy_is_not_taken_for_none(data, tmp_path):
    (tmp_path / "policy.json").write_bytes(data)
    with pytest.raises(BadInput, match=r"^(Expected \{|The policy .*policy.json is not one to follow)"):
        open_policy(str(tmp_path / "policy.json"))
    assert open_policy(str(tmp_path / "none.json")) is None


@pytest.mark.parametrize(
    ("bundle", "demand", "words"),
    [
        ({"accuracy": 0.64}, {}, None),
        ({"accuracy": 0.6401}, {}, "may beat chance .* by 13.0 points .*, and 13 are the most"),
        ({"accuracy": 0.9}, {"most_attack_over_chance": None}, None),
        ({}, {}, "must be audited"),
        ({}, {"audited": False, "most_attack_over_chance": None}, None),
        ({"sensitive": ""}, {"audited": False, "most_attack_over_chance": None}, "hides nothing"),
        ({"sensitive": "weight", "accuracy": 0.5}, {}, "hides 'weight'"),
        ({"accuracy": 0.64, "upper": {"points": 13.0, "balanced": 12.0, "bits": None}}, {}, None),
        ({"accuracy": 0.5, "upper": {"points": 13.1, "bits": None}}, {}, "by 13.1 points .upper end of 95 %."),
        ({"accuracy": 0.5, "upper": {"points": 5.0, "balanced": 14.0, "bits": None}}, {}, "by 14.0 points"),
        ({"accuracy": 0.5, "upper": {"points": None, "bits": None}}, {}, "by 100.0 points"),
    ],
)
def test_what_a_bundle_must_show(tmp_path, bundle, demand, words):
    path = numpy_bundle(tmp_path, **bundle)
    trust = Trust([bundles.trusted()], policy=read_policy(document(**demand)))
    if words is None:
        read_bundle(path, trust)
        return
    with pytest.raises(BundleRefused, match=words) as refused:
        read_bundle(path, trust)
    assert refused.value.reason == "policy-not-met"


def judged(word):
    """An audit of schema 2 with this verdict, within 20 points, and a bound on z where the verdict needs one."""

    def change(manifest, members):
        made = as_schema_2(bundles.audit_document(manifest, "numpy", members))
        z = manifest["perturber"]["sensitive"]
        made["findings"] += [{"question": z, "name": "law", "figure": "right", "value": 0.6, "bound": True}]
        for one in made["findings"]:
            if one.get("figure") == "bits-counted":
                one["interval"] = [0.02, 0.08]
        made["verdict"] = {
            **{"word": word, "line": "", "findings": [], "reasons": [], "needed": None},
            **{"limit": {"points": 20.0, "bits": 0.1}, "upper": {"points": 15.0, "bits": 0.08}},
        }
        bundles.add_audit(manifest, members, made)

    return change


@pytest.mark.parametrize(
    ("figure", "upper", "words"),
    [
        ([0.5, 0.6], 13.0, None),
        ([0.5, 0.7], 20.0, "at 'weight' by 20.0 points"),
        ([0.5, 0.7], 13.0, "upper.points: got 13, and the upper end of an attack reaches 20"),
        (None, 13.0, "'weight' must be audited by itself, and an audit of numpy has no figure of it"),
    ],
)
def test_one_of_several_attributes_is_demanded_by_its_own_figure(tmp_path, figure, upper, words):
    several = f"{HIDDEN} and weight"

    def change(manifest, members):
        manifest["perturber"]["sensitive"] = several
        made = as_schema_2(bundles.audit_document(manifest, "numpy", members))
        for one in made["findings"]:
            if one.get("figure") == "right" and one["more"]["kind"] in ATTACKS:
                one["value"], one["interval"] = 0.51, [0.5, 0.53]
        if figure is not None:
            facts = {"value": 0.5, "interval": figure, "null": 0.5, "more": {"kind": OF_ONE}}
            about = {"name": "counting", "figure": "right", **facts}
            made["findings"] += [{"question": name, **about} for name in (HIDDEN, "weight")]
        made["verdict"] = {
            **{"word": "cannot tell", "line": "", "findings": [], "reasons": [], "needed": None},
            **{"limit": {"points": 5.0, "bits": 0.1}, "upper": {"points": upper, "bits": None}},
        }
        bundles.add_audit(manifest, members, made)

    path = bundles.make_bundle(tmp_path, change=change).path

    def opened(name):
        return read_bundle(path, Trust([bundles.trusted()], policy=read_policy(document(sensitive=name))))

    if words is None:
        assert opened("weight").manifest.perturber.hides("weight")
        opened(several)
        with pytest.raises(BundleRefused, match="it must hide 'eight', and hides"):
            opened("eight")
        return
    with pytest.raises(BundleRefused, match=words):
        opened("weight")


@pytest.mark.parametrize(
    ("wanted", "word", "taken"),
    [
        ("nothing found", "nothing found", True),
        ("nothing found", "bounded", True),
        ("nothing found", "cannot tell", False),
        ("nothing found", "leaks", False),
        ("bounded", "bounded", True),
        ("bounded", "nothing found", False),
    ],
)
def test_an_owner_says_which_verdict_is_wanted_at_least(tmp_path, wanted, word, taken):
    path = bundles.make_bundle(tmp_path, change=judged(word)).path
    policy = read_policy(document(verdict=wanted, most_attack_over_chance=None))
    if taken:
        read_bundle(path, Trust([bundles.trusted()], policy=policy))
        return
    with pytest.raises(BundleRefused, match=f"is '{word}', and '{wanted}' is wanted") as refused:
        read_bundle(path, Trust([bundles.trusted()], policy=policy))
    assert refused.value.reason == "policy-not-met"


def test_an_audit_of_before_has_no_verdict_and_holds_is_nothing_found(tmp_path):
    wanted = Trust([bundles.trusted()], policy=read_policy(document(verdict="nothing found")))
    with pytest.raises(BundleRefused, match="is 'none', and 'nothing found' is wanted"):
        read_bundle(numpy_bundle(tmp_path, accuracy=0.52, name="old.veil"), wanted)

    def held(manifest, members):
        audit = bundles.audit_document(manifest, "numpy", members)
        for one in audit["adversaries"]:
            one.update(bits_counted_high=0.08)
        limit, upper = {"points": 20.0, "bits": 0.1}, {"points": 15.0, "bits": 0.08}
        audit["verdict"] = {"word": "holds", "limit": limit, "upper": upper}
        bundles.add_audit(manifest, members, audit)

    path = bundles.make_bundle(tmp_path, change=held, name="held.veil").path
    policy = read_policy(document(verdict="nothing found", most_attack_over_chance=None))
    assert read_bundle(path, Trust([bundles.trusted()], policy=policy)).audit["verdict"]["word"] == "nothing found"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda audit: audit["chance"].update(prior=2), "chance.prior"),
        (lambda audit: audit["chance"].update(majority=1e300), "chance.majority"),
        (lambda audit: audit["worst_adaptive"].update(high=-1e308), "worst_adaptive.high"),
        (lambda audit: audit["data"].update(sensitive="weight"), "its audit is of 'weight'"),
        (lambda audit: audit.update(verdict={"word": "leaks", "upper": {"points": -1e308, "bits": 0}}), "upper.points"),
        (lambda audit: audit["others"][0]["data"].update(sensitive="weight"), r"others\[0\].data.sensitive"),
        (lambda audit: audit["others"][0]["chance"].update(prior=2), r"others\[0\].chance.prior"),
        (lambda audit: audit.clear(), "it is missing"),
    ],
)
def test_an_absurd_audit_meets_no_policy(change, words):
    """The policy takes what ``read_audit`` checked."""
    manifest, members = bundles.artefact_example()
    bundle = read_bundle(bundles.sealed(bundles.with_members(manifest, members), members), bundles.trust())
    policy = Policy([Demand(manifest["perturber"]["sensitive"], 0.2, True)])
    audit = json.loads(members[PRIVACY_MEMBER])
    audit["others"] = [json.loads(members[PRIVACY_MEMBER])]
    policy.check(bundle.manifest, read_audit(bundle.manifest, {PRIVACY_MEMBER: json.dumps(audit).encode()}))
    change(audit)
    with pytest.raises(BundleRefused, match=words) as refused:
        policy.check(bundle.manifest, read_audit(bundle.manifest, {PRIVACY_MEMBER: json.dumps(audit).encode()}))
    assert refused.value.reason == "bad-audit"


def test_the_artefact_that_runs_is_the_one_that_counts():
    manifest, members = bundles.artefact_example()
    bundle = read_bundle(bundles.sealed(bundles.with_members(manifest, members), members), bundles.trust())
    policy = Policy([Demand(manifest["perturber"]["sensitive"], 0.2, True)])
    policy.check(bundle.manifest, bundle.audit)
    policy.check(bundle.manifest, bundle.audit, "tflite-int8")
    with pytest.raises(BundleRefused, match="no audit in it speaks of onnx-float32"):
        policy.check(bundle.manifest, bundle.audit, "onnx-float32")


# The ways back ------------------------------------------------------------------------------------------------------


@pytest.fixture
def owner(tmp_path):
    (tmp_path / "test.pub").write_text(public_key_line(bundles.trusted()))
    return TrustFolder.init(tmp_path / "root", [tmp_path / "test.pub"], audience="ward-7", passphrase=SECRET)


@pytest.fixture
def trust(tmp_path, owner):
    """The trust folder of a device, with a policy."""
    folder = tmp_path / "opt" / "trust"
    folder.mkdir(parents=True)
    put(owner, folder)
    (folder / "policy.json").write_bytes(document())
    return folder


def put(owner, folder):
    for name in ("root.pub", "trust.json"):
        (folder / name).write_bytes((owner.folder / name).read_bytes())


def test_an_audit_sets_the_policy_aside_and_nothing_else(tmp_path, trust, owner):
    """Three things that are not the same: a policy, none on this device, and one that was set aside by name."""
    leaky = numpy_bundle(tmp_path, accuracy=0.9)
    assert isinstance(open_trust(trust).policy, Policy)
    with pytest.raises(BundleRefused, match="may beat chance"):
        read_bundle(leaky, open_trust(trust))
    audit = open_trust(trust, policy=NoPolicyForAudit())
    assert isinstance(audit.policy, NoPolicyForAudit)
    assert read_bundle(leaky, audit).manifest_sha256
    Perturber.open(str(leaky), trust=audit).close()
    owner.require(9, passphrase=SECRET)
    put(owner, trust)  # not yet a board: nothing was ever installed here
    with pytest.raises(BundleRefused) as refused:
        read_bundle(leaky, open_trust(trust, policy=NoPolicyForAudit()))
    assert refused.value.reason == "rolled-back"
    (trust / "policy.json").unlink()
    assert open_trust(trust).policy is None


def passes(_folder, _bundle):
    """A trial that all pass."""


def fails(_folder, _bundle):
    raise DeviceFailed("its golden check failed")


@pytest.fixture
def device(trust):
    return Releases(str(trust.parent), lambda floor: open_trust(trust, floor=floor))


def test_a_device_refuses_at_install_and_at_open(tmp_path, trust, device):
    bad = numpy_bundle(tmp_path, accuracy=0.9)
    for attempt in (lambda: device.install(bad.read_bytes(), passes), lambda: Perturber.open(bad, trust=trust)):
        with pytest.raises(BundleRefused) as refused:
            attempt()
        assert refused.value.reason == "policy-not-met"
    assert device.current is None
    good = numpy_bundle(tmp_path, accuracy=0.52)
    assert device.install(good.read_bytes(), passes) is True
    with Perturber.open(good, trust=trust) as perturber:
        assert perturber.info["audited"]


@pytest.mark.parametrize("way", ["manual", "install"])
@pytest.mark.parametrize("why", ["rolled-back", "revoked-key", "other-audience", "policy-not-met"])
def test_no_way_leads_back_below_what_is_demanded_today(tmp_path, owner, trust, device, why, way):
    """The matrix of downgrades: the older release ran here once, and may not any more."""
    again = {"other-audience": {"audience": "ward-7"}, "revoked-key": {"key": bundles.STRANGER}}.get(why, {})
    if why == "revoked-key":
        (tmp_path / "second.pub").write_text(public_key_line(bundles.trusted(bundles.STRANGER)._replace(name="second")))
        owner = owner.add(tmp_path / "second.pub", passphrase=SECRET)
        put(owner, trust)
    old = numpy_bundle(tmp_path, accuracy=0.6, name="old.veil", **again).read_bytes()
    new = numpy_bundle(tmp_path, accuracy=0.52, name="new.veil", version=2 if why == "rolled-back" else 1).read_bytes()
    device.install(old, passes)
    device.install(new, passes)
    if why == "revoked-key":
        owner.revoke("second", passphrase=SECRET)
    elif why == "policy-not-met":
        (tmp_path / "stricter.json").write_bytes(document(most_attack_over_chance=0.05))
        owner.sign_policy(tmp_path / "stricter.json", passphrase=SECRET)
        assert update_policy(str(trust), (owner.folder / "policy-signed.json").read_bytes())
    elif why == "other-audience":
        owner._next(SECRET, audience="ward-8")
    update_trust(str(trust), (owner.folder / "trust.json").read_bytes())
    current = device.current
    with pytest.raises(BundleRefused) as refused:
        device.rollback() if way == "manual" else device.install(old, passes)
    assert refused.value.reason == why
    assert device.current == device.state().committed == current


def test_the_automatic_way_back_is_to_what_was_committed_and_no_further(tmp_path, trust, device):
    """To the very release that ran a moment ago: it lies below no floor, for the floor rose with it."""
    device.install(numpy_bundle(tmp_path, accuracy=0.52, version=2).read_bytes(), passes)
    committed = device.current
    with pytest.raises(RolledBack):
        device.install(numpy_bundle(tmp_path, accuracy=0.53, version=3).read_bytes(), fails)
    assert (device.current, device.state().floor) == (committed, 2)
    with pytest.raises(BadInput, match="no previous"):
        device.rollback()


def test_a_bundle_is_held_to_it_as_a_whole_and_then_by_what_was_chosen(tmp_path):
    asked = []

    class Asked(Policy):
        def check(self, manifest, members, artefact=None, device=None, place=None):
            asked.append(artefact)

    trust = Trust([bundles.trusted()], policy=Asked([]))
    with Perturber.open(numpy_bundle(tmp_path, accuracy=0.52), trust=trust):
        assert asked == [None, "numpy"]


def test_a_bundle_that_leaks_is_not_run_without_a_word(tmp_path, capsys):
    bundle = read_bundle(numpy_bundle(tmp_path, accuracy=0.6), Trust([bundles.trusted()]))
    announce(bundle)
    assert "leaks" not in capsys.readouterr().err
    announce(bundle._replace(audit={**bundle.audit, "verdict": {"word": "leaks", "line": "much"}}))
    assert "its audit found that it leaks; its privacy card says what" in capsys.readouterr().err


def test_a_bundle_for_a_camera_whose_codes_nothing_holds_is_not_run_without_a_word(tmp_path, capsys):
    bundle = read_bundle(numpy_bundle(tmp_path, accuracy=0.52), Trust([bundles.trusted()]))
    stages = [*bundle.manifest.document["stages"], {"stage": "table", "op": "argmax_within", "output": "within"}]
    document = {**bundle.manifest.document, "stages": stages, "capture": {}}
    for changes, noted, framed in (
        ({}, True, True),
        ({"capture": None}, False, False),
        ({"stream": {"hold": "track"}}, False, True),
    ):
        announce(bundle._replace(manifest=bundle.manifest._replace(document={**document, **changes})))
        said = capsys.readouterr().err
        assert ("nothing holds it" in said) == noted
        assert ("no bound for more than one frame" in said) == framed
