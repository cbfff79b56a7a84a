"""The serial console: a real shell on a pseudo-terminal at the end of a cable with seeded faults."""

import base64
import hashlib
import json
import os
import shutil
import stat
import termios
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeveil.devices.agents import serial_link
from edgeveil.devices.agents.serial_agent import HANG_UP, READY, SILENCE_S
from edgeveil.devices.agents.serial_link import BLOCK, LineBroken, Link, cobs, frame, uncobs
from edgeveil.devices.transports import serial
from edgeveil.devices.transports.base import digest
from edgeveil.devices.transports.serial import SerialTransport
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from tests.support import output
from tests.support.boards import lossy_serial_line, owners, sshd
from tests.support.boards.owners import SECRET

OOPS = b"\r\n[ 1042.170815] brcmfmac: brcmf_cfg80211_set_power_mgmt: power save enabled\r\n"


@pytest.fixture(autouse=True, scope="module")
def quick():
    """A shell on this machine answers at once: what has not come is lost."""
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in (("START_S", 3), ("ANSWER_S", 1), ("SETTLE_S", 0.2)):
            patch.setattr(serial, name, seconds)
        yield


@given(st.binary(max_size=1200))
def test_what_was_coded_has_no_zero_byte_and_comes_back(data):
    assert b"\0" not in cobs(data)
    assert uncobs(cobs(data)) == data


def ends():
    """Two ends of one line without a fault; what is written at one can be read at the other."""
    to_a, to_b = [], []
    a = Link(lambda _s: to_a.pop(0) if to_a else b"", to_b.append)
    b = Link(lambda _s: to_b.pop(0) if to_b else b"", to_a.append)
    return a, b, to_b


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5000])
def test_a_message_is_the_same_at_the_other_end(size):
    import threading

    a, b, _ = ends()
    message, got = os.urandom(size), []
    thread = threading.Thread(target=lambda: got.append(b.receive(5)))
    thread.start()
    a.send(message, 5)
    thread.join(5)
    assert got == [message]
    assert a.resent == 0 or size > BLOCK


@given(st.binary(min_size=1, max_size=300), st.integers(0, 10_000), st.integers(0, 7))
def test_no_flipped_bit_makes_another_message(payload, place, bit):
    a, _, _ = ends()
    data = bytearray(frame(b"B", 5, 0, 1, payload))
    data[place % len(data)] ^= 1 << bit
    a.read = lambda _s: bytes(data)
    assert [found for found in a.frames(0) if found[3] != (1, payload)] == []


def test_silence_is_noticed():
    a, _, _ = ends()
    with pytest.raises(LineBroken):
        a.send(b"hello", patience_s=0.2)
    with pytest.raises(LineBroken):
        a.receive(patience_s=0.2)


def test_a_console_with_a_login(tmp_path):
    with lossy_serial_line.board(tmp_path, password=SECRET) as board:
        console = SerialTransport(board.port, user="pi", password=SECRET)
        done = console.run(["sh", "-c", "cat; echo err >&2; exit 7"], data=b"\x00\xff in")
        assert (done.code, done.raw, done.err) == (7, b"\x00\xff in", b"err\n")
        assert console.run(["echo", "$(id)", "; touch gone"]).out == b"$(id) ; touch gone\n"
        assert console.run(["no-such-command"]).code == 127
        with pytest.raises(DeviceFailed, match="took longer than"):
            console.run(["sleep", "5"], timeout_s=0.3)
        console.close()


@pytest.mark.nightly  # by day one that says so at once, above
@pytest.mark.slow
def test_a_login_that_takes_its_time_to_say_no(tmp_path):
    """What was typed to end our program is a wrong name to it, and it lets nobody try again at once."""
    with lossy_serial_line.board(tmp_path, password=SECRET, delay_s=1) as board:
        console = SerialTransport(board.port, user="pi", password=SECRET)
        assert console.run(["echo", "in"]).out == b"in\n"
        console.close()
    *others, ours = (tmp_path / "tried").read_text().splitlines()
    assert ours == "right pi"
    assert others
    assert not any(one.startswith("right") for one in others)  # no password for a name that is not ours


@pytest.mark.parametrize(("given", "says"), [(None, "asks for the password"), ("wrong", "refused the password")])
def test_who_cannot_log_in_is_told(tmp_path, given, says):
    with lossy_serial_line.board(tmp_path, password=SECRET) as board, pytest.raises(BadInput, match=says):
        SerialTransport(board.port, user="pi", password=given)


