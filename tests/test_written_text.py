"""Text files that a person writes: one reader at every door, with a byte order mark or in another encoding."""

import contextlib

import pytest

from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.toml_tables import read_toml
from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.errors import BadInput, written_text
from edgeveil.edge_runtime.sinks.uri import secret
from edgeveil.trainer.cli.common import PASSPHRASE, asked_passphrase
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sealing.keys import Address

PLAN = """\
[anonymity]
k = 5
link = "rows"

[columns.a]
action = "quasi"
hierarchy = { kind = "ranges", low = 18, high = 90, widths = [10, 20] }
"""
DIGITS = Recipe.text("digits-codebook")


def password(path):
    with pytest.MonkeyPatch.context() as patch:
        got = []
        patch.setattr("edgeveil.devices.transports.open_transport", lambda *_, **given: got.append(given["password"]))
        with contextlib.suppress(AttributeError):  # there is no line to open
            Connection(password_file=path).open("ssh:user@board")
        return got[0]


def passphrase(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"{PASSPHRASE}_FILE", str(path))
        return asked_passphrase()


# The text of a good file, and what the door makes of it.
DOORS = {
    "recipe": (DIGITS, lambda path: Recipe.find(path).name, "digits-codebook"),
    "plan": (PLAN, lambda path: Plan.read(path).anonymity.k, 5),
    "boards": ('[boards.a]\naddress = "a"\n', lambda path: list(read_toml(path, "boards", "docs")["boards"]), ["a"]),
    "passphrase": ("schlüssel\r\n", passphrase, "schlüssel"),
    "password of a board": ("schlüssel\n", password, "schlüssel"),
    "password of a sink": ("schlüssel\n", lambda path: secret(str(path), None, "the password"), "schlüssel"),
    "PIN": ("1234\n", lambda path: Address.parse(f"pkcs11:token=t;object=a?pin-source=file:{path}").pin(None), "1234"),
    "login of a camera": (
        "ann:schlüssel\n",
        lambda path: camera_address.with_credentials("rtsp://cam/x", str(path)),
        "rtsp://ann:schl%C3%BCssel@cam/x",
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_byte_order_mark_is_no_part_of_the_text_and_another_encoding_is_one_sentence(tmp_path, door):
    good, read, expected = DOORS[door]
    path = tmp_path / "written.toml"
    for mark in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(mark + good.encode())
        path.chmod(0o600)
        assert read(path) == expected
    path.write_bytes(good.encode() + b"# " + "müde".encode("latin-1"))
    line = good.count("\n") + 1
    with pytest.raises(BadInput, match=f"as UTF-8 text, and line {line} is not. Save the file as UTF-8") as refused:
        read(path)
    assert "schl" not in str(refused.value)
    path.unlink()
    with pytest.raises(BadInput, match=r"was expected in .*, which cannot be read: No such file|no such file"):
        read(path)


def test_a_text_without_end_is_not_read_to_its_end(tmp_path):
    with pytest.raises(BadInput, match="of at most 4,096 bytes; it has more"):
        written_text("/dev/zero", "The password", most=4096)
