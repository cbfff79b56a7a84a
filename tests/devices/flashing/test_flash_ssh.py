"""A bundle over a real sshd: flashed, left alone, replaced, refused, gone back from; nothing of it is a mock."""

import contextlib
import itertools
import json
import subprocess
import time
import types

import pytest

from edgeveil.devices.flashing.board import Board
from edgeveil.devices.transports import open_transport, ssh
from edgeveil.devices.transports.base import digest, read_back
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from tests.support import output, programs
from tests.support.boards import owners, sshd

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with sshd.running(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """The owner's trust folder and bundles of two versions with the real runtime in them."""
    folder = tmp_path_factory.mktemp("owner")
    owners.trust(folder)
    return folder, *(owners.bundle(folder, f"{number}.veil", version=number).path for number in (1, 2))


@pytest.fixture
def edgeveil(server, owner, tmp_path, capfd, monkeypatch):
    """Runs ``edgeveil`` and returns (exit code, stdout, stderr); the board's folder is ``tmp_path / "opt"``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "opt").mkdir()

    run = output.in_process(monkeypatch, capfd)
    return lambda *words: run(*words, *server.options(root=tmp_path / "opt"))


def flash(edgeveil, server, owner, bundle, *more):
    common = ["--for", "workstation", "--trust", owner[0] / "root", "--no-service"]
    return edgeveil("flash", bundle, "--on", server.target, *common, *more)


def test_from_nothing_to_a_second_release_and_the_same_again(edgeveil, server, owner, tmp_path, monkeypatch):
    owners.few_interpreters(monkeypatch)
    _, first, second = owner
    code, _, said = flash(edgeveil, server, owner, first, "--dry-run")
    assert code == 0
    assert "1/3 put the root key" in said
    assert list((tmp_path / "opt").iterdir()) == []

    code, _, said = flash(edgeveil, server, owner, first)
    assert code == 0, said
    assert f"Compare it with that of edgeveil trust show {owner[0] / 'root'}" in said

    code, out, said = flash(edgeveil, server, owner, first, "--json")
    again = json.loads(out)
    assert (code, again["steps"]) == (0, [])
    assert "Nothing to do" in said

    code, out, said = flash(edgeveil, server, owner, second, "--json")
    assert json.loads(out)["steps"] == ["upload", "install"], said
    code, out, _ = edgeveil("board", "status", "--on", server.target, "--json")
    there = json.loads(out)
    assert (code, there["current"], there["previous"]) == (0, there["committed"], again["sha"])

    code, _, said = edgeveil("board", "rollback", "--on", server.target)
    assert code == 2
    assert "this device takes 2" in said


def test_probe_says_what_the_board_is(edgeveil, server, monkeypatch):
    owners.few_interpreters(monkeypatch)
    code, out, _ = edgeveil("board", "probe", "--on", server.target, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["edgeveil"] is None
    assert found["free_bytes"] > 0


def test_a_board_without_edgeveil_says_so(edgeveil, server):
    code, _, said = edgeveil("board", "status", "--on", server.target)
    assert code == 2
    assert "flash it first" in said


def test_an_unknown_host_key_is_refused(server, tmp_path):
    (tmp_path / "none").write_text("")
    with pytest.raises(BadInput, match=r"host key of 127\.0\.0\.1 is unknown.*>> .*/none"):
        open_transport(server.target, identity=server.identity, known_hosts=tmp_path / "none")


@pytest.fixture
def other(tmp_path):
    """The key of somebody else."""
    subprocess.run([programs.need("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    return tmp_path / "other"


def test_another_host_key_than_before_is_refused(server, other, tmp_path):
    key = " ".join(other.with_suffix(".pub").read_text().split()[:2])
    (tmp_path / "hosts").write_text(f"[127.0.0.1]:{server.port} {key}\n")
    with pytest.raises(BadInput, match="another host key than before"):
        open_transport(server.target, identity=server.identity, known_hosts=tmp_path / "hosts")


def test_who_may_not_log_in_is_told(server, other):
    with pytest.raises(BadInput, match="refused the login"):
        open_transport(server.target, identity=other, known_hosts=server.known_hosts)


@pytest.mark.parametrize("port", ["port", "99999", "0", "-1"])
def test_a_port_that_is_none_is_one_sentence(port):
    with pytest.raises(BadInput, match="with a port of 1 to 65535"):
        open_transport(f"ssh://root@127.0.0.1:{port}")


def test_a_wrong_identity_is_named(server, tmp_path):
    with pytest.raises(BadInput, match=r"private key .*nosuch cannot be read: No such file"):
        open_transport(server.target, identity=tmp_path / "nosuch", known_hosts=server.known_hosts)
    (tmp_path / "text").write_text("no key")
    with pytest.raises(BadInput, match=r"text is no private key of OpenSSH or PEM"):
        open_transport(server.target, identity=tmp_path / "text", known_hosts=server.known_hosts)


def test_nobody_answers(server):
    with pytest.raises(DeviceFailed, match="There is no answer"):
        open_transport("ssh://root@127.0.0.1:1", identity=server.identity, known_hosts=server.known_hosts)


def opened(server):
    return contextlib.closing(open_transport(server.target, identity=server.identity, known_hosts=server.known_hosts))


@pytest.fixture(scope="module")
def line(server):
    """A line of all tests that leave it as it was."""
    with opened(server) as transport:
        yield transport


def test_an_upload_goes_on_where_it_broke_off(line, tmp_path):
    data = bytes(range(256)) * 4096
    path = str(tmp_path / "there")
    part = f"{path}.{digest(data)[:16]}.part"
    line.put(data[:300_000], part)
    sent = []
    line.put(data, path, lambda there, _total: sent.append(there))
    assert min(sent) > 300_000
    assert read_back(line, path) == (len(data), digest(data))
    sent.clear()
    line.put(data, path, lambda there, _total: sent.append(there))
    assert sent == [len(data)]


def test_what_lies_there_of_another_upload_is_not_built_upon(line, tmp_path):
    data, path = b"x" * 100_000, str(tmp_path / "there")
    line.put(b"y" * 50_000, f"{path}.{digest(data)[:16]}.part")
    line.put(data, path)
    assert read_back(line, path) == (len(data), digest(data))


@pytest.mark.parametrize(
    "text", ["; touch gone", "$(touch gone)", "`touch gone`", "a b", "'", '"', "\n", "*", "-n", "\\"]
)
def test_no_argument_is_read_by_a_shell(line, text, tmp_path):
    done = line.run(["python3", "-c", "import sys; sys.stdout.write(sys.argv[1])", text])
    assert (done.code, done.raw, done.err) == (0, text.encode(), b"")


def test_much_output_on_both_sides_and_the_exit_code(line):
    script = "import sys; sys.stderr.write('e' * 3000000); sys.stdout.write('o' * 3000000); sys.exit(7)"
    done = line.run(["python3", "-c", script])
    assert (done.code, len(done.out), len(done.err)) == (7, 3_000_000, 3_000_000)


def test_a_command_that_takes_too_long(line):
    with pytest.raises(DeviceFailed, match="took too long"):
        line.run(["sleep", "20"], timeout_s=0.5)


@pytest.fixture
def hurried(monkeypatch):
    """A process that was left behind is waited for half as long and less."""
    monkeypatch.setattr(ssh, "SILENT_S", 0.5)
    monkeypatch.setattr(ssh, "LEFT_OPEN_S", 1.5)


def test_what_is_printed_after_the_end_is_read_too(line, hurried):
    for silent in ("", "sleep 0.7; "):
        done = line.run(["sh", "-c", f"{silent}(sleep 0.1; echo late) & exit 3"])
        assert (done.code, done.out, done.err) == (3, b"late\n", b"")


def test_who_was_left_behind_with_the_outputs_is_not_waited_for(line, hurried):
    begun = time.monotonic()
    done = line.run(["sh", "-c", "echo begun; sleep 30 & exit 3"])
    assert (done.code, done.out, done.err) == (3, b"begun\n", b"")
    chatty = "(for i in $(seq 60); do sleep 0.2; echo more; done) & exit 3"
    assert line.run(["sh", "-c", chatty], timeout_s=4).code == 3
    assert time.monotonic() - begun < 12


@pytest.mark.parametrize("victim", ["$$", "$PPID"])
def test_an_end_without_an_exit_code_is_no_exit_code(server, victim):
    with opened(server) as line, pytest.raises(DeviceFailed, match=r"ended on .* without an exit code"):
        line.run(["sh", "-c", f"kill -9 {victim}; sleep 5"])


def test_an_end_between_two_looks_is_an_end():
    """The code and the close come while the first round of looking is under way."""
    looks = itertools.count()
    channel = type("Channel", (types.SimpleNamespace,), {"closed": property(lambda _self: next(looks) > 0)})(
        recv_ready=lambda: False, recv_stderr_ready=lambda: False, exit_status_ready=lambda: next(looks) > 0
    )
    assert ssh._drain(channel, 5) == (b"", b"")


def test_a_line_that_breaks_is_said(server):
    transport = open_transport(server.target, identity=server.identity, known_hosts=server.known_hosts)
    board = Board(transport)
    transport._clients[-1].get_transport().sock.close()
    with pytest.raises(DeviceFailed, match="Flash again: it resumes"):
        board.facts()
