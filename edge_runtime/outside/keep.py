"""The service where there is no systemd: both halves under users of their own, watched and started again.

What ``devices/units/`` says to systemd, said in Python, with the same limits: the outside must report itself every
``WATCHDOG_S`` (sd_notify) and get something out within ``START_S``; either half comes back after a pause, at most
``BUDGET`` times an hour, but never after a mistake (exit code 2) or a stop for privacy (70). The inside is started
without any network. A sandbox of the file system and a list of devices are systemd's alone: here a half may open what
its user and groups may.
"""

import collections
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.device import CPU, hears_of_usb
from edgeveil.edge_runtime.errors import DeviceFailed, EdgeVeilError, PrivacyStop
from edgeveil.edge_runtime.sandbox import hardening, isolation

WATCHDOG_S, START_S, STOP_S = 30.0, 180.0, 8.0
BUDGET, BUDGET_S = 40, 3600.0
TURN_S = 0.5
_FINAL = (2, PrivacyStop.exit_code)

Half = NamedTuple(
    "Half",
    [
        ("name", str),
        ("command", List[str]),
        ("user", Optional[str]),  # None: ours
        ("groups", Tuple[str, ...]),
        ("network", bool),
        ("pause_s", float),
        ("namespace", bool),  # a network namespace of its own, for one without a network
    ],
)


