"""What runs a board on this machine, without a board."""

import contextlib
import os
import socket
import threading

import pytest

from scripts.emulation import running
from scripts.emulation.trees import NoBoard
from tests.support.programs import need


@pytest.mark.programs
def test_a_board_whose_key_cannot_be_asked_is_not_left_running(tmp_path):
    """It says that it is an SSH server, once, and no more."""
    need("ssh-keyscan")
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:

        def answer():
            while True:
                with contextlib.suppress(OSError), server.accept()[0] as line:
                    line.sendall(b"SSH-2.0-none\r\n")

        threading.Thread(target=answer, daemon=True).start()
        board = ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"]
        with pytest.raises(NoBoard, match="ssh-keyscan"):
            running.begin(board, tmp_path, server.getsockname()[1], tmp_path / "log", None, 60)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