def test_a_port_that_is_not_there():
    with pytest.raises(BadInput, match="Is the cable in"):
        SerialTransport("/dev/ttyNone")


def test_a_port_that_is_in_use(tmp_path):
    import serial as pyserial

    with (
        lossy_serial_line.board(tmp_path) as board,
        pyserial.Serial(board.port, exclusive=True),
        pytest.raises(BadInput, match="in use by another program"),
    ):
        SerialTransport(board.port)


def test_the_ports_settings_are_put_back(tmp_path):
    with lossy_serial_line.board(tmp_path) as board:
        handle = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
        odd = termios.tcgetattr(handle)
        odd[3] |= termios.ECHO
        odd[6][termios.VMIN] = 7
        termios.tcsetattr(handle, termios.TCSANOW, odd)
        console = SerialTransport(board.port)
        assert termios.tcgetattr(handle)[3] != odd[3]
        console.close()
        assert termios.tcgetattr(handle) == odd
        os.close(handle)


@pytest.mark.slow
def test_a_file_survives_a_cable_that_flips_drops_inserts_and_is_pulled(tmp_path):
    faults = lossy_serial_line.Faults(
        flip=5e-4, drop=2e-4, insert=2e-4, cuts=(15_000, 30_000), noise=OOPS, noise_every=9_000, rate=60_000
    )
    data = os.urandom(20_000)
    with lossy_serial_line.board(tmp_path, faults) as board:
        said = []
        console = SerialTransport(board.port, say=said.append)
        seen = []
        console.put(data, str(tmp_path / "there"), lambda there, _all: seen.append(there))
        assert board.cuts == 2
        assert board.spoilt > 10
        console.close()
    assert (tmp_path / "there").read_bytes() == data
    assert seen[-1] == len(data)


@pytest.mark.nightly  # by day bytes that come out otherwise, above
@pytest.mark.slow
def test_a_terminal_that_a_stray_byte_halted_goes_on(tmp_path):
    with lossy_serial_line.board(tmp_path) as board:
        with Path(board.port).open("wb", buffering=0) as port:
            port.write(b"\x13")
            time.sleep(0.3)
        SerialTransport(board.port).close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param({READY: 1}, marks=pytest.mark.nightly),
        pytest.param({READY: 1, HANG_UP: 2}, marks=pytest.mark.nightly),
        {b"/1;": 1},
    ],
    ids=["ready", "ready-and-hang-up", "a-line-over-one-that-was-checked"],
)
def test_a_word_that_came_out_otherwise_costs_neither_the_program_nor_the_console(tmp_path, words):
    with lossy_serial_line.board(tmp_path) as board:
        SerialTransport(board.port).close()
    said = []
    with lossy_serial_line.board(tmp_path, lossy_serial_line.Faults(words=words, instead={b"/1;": b"/0;"})) as board:
        console = SerialTransport(board.port, say=said.append)
        assert console.run(["echo", "there"]).out == b"there\n"
        console.close()
        assert board.spoilt >= sum(words.values())  # a shell repeats what is typed
    assert not said


@pytest.mark.slow
def test_a_program_that_was_left_behind_is_ended_though_the_first_word_to_it_is_lost(tmp_path):
    with lossy_serial_line.board(tmp_path, lossy_serial_line.Faults(words={HANG_UP: 2})) as board:
        left = SerialTransport(board.port)  # says it once as well
        left._hang_up()
        begun = time.monotonic()
        console = SerialTransport(board.port)
        assert console.run(["echo", "there"]).out == b"there\n"
        console.close()
        assert time.monotonic() - begun < SILENCE_S / 2


def test_it_is_typed_into_a_folder_with_a_name_nobody_knows_before(tmp_path):
    """Where it was typed until version 0.1, another user could have put a link."""
    known, mine = "/tmp/.edgeveil-" + hashlib.sha256(serial._program()).hexdigest()[:16], tmp_path / "mine"  # noqa: S108
    mine.write_text("mine")
    shutil.rmtree(known, ignore_errors=True)
    Path(known).mkdir()
    for number in range(200):
        (Path(known) / str(number)).symlink_to(mine)
    places = []
    for run in "ab":
        (tmp_path / run).mkdir()
        with lossy_serial_line.board(tmp_path / run) as board:
            console = SerialTransport(board.port)
            places.append(Path(console._place))
            assert stat.S_IMODE(places[-1].stat().st_mode) == 0o700
            assert places[-1].stat().st_uid == os.getuid()
            console.close()
    assert mine.read_text() == "mine"
    assert len(set(places)) == 2
    assert not any(place.exists() for place in places)
    shutil.rmtree(known)