class Ended(EdgeVeilError):
    """The service is over for a reason that starting it again does not cure; carries its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super(Ended, self).__init__(message)
        self.exit_code = exit_code


class Keeper(object):
    """Keeps ``outside`` and ``inside`` running. ``folder`` is where they meet; it is made for the outside's user.

    ``release()`` names what should run: when it changes, both are started anew. ``say`` takes a line for the log.
    """

    def __init__(
        self,
        outside: Half,
        inside: Half,
        folder: str,
        *,
        release: Callable[[], Any],
        say: Callable[[str], None],
        ready: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outside, self._inside, self._folder = outside, inside, folder
        self._release, self._say, self._told_ready, self._clock = release, say, ready, clock
        self._processes: Dict[str, Any] = {}
        self._due_s = {outside.name: 0.0, inside.name: 0.0}  # when to start one that does not run; inf: never again
        self._starts: Dict[str, Any] = {name: collections.deque() for name in self._due_s}
        self._since_s = self._beat_s = 0.0
        self._ready, self._stopping = False, False

    def run(self) -> None:
        """Until told to stop. Raises ``Ended`` or ``DeviceFailed`` where it is over by itself."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        _own_folder(self._folder, self._outside.user)
        place = os.path.join(self._folder, "notify")
        if os.path.lexists(place):
            os.unlink(place)
        runs = self._release()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notes:
            notes.bind(place)
            os.chmod(place, 0o600)
            _give(place, self._outside.user)
            try:
                while not self._stopping:
                    self._start_what_is_due(place)
                    self._listen(notes)
                    self._look()
                    if self._release() != runs:
                        runs = self._release()
                        self._say("another release was committed: both halves are started anew")
                        self._end_all()
            finally:
                self._end_all()

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _start_what_is_due(self, place: str) -> None:
        now = self._clock()
        for half in (self._outside, self._inside):
            if half.name in self._processes or now < self._due_s[half.name]:
                continue
            starts = self._starts[half.name]
            while starts and now - starts[0] > BUDGET_S:
                starts.popleft()
            if len(starts) > BUDGET:
                raise DeviceFailed(
                    "the {} was started {} times in an hour; look at {} and start the service again".format(
                        half.name, len(starts), "the camera and its cable" if half is self._inside else "its sinks"
                    )
                )
            starts.append(now)
            more = {}
            if half is self._outside:
                more = {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6))}
                self._since_s, self._ready = now, False
            self._processes[half.name] = _start(half, more)

    def _listen(self, notes: Any) -> None:
        """The outside's own words, and what either half writes to its standard error, for a turn."""
        pipes = {process.stderr: name for name, process in self._processes.items() if process.stderr}
        for source in select.select([notes] + list(pipes), [], [], TURN_S)[0]:
            if source is not notes:
                self._pass_on(source, pipes[source])
                continue
            words = notes.recv(4096).split(b"\n")
            self._beat_s = self._clock()
            if b"READY=1" in words and not self._ready:
                self._ready = True
                self._say("ready")
                self._told_ready()

    def _pass_on(self, pipe: Any, name: str) -> None:
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return
        for line in data.decode("utf-8", "replace").splitlines():
            self._say("{}: {}".format(name, line[:500]))

    def _look(self) -> None:
        now = self._clock()
        outside = self._processes.get(self._outside.name)
        if outside is not None and outside.poll() is None:
            late = now - (self._beat_s if self._ready else self._since_s)
            if late > (WATCHDOG_S if self._ready else START_S):
                what = "has said nothing" if self._ready else "let nothing out"
                self._say("the outside {} for {:.0f} s: it is ended and started again".format(what, late))
                outside.kill()
                outside.wait()
        for half in (self._outside, self._inside):
            process = self._processes.get(half.name)
            if process is not None and process.poll() is not None:
                self._buried(half, process, now)

    def _buried(self, half: Half, process: Any, now: float) -> None:
        if process.stderr:
            self._pass_on(process.stderr, half.name)
            process.stderr.close()
        del self._processes[half.name]
        code = process.returncode
        self._say("the {} ended with {}".format(half.name, code))
        self._due_s[half.name] = now + half.pause_s
        if half is self._outside:
            # Whatever it was, the inside has nobody to send to; it comes back with it.
            self._end(self._inside)
            self._due_s[self._inside.name] = self._due_s[half.name]
            if code == 0 or code in _FINAL:
                raise Ended("the service has ended with code {}".format(code), code)
        elif code in _FINAL:
            self._say("the inside is not started again: that has to be cured first")
            self._due_s[half.name] = float("inf")

    def _end_all(self) -> None:
        self._end(self._inside)
        self._end(self._outside)
        self._due_s = dict.fromkeys(self._due_s, 0.0)

    def _end(self, half: Half) -> None:
        process = self._processes.pop(half.name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr:
            self._pass_on(process.stderr, half.name)
            process.stderr.close()


def halves(
    root: str, config: str, folder: str, users: Optional[Tuple[str, str]], groups: Tuple[str, ...], device: str = CPU
) -> Tuple[Half, Half]:
    """The outside and the inside of the release that is current. ``users``: the outside's and the inside's, or ours.

    ``device`` is what the settings have run the model: some cannot be had from a network namespace.
    """
    program = [sys.executable, os.path.join(root, "current", "edgeveil-edge.pyz")]
    more = ["--config", config, "--inside-at", folder]
    outside, inside = users or (None, None)
    common = (outside,) if outside else ()
    return (
        Half("outside", program + ["run"] + more, outside, (), True, 5.0, False),
        Half("inside", program + ["inside"] + more, inside, common + groups, False, 2.0, not hears_of_usb(device)),
    )


def _start(half: Half, more: Dict[str, str]) -> Any:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for name in ("LANG", "QEMU_CPU", "LD_LIBRARY_PATH"):
        if name in os.environ:
            environment[name] = os.environ[name]
    account = _account(half)

    def become() -> None:
        os.setsid()
        os.umask(0o007)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if half.namespace:
            isolation.own_namespace()
        if not half.network:
            try:
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            except (ValueError, OSError):
                pass  # not ours to raise here: its memory is not locked, and it says so
        if account is not None:
            uid, gid, groups = account
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
        hardening.no_new_privileges()
        hardening.end_with_parent()  # a change of user would forget it

    process = subprocess.Popen(  # noqa: S603 - of a release that was verified
        half.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd="/",
        env=dict(environment, **more),
        preexec_fn=become,  # this process has one thread
    )
    os.set_blocking(process.stderr.fileno(), False)  # type: ignore[union-attr]  # a PIPE
    return process


def _account(half: Half) -> Optional[Tuple[int, int, List[int]]]:
    """Number, group and further groups of a half's user; None where it is ours. Raises ``DeviceFailed``."""
    import grp
    import pwd

    if half.user is None:
        return None
    try:
        user = pwd.getpwnam(half.user)
        groups = [grp.getgrnam(name).gr_gid for name in half.groups]
    except KeyError as error:
        problem = str(error.args[0])
    else:
        return user.pw_uid, user.pw_gid, groups
    raise DeviceFailed("the service's account is missing ({}): flash the board again".format(problem))


def _own_folder(folder: str, user: Optional[str]) -> None:
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o750)
    os.chmod(folder, 0o750)  # noqa: S103 - both halves are in its group
    _give(folder, user)


def _give(path: str, user: Optional[str]) -> None:
    import shutil

    if user is not None:
        shutil.chown(path, user, user)
