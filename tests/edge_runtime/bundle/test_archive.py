"""One spelling of ZIP: what is read is what was packed, and nothing else is read."""

from __future__ import annotations

import io
import subprocess
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.bundle.archive import pack, read_archive
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.detector import MAX_MEMBERS, MAX_NAME
from tests.support import programs

pytestmark = pytest.mark.programs

MEMBERS = [
    ("manifest.json", b"{}"),
    ("signature.json", b""),
    ("artefacts/a.tflite", b"\x00" * 999),
    ("golden/x.npy", b"PK\x05\x06"),
]

names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,9}(/[a-z0-9][a-z0-9._-]{0,9}){0,2}", fullmatch=True)


@given(st.dictionaries(names, st.binary(max_size=60), max_size=6))
@settings(deadline=None)
def test_what_was_packed_is_read(members):
    listed = list(members.items())
    clash = any(name != other and name.startswith(other + "/") for name in members for other in members)
    if clash:
        with pytest.raises(BundleRefused):
            read_archive(pack(listed))
    else:
        assert read_archive(pack(listed)) == listed


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_any_changed_byte_is_refused(data):
    """Also bytes that most readers pass over, and those of the payload, which the checksum holds."""
    packed = pack(MEMBERS)
    place = data.draw(st.integers(0, len(packed) - 1))
    value = data.draw(st.integers(1, 255))
    changed = packed[:place] + bytes([packed[place] ^ value]) + packed[place + 1 :]
    with pytest.raises(BundleRefused):
        read_archive(changed)


def test_every_beginning_of_a_bundle_is_truncated():
    packed = pack(MEMBERS)
    for length in range(len(packed)):
        with pytest.raises(BundleRefused) as refusal:
            read_archive(packed[:length])
        assert refusal.value.reason == "truncated", length


@given(st.binary(min_size=1, max_size=80))
@settings(deadline=None)
def test_nothing_may_stand_before_or_behind(junk):
    packed = pack(MEMBERS)
    for data in (junk + packed, packed + junk):
        with pytest.raises(BundleRefused):
            read_archive(data)


@given(st.binary(max_size=400))
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_refused_or_packed_again_as_they_were(data):
    for candidate in (data, b"PK\x03\x04" + data, b"PK\x05\x06" + data):
        try:
            members = read_archive(candidate)
        except BundleRefused:
            continue
        assert pack(members) == candidate


def test_pythons_reader_sees_the_same_members():
    packed = pack(MEMBERS)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert [(info.filename, archive.read(info)) for info in archive.infolist()] == MEMBERS
        assert archive.testzip() is None


def test_unzip_sees_them_too(tmp_path):
    (tmp_path / "bundle.veil").write_bytes(pack(MEMBERS))
    subprocess.run([programs.need("unzip"), "-q", "bundle.veil", "-d", "out"], cwd=tmp_path, check=True)
    assert (tmp_path / "out" / "artefacts" / "a.tflite").read_bytes() == MEMBERS[2][1]


def test_another_program_can_write_it():
    """The constants are those that Python's own writer puts when it is asked for nothing special."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in MEMBERS:
            info = zipfile.ZipInfo(name)
            info.create_system = 0
            archive.writestr(info, data)
            info.external_attr = 0  # it knows no other way to say that there are no file modes
    assert file.getvalue() == pack(MEMBERS)


def test_limits_are_where_they_are_said_to_be():
    assert len(read_archive(pack([(f"golden/{n}", b"") for n in range(MAX_MEMBERS)]))) == MAX_MEMBERS
    assert read_archive(pack([("a" * MAX_NAME, b"")]))
    with pytest.raises(BundleRefused, match="longer than"):
        read_archive(pack([("a" * (MAX_NAME + 1), b"")]))


@pytest.mark.parametrize("name", ["a..b", "a.", "0", "a-b_c.d/e", "a/..b"])
def test_names_at_the_edge(name):
    packed = pack([(name, b"x")])
    if name == "a/..b":
        with pytest.raises(BundleRefused) as refusal:
            read_archive(packed)
        assert refusal.value.reason == "bad-name"
    else:
        assert read_archive(packed) == [(name, b"x")]
