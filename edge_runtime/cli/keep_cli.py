"""``edgeveil-edge keep start | stop | restart | status``: what an init script calls where there is no systemd."""

import os
import signal
import sys
import time
from typing import Any, Optional

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, EdgeVeilError
from edgeveil.edge_runtime.paths import DEFAULT_PATH, LOG_FILE, ROOT
from edgeveil.edge_runtime.releases.trial import open_releases
from edgeveil.edge_runtime.sandbox import hardening

PID_FILE, FOLDER = "/run/edgeveil.pid", "/run/edgeveil"


MOST_LOG_BYTES = 1 << 20
_NOT_RUNNING = 4


def add_command(commands: Any, epilog: Any) -> None:
    """Add it to the parser of ``edgeveil-edge``."""
    keep = commands.add_parser(
        "keep",
        help="keep the service running where there is no systemd",
        description="Keep the service running where there is no systemd: start returns when something new has left it.",
        **epilog("edgeveil-edge keep start --user edgeveil --inside-user edgeveil-inside --group video"),
    )
    keep.add_argument("what", choices=["start", "stop", "restart", "status"])
    keep.add_argument("--root", default=ROOT, metavar="DIR", help="where the releases lie ({})".format(ROOT))
    keep.add_argument("--config", default=DEFAULT_PATH, metavar="FILE", help="settings ({})".format(DEFAULT_PATH))
    keep.add_argument("--user", help="of the half that sends (ours); needs root")
    keep.add_argument("--inside-user", help="of the half with the camera (ours); needs root")
    keep.add_argument("--group", action="append", default=[], help="that may open the camera; may be repeated")
    keep.add_argument("--at", default=FOLDER, metavar="DIR", help="where the two meet ({})".format(FOLDER))
    keep.add_argument("--pid-file", default=PID_FILE, metavar="FILE", help="held while it runs ({})".format(PID_FILE))
    keep.add_argument("--log-file", default=LOG_FILE, metavar="FILE", help="the last lines ({})".format(LOG_FILE))
    keep.set_defaults(call=_keep)


def _keep(arguments: Any) -> int:
    running = _running(arguments.pid_file)
    if arguments.what == "status":
        sys.stdout.write("runs\n" if running else "does not run\n")
        return 0 if running else _NOT_RUNNING
    if arguments.what in ("stop", "restart") and running:
        _stop(arguments.pid_file, running)
        running = None
    if arguments.what != "stop" and not running:
        _begin(arguments)
    return 0


def _running(path: str) -> Optional[int]:
    """The number of the process that holds the file, or None."""
    import fcntl

    while os.path.exists(path):
        with open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except OSError:
                number = file.read()
        if number:
            return int(number)
        time.sleep(0.1)  # it holds it since a moment ago
    return None


def _stop(path: str, process: int) -> None:
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while _running(path) == process:
        if time.monotonic() > deadline:
            os.kill(process, signal.SIGKILL)  # its halves end with it
        time.sleep(0.1)


def _begin(arguments: Any) -> None:
    """Start it in the background; returns when it is ready. Raises ``DeviceFailed`` where it is not."""
    from edgeveil.edge_runtime.outside.keep import halves

    if bool(arguments.user) != bool(arguments.inside_user):
        raise BadInput("expected --user and --inside-user together, for the two halves; got one of them")
    users = (arguments.user, arguments.inside_user) if arguments.user else None
    releases = open_releases(arguments.root)
    device = config.read(arguments.config).get("device", CPU)
    parts = halves(arguments.root, arguments.config, arguments.at, users, tuple(arguments.group), device)
    theirs, ours = os.pipe()
    if os.fork() == 0:
        os.close(theirs)
        os._exit(_background(arguments, parts, releases, ours))
    os.close(ours)
    word = _first_word(theirs)
    if word != b"ready\n":
        said = word.decode("utf-8", "replace").strip() or "it let nothing out in time"
        raise DeviceFailed("the service did not start: {}. See {}".format(said, arguments.log_file))


def _first_word(pipe: int) -> bytes:
    import select

    from edgeveil.edge_runtime.outside.keep import START_S

    # The outside is started a second time within this, should the first one hang.
    with os.fdopen(pipe, "rb") as file:
        return file.readline() if select.select([file], [], [], 2 * START_S)[0] else b""


def _background(arguments: Any, parts: Any, releases: Any, parent: int) -> int:
    import fcntl

    from edgeveil.edge_runtime.outside.keep import Keeper

    os.setsid()
    os.chdir("/")
    hardening.close_outputs()
    log = _LogFile(arguments.log_file)

    def tell(word: bytes) -> None:
        try:
            os.write(parent, word)
        except OSError:
            pass  # it has gone already

    try:
        with open(arguments.pid_file, "a+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.truncate(0)
            held.write(str(os.getpid()))
            held.flush()
            keeper = Keeper(
                parts[0],
                parts[1],
                arguments.at,
                release=lambda: releases.state().committed,
                say=log.say,
                ready=lambda: tell(b"ready\n"),
            )
            keeper.run()
        return 0
    except EdgeVeilError as error:
        log.say(str(error))
        tell("{}\n".format(error).encode("utf-8"))
        return error.exit_code
    except OSError as error:
        log.say(str(error))
        tell("{}\n".format(error.strerror).encode("utf-8"))
        return 4


class _LogFile(object):
    """Lines with the time; the older half goes when there are too many. Where it cannot be written, nothing is."""

    def __init__(self, path: str) -> None:
        self._path = path

    def say(self, text: str) -> None:
        """Add a line."""
        line = "{} {}\n".format(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text)
        try:
            with open(self._path, "a") as file:
                file.write(line)
                size = file.tell()
            if size > MOST_LOG_BYTES:
                from edgeveil.edge_runtime.storage.atomic import write_atomic

                with open(self._path, "rb") as old:
                    old.seek(size // 2)
                    kept = old.read()
                write_atomic(self._path, kept[kept.index(b"\n") + 1 :], mode=0o640)
        except OSError:
            pass
