"""A policy may ask that an auditor who is not the maker signed the audit: at seal, flash, install and start."""

import json

import pytest

from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.edge_runtime.bundle.policy import read_policy
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest.schema import COUNTERSIGNATURE_MEMBER
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.trainer.cli.main import main
from edgeveil.trainer.sealing import seal as seal_module
from edgeveil.trainer.sealing.inspect import inspect
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.seal import countersign, seal
from tests.edge_runtime.bundle.signed_trust import (
    audited_bundle,
    countersignature,
    device,
    private,
    public,
    role,
    trust_file,
)
from tests.support import bundles

HIDDEN = bundles.numpy_example()[0]["perturber"]["sensitive"]
DEMAND = {"sensitive": HIDDEN, "audited": True, "most_attack_over_chance": None}


def document(**change):
    return json.dumps({"schema": 1, "hide": [DEMAND], **change}).encode()


POLICY = document(countersigned=True)
MAKER = bundles.trusted()


def bundle(folder, signers=("judge",), **change):
    return audited_bundle(folder, None if signers is None else [private(name) for name in signers], **change)


def trust(folder, auditors=("judge",), threshold=1, **fields):
    roles = fields.pop("roles", {"auditor": role(auditors, threshold)})
    made = device(folder / "opt" / "trust", trust_file(1, roles=roles, **fields))
    (made / "policy.json").write_bytes(POLICY)
    return made


@pytest.mark.parametrize(
    ("signers", "auditors", "threshold"),
    [(["judge"], ["judge"], 1), (["judge", "jury"], ["judge", "jury", "eve"], 2), (["eve", "judge"], ["judge"], 1)],
)
def test_what_enough_auditors_signed_is_taken(tmp_path, signers, auditors, threshold):
    path = bundle(tmp_path, signers)
    assert read_bundle(path, open_trust(trust(tmp_path, auditors, threshold)))


def test_the_makers_own_word_does_not_count_even_in_the_role(tmp_path):
    path = audited_bundle(tmp_path, [bundles.KEY])
    both = Role((MAKER, public("judge")), 1)
    with pytest.raises(BundleRefused, match="an auditor other than its maker") as refused:
        read_bundle(path, open_trust(trust(tmp_path, roles={"auditor": both})))
    assert refused.value.reason == "policy-not-met"
    with_judge = audited_bundle(tmp_path, [bundles.KEY, private("judge")])
    assert read_bundle(with_judge, open_trust(tmp_path / "opt" / "trust"))


def spoil_audit(manifest, members):
    """The maker alters the audit after it was signed."""
    audit = json.loads(members["privacy/audit.json"])
    audit["seed"] = 7
    members["privacy/audit.json"] = json.dumps(audit).encode()


def spoil_artefact(manifest, members):
    """The signature is of an audit with these bytes, of another pipeline."""
    members[COUNTERSIGNATURE_MEMBER] = countersignature(
        members["privacy/audit.json"], {**manifest["privacy"], "pipeline": {"numpy": "0" * 64}}, [private("judge")]
    )


def spoil_signature(manifest, members):
    said = json.loads(members[COUNTERSIGNATURE_MEMBER])
    said["signatures"][0]["signature"] = "0" * 128
    members[COUNTERSIGNATURE_MEMBER] = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("signers", "auditors", "threshold", "change"),
    [
        pytest.param(None, ["judge"], 1, None, id="nobody signed"),
        pytest.param(["eve"], ["judge"], 1, None, id="a stranger"),
        pytest.param(["judge"], [], 1, None, id="no auditors here"),
        pytest.param(["judge"], ["judge", "jury"], 2, None, id="below the threshold"),
        pytest.param(["judge"], ["judge"], 1, spoil_audit, id="another audit"),
        pytest.param(["judge"], ["judge"], 1, spoil_artefact, id="another artefact"),
        pytest.param(["judge"], ["judge"], 1, spoil_signature, id="no valid signature"),
    ],
)
def test_a_device_refuses_at_flash_install_and_start(tmp_path, signers, auditors, threshold, change):
    path = bundle(tmp_path, signers, change=change)
    folder = trust(tmp_path, auditors, threshold)
    board = Releases(str(folder.parent), lambda floor: open_trust(folder, floor=floor))
    for attempt in (
        lambda: read_inputs(path, "workstation", folder, None),
        lambda: board.install(path.read_bytes(), lambda *_: None),
        lambda: Perturber.open(path, trust=folder),
    ):
        with pytest.raises(BundleRefused) as refused:
            attempt()
        assert refused.value.reason == "policy-not-met"
    assert board.current is None
    (folder / "policy.json").write_bytes(document())  # without the demand, the same bundle is taken
    assert read_bundle(path, open_trust(folder))


def test_an_auditors_key_signs_no_bundle(tmp_path):
    folder = trust(tmp_path)
    made = bundles.make_bundle(tmp_path, key=private("judge"))
    with pytest.raises(BundleRefused) as refused:
        read_bundle(made.path, open_trust(folder))
    assert refused.value.reason == "untrusted-key"


def test_a_revoked_auditor_does_not_count(tmp_path):
    path = bundle(tmp_path)
    folder = trust(tmp_path, ["jury"], revoked=(public("judge").key,))
    with pytest.raises(BundleRefused) as refused:
        read_bundle(path, open_trust(folder))
    assert refused.value.reason == "policy-not-met"