@pytest.mark.parametrize("how", ["link", "open to others", "changed", pytest.param("kept", marks=pytest.mark.nightly)])
def test_a_folder_of_an_earlier_login_is_looked_at_again(tmp_path, how):
    with lossy_serial_line.board(tmp_path) as board:
        console = SerialTransport(board.port)
        place, moved = Path(console._place), tmp_path / "moved"
        console._write(serial._END_OF_OURS)
        console._hang_up()
        if how == "link":
            place.rename(moved)
            moved.chmod(0o700)
            place.symlink_to(moved)
        elif how == "open to others":
            place.chmod(0o777)
        elif how == "changed":  # only bytes with the right SHA-256 are run
            planted = f"open({str(tmp_path / 'planted')!r}, 'w')".encode()
            for one in place.iterdir():
                one.write_bytes(base64.b64encode(zlib.compress(planted)) if one.name == "0" else b"")
        console._open()
        assert (Path(console._place) == place) is (how in ("changed", "kept"))
        assert not (tmp_path / "planted").exists()
        assert console.run(["echo", "ours"]).out == b"ours\n"
        console.close()
    place.unlink() if how == "link" else shutil.rmtree(place, ignore_errors=True)


def test_a_folder_that_is_not_ours_alone_is_not_used(tmp_path, monkeypatch):
    """A board whose mktemp gives a folder that others may write."""
    (tmp_path / "bin").mkdir()
    shared = Path("/tmp/edgeveil-0123456789")  # noqa: S108 - where a board's would be
    (tmp_path / "bin/mktemp").write_text(f"#!/bin/sh\nmkdir -p -m 777 {shared}; echo {shared}\n")
    (tmp_path / "bin/mktemp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with (
        lossy_serial_line.board(tmp_path) as board,
        pytest.raises(DeviceFailed, match="no folder below /tmp that is ours alone"),
    ):
        SerialTransport(board.port)
    shutil.rmtree(shared)


def test_an_upload_goes_on_after_a_reboot(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeveil.devices.transports.serial.PIECE", 1024)
    data = os.urandom(5_000)
    with lossy_serial_line.board(tmp_path) as board:
        first = SerialTransport(board.port)

        class PlugPulled(Exception):
            pass

        def pull(there, _all):
            if there > 3_000:
                raise PlugPulled

        with pytest.raises(PlugPulled):
            first.put(data, str(tmp_path / "there"), pull)
        first._hang_up()
        second, seen = SerialTransport(board.port), []
        second.put(data, str(tmp_path / "there"), lambda there, _all: seen.append(there))
        second.close()
    assert (tmp_path / "there").read_bytes() == data
    assert min(seen) > 2_000


@pytest.mark.nightly  # by day commands and files, above, and a bundle over ssh: test_flash_ssh.py
@pytest.mark.slow
def test_a_bundle_is_flashed_over_the_console(tmp_path, capfd, monkeypatch):
    """Of bundle and runtime all but the end is there, from a try before, as it takes long to send."""
    owners.few_interpreters(monkeypatch)
    root, bundle, edgeveil = owners.trust(tmp_path), owners.bundle(tmp_path), output.in_process(monkeypatch, capfd)
    uploads = tmp_path / ".cache/edgeveil-incoming"
    uploads.mkdir(parents=True, mode=0o700)
    sent = bundle.path.read_bytes()
    for data, name in ((sent, digest(sent) + ".veil"), (zipapp_bytes(), "edgeveil-edge.pyz")):
        (uploads / f"{name}.{digest(data)[:16]}.part").write_bytes(data[:-8000])
    (tmp_path / "opt").mkdir()
    (tmp_path / "password").write_text(SECRET + "\n")
    with lossy_serial_line.board(tmp_path, password=SECRET) as board:
        target = f"serial://{board.port}?user=pi"
        login = {"root": tmp_path / "opt", "password_file": "password"}
        common = ["--on", target, *sshd.boards_file(tmp_path, {target: login})]
        flash = ["flash", bundle.path, "--for", "workstation", "--trust", root, "--no-service"]
        for words in (flash, ["status", "--json"]):
            code, out, said = edgeveil(*words, *common)
            assert code == 0, said
    assert json.loads(out)["committed"]


def test_the_link_stands_alone():
    """It is typed into a shell: it may import nothing that a bare Python 3.6 lacks."""
    source = open(serial_link.__file__).read()  # noqa: PTH123, SIM115
    assert "edge_runtime" not in source.split('"""')[2]
