"""Files sealed to a key: as age has them, whole, and for that key alone."""

import base64
import io
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from edgeveil.edge_runtime.errors import BadInput, Missing
from edgeveil.edge_runtime.signing.sealed import CHUNK, TAG, Sealer, opened, recipient_of, secret_of
from tests.support.checkout import ROOT

SEED = bytes(range(32))
PUBLIC = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
# "a frame", sealed to that key. An independent implementation of age (rage, by pyrage 1.3.0) opened it too.
FILE = base64.b64decode(
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSB1SytITWZWTkNHRnVOcU5XcXVPNzRVSVVsZnZFNkpPSFA4VFNuNldjeWlj"
    "CjhVb1BzV0RiR09qeHc4QjB6TUliNzFReDIwQ051Q1dUeWluOFA5OStFTU0KLS0tIG93TDNUTlJoa2E1ME1CaFJzT3hhNW96MXh0"
    "R2EySi9JanV4dFFLbnp3enMKpT5LPNkiKM632iFU04z2DoAB2G7Kl3FSw/2J2VNqoRmipZ5AaOy1"
)


def sealed(data, public=PUBLIC, piece=7777):
    file = io.BytesIO()
    sealer = Sealer(public, file.write)
    for at in range(0, len(data), piece):
        sealer.add(data[at : at + piece])
    sealer.close()
    return file.getvalue()


def content(data, seed=SEED):
    return b"".join(opened(io.BytesIO(data), secret_of(seed), "it"))


def test_the_recipient_is_the_key_of_which_the_owner_has_the_other_half():
    for seed in (SEED, bytes(32), b"\xff" * 32):
        public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        half = X25519PrivateKey.from_private_bytes(secret_of(seed)).public_key().public_bytes_raw()
        assert recipient_of(public) == half


def test_a_file_of_then_is_opened_now():
    assert content(FILE) == b"a frame"


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5])
def test_what_was_sealed_comes_back(size):
    data = bytes(range(256)) * (size // 256 + 1)
    assert content(sealed(data[:size])) == data[:size]


def test_chunks_cannot_be_changed_moved_left_out_or_added():
    data = sealed(bytes(3 * CHUNK))
    start, step = len(data) - 3 * (CHUNK + TAG), CHUNK + TAG
    first, second, third = (data[start + at * step : start + (at + 1) * step] for at in range(3))
    assert content(data[:start] + first + second + third) == bytes(3 * CHUNK)
    for parts in ((second, first, third), (first, third), (first, second), (first, second, third, b"x"), ()):
        with pytest.raises(BadInput, match="damaged or was cut short"):
            content(data[:start] + b"".join(parts))
    for at in range(0, start, 7):
        with pytest.raises(BadInput, match=r"damaged|no recording|another key"):
            content(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@pytest.fixture
def no_library(monkeypatch):
    """A board without the package cryptography."""

    def missing():
        raise Missing("sealed files need the package cryptography")

    monkeypatch.setattr("edgeveil.edge_runtime.signing.sealed._library", missing)


def test_it_is_opened_without_the_library_too(request):
    data = bytes(range(256)) * 300
    file = sealed(data)
    request.getfixturevalue("no_library")
    assert (content(FILE), content(file)) == (b"a frame", data)
    for damaged in (file[:-1], file[:-20] + b"x" + file[-19:], file + b"x"):
        with pytest.raises(BadInput, match="damaged or was cut short"):
            content(damaged)
    with pytest.raises(BadInput, match="it is sealed to another key"):
        content(file, bytes(32))


def test_another_key_does_not_open_it():
    with pytest.raises(BadInput, match="it is sealed to another key"):
        content(FILE, bytes(32))


def test_two_files_of_the_same_content_have_nothing_in_common():
    one, other = sealed(b"x" * 999), sealed(b"x" * 999)
    assert len(one) == len(other)
    assert one[-999:] != other[-999:]


def test_without_the_library_there_is_a_sentence_and_importing_needs_none():
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from edgeveil.edge_runtime.signing.sealed import Sealer\n"
        "try: Sealer(bytes(32), print)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Missing sealed files need the package cryptography, which is not installed: pip")