def test_the_policy_is_read_strictly():
    assert read_policy(POLICY).countersigned is True
    assert read_policy(document()).countersigned is False
    for value in (1, None, "yes"):
        with pytest.raises(BadInput, match="countersigned: expected true or false"):
            read_policy(document(countersigned=value))
    with pytest.raises(BadInput, match="needs an audit"):
        read_policy(document(countersigned=True, hide=[{**DEMAND, "audited": False}]))


# audit --sign, then seal


@pytest.fixture
def export(tmp_path, monkeypatch):
    monkeypatch.setattr(seal_module, "zipapp_bytes", lambda: b"the runtime as a zipapp")
    monkeypatch.setattr(
        seal_module, "card_files", lambda document, _manifest: (bundles.card_of(document), b"<!doctype html>")
    )
    for name in ("maker", "auditor", "second"):
        keygen(tmp_path / name)
    return bundles.export_folder(tmp_path / "export")


def owner(tmp_path, threshold=1):
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    auditors = [tmp_path / name / "signing.pub" for name in ("auditor", "second")]
    folder = TrustFolder.init(tmp_path / "root", [tmp_path / "maker/signing.pub"], others={"auditor": auditors}).folder
    (folder / "policy.json").write_bytes(POLICY)
    if threshold > 1:
        TrustFolder.open(folder).remove(public_of(tmp_path, "second"), role="auditor")
        TrustFolder.open(folder).add(tmp_path / "second/signing.pub", role="auditor", threshold=threshold)
    return folder


def public_of(tmp_path, name):
    return (tmp_path / name / "signing.pub").read_text().split()[1]


def test_seal_carries_what_auditors_signed_and_shows_what_a_board_would_refuse(tmp_path, export):
    trusted, key, out = owner(tmp_path, threshold=2), tmp_path / "maker/signing.key", tmp_path / "b.veil"
    for signer in (None, "auditor", "auditor"):
        if signer:
            countersign(export, tmp_path / signer / "signing.key")
        with pytest.raises(BundleRefused, match="policy"):
            seal(export, key, out, trust=trusted)
        assert not out.exists()
    countersign(export, tmp_path / "second/signing.key")  # beside the first, which is kept
    seal(export, key, out, trust=trusted)
    assert COUNTERSIGNATURE_MEMBER in read_bundle(out, open_trust(trusted)).members


def test_a_signature_of_an_earlier_audit_is_neither_carried_nor_kept(tmp_path, export):
    countersign(export, tmp_path / "auditor/signing.key")
    audit = json.loads((export / "audit.json").read_bytes())
    (export / "audit.json").write_text(json.dumps({**audit, "note": "repeated"}))
    with pytest.raises(BadInput, match=r"is of another audit\. Have it signed again"):
        seal(export, tmp_path / "maker/signing.key", tmp_path / "b.veil")
    countersign(export, tmp_path / "second/signing.key")
    signed = json.loads((export / "countersignature.json").read_bytes())["signatures"]
    assert [entry["key"] for entry in signed] == [public_of(tmp_path, "second")]
    seal(export, tmp_path / "maker/signing.key", tmp_path / "b.veil")


def test_the_command_signs_and_takes_nothing_else(tmp_path, export, monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr("sys.argv", ["edgeveil", "audit", "sign", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err

    key = tmp_path / "auditor/signing.key"
    code, err = run(export, "--key", key, "--budget", "quick")
    assert (code, "No such option: --budget" in err) == (2, True)
    assert not (export / "countersignature.json").exists()
    assert run("--key", key)[0] == 2
    code, err = run(export, "--key", key)
    assert (code, "edgeveil seal" in err) == (0, True)
    assert (export / "countersignature.json").exists()


def test_an_audit_of_other_artefacts_is_not_signed(tmp_path, export):
    audit = json.loads((export / "audit.json").read_bytes())
    audit["pipeline"] = dict.fromkeys(audit["pipeline"], "0" * 64)
    (export / "audit.json").write_text(json.dumps(audit))
    with pytest.raises(BadInput, match="is of another pipeline"):
        countersign(export, tmp_path / "auditor/signing.key")
    assert not (export / "countersignature.json").exists()


def test_inspect_names_who_countersigned(tmp_path):
    """By the name of the auditor in the trust, else as a key that is none."""
    folder = trust(tmp_path, ["judge"])
    path = bundle(tmp_path, ["judge", "stranger"])
    view = inspect(path, folder)
    said = {entry["key"]: entry["name"] for entry in view.document()["countersigned_by"]}
    assert said == {public("judge").key: "judge", public("stranger").key: None}
    assert f"countersigned by judge, key {public('judge').key}" in view.text()
    assert f"countersigned by a key that is no auditor in this trust, key {public('stranger').key}" in view.text()


@pytest.mark.parametrize("change", [spoil_audit, spoil_signature])
def test_inspect_does_not_name_who_did_not_sign(tmp_path, change):
    folder = trust(tmp_path, ["judge"])
    (folder / "policy.json").write_bytes(document())
    view = inspect(bundle(tmp_path, ["judge"], change=change), folder)
    assert view.document()["countersigned_by"] == []
    assert "its countersignature is NOT VALID" in view.text()
    assert "countersigned by" not in view.text()
