"""What a board answers reaches the owner's terminal: as text, and never as commands to it."""

import pytest

from edgeveil.devices.flashing.board import Board, runtime_output
from edgeveil.devices.transports.base import Completed, check
from edgeveil.edge_runtime.errors import EdgeVeilError
from tests.support.boards.owners import Recorded

CONTROLS = [*(bytes([code]) for code in range(32) if code not in (9, 10)), b"\x7f"]
CONTROLS += [chr(code).encode() for code in range(0x80, 0xA0)]
TEXT = "a\tb\nä€漢\U0001f600".encode()


def test_no_control_character_but_newline_and_tab_is_left():
    for control in CONTROLS:
        said = control.join([b"", *(bytes([byte]) for byte in b"all is well"), b"", TEXT, b""])
        done = Completed(2, said, said)
        assert done.out == done.err == b"all is well" + TEXT, control
        assert done.raw == said, control  # a file that is fetched
        for hidden in (b"\xc2" + control + b"\x9b", b"\xc2" + control + control + b"\x9b"):
            assert Completed(0, hidden, b"").out.decode("utf-8", "replace").isprintable(), control


def test_every_message_of_a_boards_answer_is_without_them():
    said = b"error: \x1b]0;owned\x07\x1b[2J\x1b[1;1H\xc2\x9b8mall boards: well\x1b[8m\r\n"
    for fails in (lambda: runtime_output(Completed(2, b"", said)), lambda: check(Completed(1, said, b""), "Reading")):
        with pytest.raises(EdgeVeilError) as raised:
            fails()
        assert str(raised.value).isprintable()
    line = Recorded(out=said)
    assert b"\x1b" not in Board(line).logs(3)
