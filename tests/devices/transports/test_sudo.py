"""sudo with a password: taken once, checked once, and in no place where another user could read it."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgeveil.devices.flashing.board import Board
from edgeveil.devices.flashing.connection import Connection
from edgeveil.devices.flashing.placement import Refused
from edgeveil.devices.flashing.plan import check_root
from edgeveil.devices.flashing.records import Facts
from edgeveil.devices.flashing.steps import StartService
from edgeveil.devices.transports.base import Completed
from edgeveil.devices.transports.sudo import Sudo
from edgeveil.edge_runtime.errors import BadInput
from tests.support import programs
from tests.support.checkout import PACKAGES

pytestmark = pytest.mark.programs

PASSWORD = "correct horse, battery"  # noqa: S105 - of no account

# Reads as sudo does: its own line byte by byte, the rest is the command's. Each call is written down.
SUDO = """#!{python}
import json, os, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps([words, dict(os.environ)]) + "\\n")
ask = not os.path.exists({free!r})
if "-n" in words and ask:
    sys.exit("sudo: a password is required")
if os.path.exists({stranger!r}):
    sys.exit("pi is not in the sudoers file.")
for _ in range(3 if "-S" in words and ask else 0):
    line = b""
    while not line.endswith(b"\\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("sudo: no password was provided")
        line += byte
    if line == {password!r}.encode() + b"\\n":
        break
    sys.stderr.write("Sorry, try again.\\n")
else:
    if "-S" in words and ask:
        sys.exit("sudo: 3 incorrect password attempts")
while words and words[0].startswith("-"):
    words = words[2:] if words[0] == "-p" else words[1:]
os.execvp(words[0], words)
"""


class Local:
    """This machine as a board, its ``id`` and ``sudo`` replaced."""

    name, trusted, python = "pi@board", True, sys.executable

    def __init__(self, folder):
        self.folder, self.ran = folder, []
        self.log, self.free, self.stranger = (folder / name for name in ("log", "free", "stranger"))
        words = {"log": str(self.log), "free": str(self.free), "stranger": str(self.stranger)}
        self._write("sudo", SUDO.format(python=sys.executable, password=PASSWORD, **words))
        self._write("id", "#!/bin/sh\necho 1000\n")

    def _write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, command, *, data=b"", timeout_s=120):
        self.ran.append(list(command))
        path = f"{self.folder}:{os.environ['PATH']}"
        done = subprocess.run(
            command, input=data, capture_output=True, env={**os.environ, "PATH": path}, timeout=timeout_s, check=False
        )
        return Completed(done.returncode, done.stdout, done.stderr)

    def put(self, *_):
        pass

    def close(self):
        pass

    def seen_by_sudo(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def board(tmp_path):
    return Local(tmp_path)


def test_a_password_makes_root_and_is_in_no_command_line_environment_or_file(board, tmp_path):
    sudo = Sudo(board, PASSWORD)
    done = sudo.run([sys.executable, "-c", "import sys; print(sys.stdin.read())"], data=b"what the command reads")
    assert (done.code, done.out) == (0, b"what the command reads\n")
    words = json.dumps([board.ran, board.seen_by_sudo()])
    assert PASSWORD not in words
    written = [path for path in tmp_path.iterdir() if path.name != "sudo" and PASSWORD in path.read_text()]
    assert written == []


def test_a_command_never_reads_the_password_where_sudo_asks_for_none_after_all(board):
    sudo = Sudo(board, PASSWORD)
    assert sudo.allowed()
    board.free.touch()
    assert sudo.run(["cat"], data=b"data").out == b"data"


def test_a_wrong_password_is_one_sentence_after_one_try(board):
    with pytest.raises(BadInput, match=r"The password that sudo expects on pi@board was not the one given\."):
        Sudo(board, "wrong").allowed()
    assert len([words for words, _ in board.seen_by_sudo() if "-S" in words]) == 1


def test_who_sits_there_is_asked_twice_and_no_more(board):
    asked = []

    def ask():
        asked.append(1)
        return "wrong" if len(asked) < tries else PASSWORD

    tries = 2
    sudo = Sudo(board, None, ask)
    assert not sudo.has_password
    assert sudo.allowed()
    assert sudo.has_password
    assert len(asked) == 2
    asked.clear()
    tries = 9
    with pytest.raises(BadInput, match="was not the one given"):
        Sudo(board, None, ask).allowed()
    assert len(asked) == 2


def test_nobody_is_asked_where_sudo_asks_for_nothing_and_who_may_not_is_told(board):
    board.free.touch()
    assert Sudo(board, None, lambda: pytest.fail("asked")).allowed()
    board.free.unlink()
    board.stranger.touch()
    assert not Sudo(board, PASSWORD).allowed()
    assert not Sudo(board).allowed()
    with pytest.raises(Refused, match="password_file"):
        check_root(Facts("aarch64", "3.11.2", 1, False, False, True), [StartService()])


def test_facts_are_gathered_as_root_where_the_password_makes_one(board):
    found = Board(board, root="/nowhere", sudo=Sudo(board, PASSWORD)).facts_document()
    assert found["sudo"] is True
    assert "sudo" in board.ran[-1]
    assert PASSWORD not in json.dumps([found, board.ran])


def test_a_password_of_several_lines_is_refused(board):
    with pytest.raises(BadInput, match="in one line"):
        Sudo(board, "one\ntwo").allowed()


REAL = """
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs t {place}; mkdir {place}/up {place}/work {place}/new
mount -t overlay o -o lowerdir=/,upperdir={place}/up,workdir={place}/work {place}/new
cd {place}/new; mount --rbind /proc proc; mount --rbind /dev dev
chroot . useradd -m edgeveil-test; echo "edgeveil-test:{password}" | chroot . chpasswd
echo 'edgeveil-test ALL=(ALL:ALL) ALL' > etc/sudoers.d/edgeveil-test
for f in {folders}; do chmod a+rx .$f; done
exec chroot --userspec=edgeveil-test . {python} - <<'END'
{program}
END
"""
# This Python's and this checkout's, which another user may not enter here.
_PLACES = (Path(sys.executable), Path(sys.executable).resolve(), PACKAGES, PACKAGES.resolve() / "edgeveil/devices")
FOLDERS = " ".join(sorted({str(one) for path in _PLACES for one in (*path.parents, *path.resolve().parents)}))
PROGRAM = """
import subprocess, sys
sys.path.insert(0, {packages!r})
from edgeveil.devices.transports.base import Completed
from edgeveil.devices.transports.sudo import Sudo
from edgeveil.edge_runtime.errors import BadInput
class Here:
    name, trusted, python = "here", True, "/usr/bin/python3"
    def run(self, command, *, data=b"", timeout_s=60):
        done = subprocess.run(command, input=data, capture_output=True, timeout=timeout_s)
        return Completed(done.returncode, done.stdout, done.stderr)
print(Sudo(Here()).allowed(), Sudo(Here(), {password!r}).run(["id", "-u"]), sep="|")
print(Sudo(Here(), {password!r}).run(["cat"], data=b"data").out)
try:
    Sudo(Here(), "wrong").allowed()
except BadInput as error:
    print(str(error)[:40])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a user and an overlay")
def test_the_real_sudo(tmp_path):
    """In an overlay of this system that is gone afterwards: a user of its own, whom sudo asks for the password."""
    programs.need("sudo")
    program = PROGRAM.format(packages=str(PACKAGES), password=PASSWORD)
    text = REAL.format(place=tmp_path, password=PASSWORD, folders=FOLDERS, python=sys.executable, program=program)
    command = ["unshare", "--mount", "sh", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        "False|Completed(code=0, out=b'0\\n', err=b'')",
        "b'data'",
        "The password that sudo expects on here w",
    ], done.stderr


@pytest.mark.parametrize(("terminal", "ask", "asked"), [(True, True, True), (False, True, False), (True, False, False)])
def test_only_a_person_at_a_terminal_is_asked_and_never_for_a_fleet(board, monkeypatch, terminal, ask, asked):
    monkeypatch.setattr("edgeveil.devices.transports.open_transport", lambda *_, **__: board)
    monkeypatch.setattr("getpass.getpass", lambda *_, **__: PASSWORD)
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    assert Connection(ask=ask).open("ssh://pi@board").sudo.allowed() is asked
