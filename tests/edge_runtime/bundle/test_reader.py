"""From a file to verified bytes: read once, all of it checked, nothing handed out before."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgeveil.edge_runtime.bundle.reader
from edgeveil.edge_runtime.bundle import archive
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.signing import ed25519
from tests.hostile_bundles import manifests, museum, promises, signatures, zips  # noqa: F401 - the rooms register their exhibits
from tests.support import bundles
from tests.support.boards import pythons
from tests.support.checkout import PACKAGES
from tests.support.once import nightly_but


@pytest.mark.parametrize("example", [bundles.artefact_example, bundles.numpy_example, bundles.channel_example])
def test_a_good_bundle_is_read(tmp_path, example):
    made = bundles.make_bundle(tmp_path, example=example())
    for source in (made.path, str(made.path), made.path.read_bytes()):
        bundle = read_bundle(source, open_trust(made.trust))
        assert bundle.manifest.document == made.manifest
        assert bundle.members == made.members
        assert bundle.key == bundles.public_hex(bundles.KEY)
        assert bundle.development is False
        data = dict(archive.read_archive(made.path.read_bytes()))["manifest.json"]
        assert bundle.manifest_sha256 == hashlib.sha256(data).hexdigest()


def test_a_development_bundle_says_so(tmp_path):
    made = bundles.make_bundle(tmp_path, development=True)
    assert read_bundle(made.path, open_trust(made.trust)).development is True


@given(st.data())
@settings(deadline=None, max_examples=400)
def test_there_is_no_byte_that_could_be_another(data):
    """A bundle is one string of bytes: none of them can be changed, inserted or left out, in the signature neither."""
    good = _good()
    place = data.draw(st.integers(0, len(good) - 1))
    new = data.draw(st.sampled_from(["change", "insert", "delete"]))
    byte = bytes([data.draw(st.integers(0, 255))])
    changed = good[:place] + (b"" if new == "delete" else byte) + good[place + (new != "insert") :]
    if changed != good:
        with pytest.raises(BundleRefused):
            read_bundle(changed, bundles.trust())


def _good() -> bytes:
    manifest, members = bundles.numpy_example()
    return bundles.sealed(bundles.with_members(manifest, members), members)


def test_signature_is_checked_before_the_manifest_is_looked_at(monkeypatch):
    monkeypatch.setattr(
        edgeveil.edge_runtime.bundle.reader.strict_json, "loads", lambda data: pytest.fail("it was looked at")
    )
    manifest, members = bundles.numpy_example()
    data = bundles.sealed(bundles.with_members(manifest, members), members, bundles.STRANGER)
    with pytest.raises(BundleRefused, match="not in the trust folder"):
        read_bundle(data, bundles.trust())


def test_the_key_is_looked_up_before_the_arithmetic(monkeypatch):
    monkeypatch.setattr(ed25519, "verify", lambda *arguments: pytest.fail("a stranger made us work"))
    manifest, members = bundles.numpy_example()
    with pytest.raises(BundleRefused):
        read_bundle(bundles.sealed(bundles.with_members(manifest, members), members, bundles.STRANGER), bundles.trust())


def test_the_file_is_read_once(tmp_path, monkeypatch):
    """The bytes that were hashed are the bytes that are handed out, whatever happens to the file meanwhile."""
    made = bundles.make_bundle(tmp_path)
    opened = []
    true_open = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: opened.append(path) or true_open(path, *rest))
    real = edgeveil.edge_runtime.bundle.reader.read_archive

    def replaced_under_the_reader(data):
        made.path.write_bytes(b"another file altogether")
        return real(data)

    monkeypatch.setattr(edgeveil.edge_runtime.bundle.reader, "read_archive", replaced_under_the_reader)
    trust = open_trust(made.trust)
    opened.clear()
    assert read_bundle(made.path, trust).members == made.members
    assert opened == [str(made.path)]


def test_paths_without_a_bundle_are_the_users_mistake(tmp_path):
    trust = bundles.trust()
    with pytest.raises(BadInput, match=r"There is no bundle to read at .*none\.veil"):
        read_bundle(tmp_path / "none.veil", trust)
    with pytest.raises(BadInput, match="which is no regular file"):
        read_bundle(tmp_path, trust)
    os.mkfifo(tmp_path / "pipe.veil")
    with pytest.raises(BadInput, match="which is no regular file"):
        read_bundle(tmp_path / "pipe.veil", trust)  # and it does not wait for a writer
    with pytest.raises(BadInput, match="which is no regular file"):
        read_bundle("/dev/zero", trust)


def test_a_huge_file_is_not_read_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fdopen", lambda *arguments, **options: pytest.fail("it was read"))
    path = tmp_path / "huge.veil"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(BundleRefused) as refusal:
        read_bundle(path, bundles.trust())
    assert refusal.value.reason == "too-large"


def test_refusals_are_the_users_mistake_and_end_with_2():
    with pytest.raises(BundleRefused) as refusal:
        read_bundle(b"no", bundles.trust())
    assert refusal.value.exit_code == 2


def test_only_verified_members_are_handed_out(tmp_path):
    made = bundles.make_bundle(tmp_path)
    bundle = read_bundle(made.path, open_trust(made.trust))
    assert "manifest.json" not in bundle.members
    assert "signature.json" not in bundle.members
    for entry in bundle.manifest.document["members"]:
        assert hashlib.sha256(bundle.members[entry["name"]]).hexdigest() == entry["sha256"]


READ_ONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.bundle.trust_store import open_trust
trust = open_trust(sys.argv[2])
answers = []
for path in sys.argv[3:]:
    try:
        answers.append(read_bundle(path, trust).manifest_sha256)
    except BundleRefused as refusal:
        answers.append(refusal.reason)
assert "numpy" not in sys.modules
print(json.dumps(answers))
"""


def answers_of(python: str, trust: Path, paths: list[Path]) -> list[str]:
    command = [python, "-I", "-W", "error", "-c", READ_ONE, str(PACKAGES), str(trust), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_verifying_needs_the_standard_library_alone(tmp_path):
    made = bundles.make_bundle(tmp_path)
    expected = read_bundle(made.path, open_trust(made.trust)).manifest_sha256
    assert answers_of(sys.executable, made.trust, [made.path]) == [expected]


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A good bundle and the whole museum as files, the trust that they are read by, and the answers of this Python."""
    tmp_path = tmp_path_factory.mktemp("museum")
    made = bundles.make_bundle(tmp_path, example=bundles.artefact_example())
    paths, expected = [made.path], [read_bundle(made.path, open_trust(made.trust)).manifest_sha256]
    for exhibit in museum.EXHIBITS.values():
        built = exhibit.build()
        if isinstance(built, bytes) and len(built) < 10**6:  # those that need no trust of their own
            paths.append(tmp_path / f"{exhibit.name}.veil")
            paths[-1].write_bytes(built)
            expected.append(exhibit.reason)
    assert len(paths) > 150
    return made.trust, paths, expected


@pytest.mark.pythons
@pytest.mark.parametrize("version", nightly_but(("3.6", "3.7", "3.8", "3.9", "3.10", "3.12", "3.13", "3.14"), "3.6"))
def test_every_python_gives_the_same_answers(answered, version):
    """Read by a real interpreter of that version with nothing installed."""
    python = pythons.interpreter_of(version)
    trust, paths, expected = answered
    assert answers_of(python, trust, paths) == expected
