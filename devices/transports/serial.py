"""A serial console: logs in, types a small program into the shell, and then exchanges frames with it.

The console needs physical access to the board, so the channel counts as authenticated.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qs

from edgeveil.devices.agents import read_agent
from edgeveil.devices.agents.serial_agent import HANG_UP, READY
from edgeveil.devices.agents.serial_link import LineBroken, Link
from edgeveil.devices.transports.base import Completed, Progress, already_sent, digest, holds
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

PIECE = 24 * 1024  # bytes of a file that are acknowledged together: the most that a reboot loses
TRIES = 8  # logins in a row that fail
TYPED = 160  # characters of one line that is typed
START_S = 10  # until our program, typed and started, is taken for lost
ANSWER_S = 5  # until a line that was typed is taken for lost
SETTLE_S = 0.5  # of silence, after which a login's last line is a question
_END_OF_OURS = b"\r# " + HANG_UP + b"\0\r"  # a shell takes it for a comment: it has no control character that ends one
_BACK_TO_THE_SHELL = b"\x03" + _END_OF_OURS  # out of an open quote, out of a command, out of our program
_GO_ON = b"\x11 "  # XON: a flipped byte may have been XOFF, after which a terminal shows nothing
_LOGIN, _PASSWORD = re.compile(rb"(?i)login: ?$"), re.compile(rb"(?i)password: ?$")
_PROMPT = re.compile(rb"[$#] ?$")
_FOLDER = re.compile(rb"(/tmp/edgeveil-[A-Za-z0-9]{10})\s")


class SerialTransport:
    """A console at a port that pyserial can open (a device or one of its URLs, ``socket://host:port``)."""

    python = "python3"
    trusted = True

    def __init__(
        self,
        port: str,
        *,
        baud: int = 115_200,
        user: str = "root",
        password: str | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.name, self._port_name, self._baud = port, port, baud
        self._user, self._password, self._say = user, password, say
        self._port: Any = None
        self._link: Link | None = None
        self._settings: Any = None
        self._place: str | None = None  # where our program is typed on the board, for later logins
        self._open()

    @classmethod
    def from_url(
        cls, url: SplitResult, *, password: str | None = None, say: Callable[[str], None] = lambda _: None
    ) -> SerialTransport:
        """From ``serial:///dev/ttyUSB0?baud=115200&user=pi``. Raises ``BadInput`` for an unknown option."""
        options = {name: values[-1] for name, values in parse_qs(url.query).items()}
        user, text = options.pop("user", "root"), options.pop("baud", "115200")
        if options or not text.isdigit():
            raise BadInput(f"A serial target takes ?baud=NUMBER and &user=NAME; got {url.query!r}.")
        return cls(url.path, baud=int(text), user=user, password=password, say=say)

    def run(self, command: Sequence[str], *, data: bytes = b"", timeout_s: float = 120) -> Completed:
        """Run a command; a second time if the connection was lost before its answer came.

        Raises ``DeviceFailed`` on a timeout, or if the connection stays lost.
        """
        facts, back = self._ask(
            {"op": "run", "command": list(command), "timeout_s": timeout_s}, data, patience_s=timeout_s + 20
        )
        if facts.get("timed_out"):
            raise DeviceFailed(f"{command[0]} took longer than {timeout_s:g} s on {self.name}.")
        if "error" in facts:
            return Completed(127, b"", facts["error"].encode())
        return Completed(facts["code"], back[: facts["out"]], back[facts["out"] :])

    def put(self, data: bytes, path: str, progress: Progress = lambda *_: None) -> None:
        """Write these bytes to ``path``; resumes after a lost connection or a reboot. Raises ``DeviceFailed``."""
        if holds(self, path, data):
            progress(len(data), len(data))
            return
        part = f"{path}.{digest(data)[:16]}.part"
        # An empty file is one empty piece.
        for at in range(already_sent(self, part, data), max(len(data), 1), PIECE):
            piece = data[at : at + PIECE]

            def done(blocks: int, of: int, at: int = at, size: int = len(piece)) -> None:
                progress(at + size * blocks // of, len(data))

            facts, _ = self._ask({"op": "append", "path": part, "at": at}, piece, progress=done)
            if "error" in facts:
                raise DeviceFailed(f"Writing {path} failed on the board: {facts['error']}.")
        if not holds(self, part, data):
            self.run(["rm", "-f", part])
            raise DeviceFailed(f"{path} came out different on the board: its card or its memory is bad. Try once more.")
        moved = self.run(["mv", "-f", part, path])
        # If the connection was lost before the answer came, mv ran twice, and the second time found nothing.
        if moved.code and not holds(self, path, data):
            raise DeviceFailed(f"Writing {path} failed on the board: {moved.last_line()}.")

    def close(self) -> None:
        """End our program on the console, remove its folder there, and restore the port's settings."""
        if self._link is not None:
            with contextlib.suppress(OSError, LineBroken):
                gone = {"op": "run", "command": ["rm", "-rf", "--", self._place], "timeout_s": 10}
                self._link.send(json.dumps(gone).encode() + b"\n", patience_s=5)
                self._link.receive(5)
            with contextlib.suppress(OSError):
                self._write(_END_OF_OURS)
        self._hang_up()

    def _ask(
        self, request: dict[str, Any], data: bytes, *, patience_s: float = 60, progress: Progress | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """One request and its answer; logs in again after a lost connection. Every request may be repeated."""
        message = json.dumps(request).encode() + b"\n" + data
        for _ in range(TRIES):
            try:
                if self._link is None:
                    self._open()
                assert self._link is not None  # noqa: S101 - _open made it
                self._link.send(message, progress=progress)
                head, _, back = self._link.receive(patience_s).partition(b"\n")
                return json.loads(head), back
            except (LineBroken, OSError) as error:
                self._say(f"The connection to {self.name} was lost ({error or 'silence'}); logging in again.")
                self._hang_up()
                time.sleep(0.5)
        raise DeviceFailed(
            f"The connection to {self.name} was lost {TRIES} times. Check cable, speed and power; flash again: it "
            "resumes."
        )

    def _open(self) -> None:
        import serial

        first = self._settings is None
        if first:
            self._settings = _settings(self._port_name)
        end = time.monotonic() + 90
        while True:
            try:
                self._port = serial.serial_for_url(self._port_name, baudrate=self._baud, timeout=0, exclusive=True)
                break
            except serial.SerialException as error:
                reason = str(error)
                if "busy" in reason.lower() or "exclusively lock" in reason or "temporarily unavailable" in reason:
                    raise BadInput(f"{self._port_name} is in use by another program. Close it first.") from None
                # After a lost connection the port may need a moment to come back; at the first try it does not exist.
                if first or time.monotonic() > end:
                    raise BadInput(f"{self._port_name} cannot be opened: {reason}. Is the cable in?") from None
                time.sleep(0.5)
            except ValueError as error:
                raise BadInput(f"{self._port_name} cannot be opened: {error}.") from None
        # If our program still runs there, it ends.
        self._write(_END_OF_OURS)
        console = _Console(self._read, self._write)
        console.log_in(self._user, self._password)
        self._place = console.type_program(_program(), self._place)
        self._link = Link(self._read, self._write)

    def _hang_up(self) -> None:
        import termios

        self._link = None
        if self._port is not None:
            with contextlib.suppress(Exception):
                if self._settings:
                    termios.tcsetattr(self._port.fileno(), termios.TCSADRAIN, self._settings)
                self._port.close()
            self._port = None

    def _read(self, seconds: float) -> bytes:
        import serial

        try:
            if seconds and not self._port.in_waiting:
                self._port.timeout = seconds
                first = self._port.read(1)
                self._port.timeout = 0
                return first + self._port.read(65536)
            return self._port.read(65536)
        except (serial.SerialException, TypeError) as error:
            raise OSError(str(error)) from None

    def _write(self, data: bytes) -> None:
        import serial

        try:
            self._port.write(data)
            # Keep the system's buffer short: the time that a block takes must not depend on it.
            while self._port.out_waiting > 512:
                time.sleep(0.002)
        except (serial.SerialException, TypeError) as error:
            raise OSError(str(error)) from None


class _Console:
    """A login prompt or a shell, used as a person at the keyboard would."""

    def __init__(self, read: Callable[[float], bytes], write: Callable[[bytes], None]) -> None:
        self._read, self._write, self._seen = read, write, b""

    def log_in(self, user: str, password: str | None) -> None:
        """Get to a shell. Raises ``BadInput`` for a password that is missing or wrong, ``DeviceFailed`` for silence."""
        attempts, named = 0, False
        end = time.monotonic() + 120
        self._write(b"\r")
        while time.monotonic() < end:
            # The board first answers what was typed too early; only what it shows after that is a question.
            while len(self._seen) != len(self._listen(SETTLE_S)):
                pass
            if self._asks(_LOGIN):
                named = True
                self._answer(user)
            elif self._asks(_PASSWORD) and not named:
                self._answer("")  # the line that was typed to find a shell was taken for a user name
            elif self._asks(_PASSWORD):
                attempts, named = attempts + 1, False
                if password is None:
                    raise BadInput(
                        f"The console asks for the password of {user}. Give it by password_file in boards.toml."
                    )
                if attempts > 3:
                    raise BadInput(f"The console refused the password of {user}.")
                self._answer(password)
            elif self._is_shell():
                return
            else:
                # Perhaps our program still runs there and did not get the first of these completely.
                self._write(_GO_ON + _END_OF_OURS)
        raise DeviceFailed(
            "Neither a login nor a shell appeared on the console within 120 s. Check the speed and the board."
        )

    def type_program(self, program: bytes, place: str | None = None) -> str:
        """Type a program into the shell line by line, check each line, start it and wait until it runs.

        Returns the folder on the board that it was typed into. ``place`` is the one of an earlier login: if it is still
        ours alone, a program that was typed there completely is started at once.
        """
        packed = base64.b64encode(zlib.compress(program, 9))
        lines = [packed[at : at + TYPED] for at in range(0, len(packed), TYPED)]
        self._until("stty -echo 2>/dev/null; umask 077; hash python3 || echo no-''python; echo look-''ed", b"look-ed")
        if b"no-python" in self._seen:
            raise BadInput("Python 3.6 or later was expected on the board; there is none. Install python3.")
        if place is None or not self._owns(place):
            place = self._own_folder()
        sha = hashlib.sha256(program).hexdigest()
        start = (
            'python3 -c \'import base64,hashlib,zlib;s=zlib.decompress(base64.b64decode(b"".join('
            f'open("{place}/%d"%n,"rb").read()for n in range({len(lines)}))));'
            f'assert hashlib.sha256(s).hexdigest()=="{sha}";exec(s,{{"__name__":"__main__"}})\''
        )
        last = f"{place}/{len(lines) - 1}"
        self._command(f"ls {last} 2>/dev/null && echo typed-''before")
        if b"typed-before" in self._seen and self._start(start):
            return place
        for _ in range(3):  # a name with a wrong bit in it puts a line over one that was checked
            for number, line in enumerate(lines):
                want = hashlib.sha256(line).hexdigest()[:20].encode()
                self._until(f"printf %s {line.decode()} > {place}/{number}; sha256sum {place}/{number}", want)
            if self._start(start) or self._start(start):
                return place
        raise DeviceFailed("The program that takes the files does not start on the board's Python. Is it 3.6 or later?")

    def _own_folder(self) -> str:
        """A new folder that only we can write: others on the board may put a link at a name that they know."""
        for _ in range(12):
            match = _FOLDER.search(self._command("mktemp -d /tmp/edgeveil-XXXXXXXXXX"))
            if match and self._owns(match.group(1).decode()):
                return match.group(1).decode()
        raise DeviceFailed(
            "The board gives no folder below /tmp that is ours alone (mktemp -d). Is it full, or mounted read-only?"
        )

    def _owns(self, place: str) -> bool:
        """Whether it is a folder, no link, of the user logged in, which no one else may enter."""
        check = f"""[ "$(stat -c %u.%a.%F {place})" = "$(id -u).700.directory" ] && echo ours-''alone"""
        return any(b"ours-alone" in self._command(check) for _ in range(3))

    def _start(self, command: str) -> bool:
        """Whether the program started; if not, the shell is back."""

        def failed() -> bool:
            return bool(re.search(rb"(rror:|Error|not found)", self._seen)) and self._asks(_PROMPT)

        self._type(command, lambda: READY in self._seen or failed(), START_S)
        if READY in self._seen:
            return True
        # Perhaps only the program's first line was lost, and it takes what is typed for noise: end it.
        self._write(_BACK_TO_THE_SHELL)
        self._listen(0.3)
        return False

    def _until(self, text: str, want: bytes) -> None:
        """Type a line, repeatedly if needed, until the board answers with ``want``."""
        for _ in range(12):
            if want in self._command(text):
                return
        raise DeviceFailed("The console garbles what is typed. Check the speed, the cable and its ground.")

    def _answer(self, text: str) -> None:
        """Answer a login's question and wait for the next prompt: a refusal takes seconds."""
        self._type(text, lambda: any(self._asks(one) for one in (_LOGIN, _PASSWORD, _PROMPT)), 10)

    def _type(self, text: str, until: Callable[[], bool], wait_s: float) -> None:
        """Type a line and listen until ``until`` is true, ``wait_s`` seconds at most."""
        self._seen = b""
        self._write(text.encode() + b"\r")
        end = time.monotonic() + wait_s
        while time.monotonic() < end and not until():
            self._listen(0.2)

    def _asks(self, pattern: re.Pattern[bytes]) -> bool:
        return pattern.search(self._seen[-200:].rstrip(b"\r\n")) is not None

    def _is_shell(self) -> bool:
        answers = (re.compile(b"shell-4"), _LOGIN, _PASSWORD)
        self._type("echo shell-$((2+2))", lambda: any(self._asks(one) for one in answers), 2)
        return b"shell-4" in self._seen

    def _command(self, text: str) -> bytes:
        """Type a line and listen until the shell has answered it with a mark of ours."""
        mark = f"{time.monotonic_ns() % 10**9:09d}"
        # The mark is typed in two parts, so that the echo of the line is not taken for the answer.
        self._type(f"{text}; echo end-''{mark}", lambda: b"end-" + mark.encode() in self._seen, ANSWER_S)
        if b"end-" + mark.encode() not in self._seen:
            self._write(_BACK_TO_THE_SHELL)
            self._listen(0.3)
        return self._seen

    def _listen(self, seconds: float) -> bytes:
        self._seen = (self._seen + self._read(seconds))[-8192:]
        return self._seen


def _program() -> bytes:
    """The link and the agent as one source, without comments and docstrings, which would take long to type."""
    from edgeveil.devices.zipapp import lean

    agent = read_agent("serial_agent").replace(
        b"from edgeveil.devices.agents.serial_link import LineBroken, Link\n", b""
    )
    return lean(read_agent("serial_link") + agent)


def _settings(port: str) -> Any:
    """The terminal's settings before us; empty if the port is not a terminal."""
    import termios

    try:
        handle = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return ()
    try:
        return termios.tcgetattr(handle)
    except termios.error:
        return ()
    finally:
        os.close(handle)
