"""Settings that come as bundles do: signed, for one board, tried, and taken back where the service does not run.

``settings-KEY.json`` lies in the folder of the index: an envelope (``signing.envelope``) of kind ``settings`` by the
role ``settings``, or by the root keys where no one has it::

    {"schema":1,"number":7,"board":KEY,"sealed":"..."}

``sealed`` (base64) is a file of ``signing.sealed`` that ``board`` alone opens: {"schema":1,"settings":{...},
"files":{"broker.password":"..."}}, the service's configuration, and the files (base64) that it names as
``@FILES@/broker.password``. What of the configuration is ``FIXED`` stays as the board has it, and may be left out;
anything else that is left out has its default. ``number`` only rises.

::

    ROOT/board.key, board.pub      the board's own key (Ed25519, of which sealing uses the X25519 form)
    ROOT/settings/7/               edge.json and the files, never changed once it has this name
    ROOT/settings/flashed.json     the configuration of the last flash, while another one is in its place
    ROOT/settings/state.json       what was committed, and what was taken back
    /etc/edgeveil/edge.json        a file, which a flash wrote, or a link to ROOT/settings/7/edge.json

Settings are *on trial* while the link points to a number that ``state.json`` does not commit: the power may fail at any
moment, and the next start (``recover --settings``) goes back to what was committed.
"""

import base64
import binascii
import contextlib
import hashlib
import importlib.util
import os
import re
import stat
from io import BytesIO
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple
from urllib.parse import unquote

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.bundle.trust_file import SETTINGS, Trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, DeviceFailed
from edgeveil.edge_runtime.kinds import SINKS, SOURCES, fact_of
from edgeveil.edge_runtime.late_imports import library
from edgeveil.edge_runtime.signing import ed25519
from edgeveil.edge_runtime.signing.envelope import unwrap
from edgeveil.edge_runtime.signing.keys import Key, public_key_line, read_public_key
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.edge_runtime.signing.sealed import opened, secret_of
from edgeveil.edge_runtime.sinks.uri import without_secrets
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.edge_runtime.util.filesystem import (
    Filesystem,
    names,
    read,
    read_strict,
    remove_tree,
    replace_file,
    replace_folder,
    replace_link,
    target,
)

KIND, FILES = "settings", "@FILES@"
FOLDER, STATE_FILE, FLASHED, EDGE = "settings", "state.json", "flashed.json", "edge.json"
KEY_FILE, PUBLIC_FILE = "board.key", "board.pub"
MOST_FAILURES = 3  # of one number: after so many failed trials a new one must be signed
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CURE = "Make it again (edgeveil update settings)."
_PAYLOAD = {
    "schema": field.whole(1, 1),
    "number": field.whole(1, 2**31 - 1),
    "board": field.sha256(),
    "sealed": field.text(2**20),
}
_CONTENT = {"schema": field.whole(1, 1), "settings": field.ANY, "files": field.ANY}
_STATE = {
    "schema": field.whole(1, 1),
    "committed": field.whole(),
    "highest": field.whole(),
    "failures": field.whole(),
    "reason": field.text(2000),
}
# What settings that come in this way never change, and how it changes. A source keeps its device: only the options
# behind its question mark may be others.
_BY_FLASH = "the units were made for it: flash the board over SSH"
FIXED = {
    "bundle": "a bundle comes by the index",
    "trust": "the root keys sign the trust",
    "ledger": "what was spent is counted there",
    "source": _BY_FLASH,
    "source-credentials": _BY_FLASH,
    "device": _BY_FLASH,
    "inside-at": _BY_FLASH,
    "inside-user": _BY_FLASH,
    "frames-at": _BY_FLASH,
    "as-root": _BY_FLASH,
    "accept-raw-on-network": "only a person at the board may set it",
    "camera-aid": "only a person at the board may set it",
    "health": _BY_FLASH,
}


class TakenBack(DeviceFailed):
    """The service did not run with the new settings; those before are back."""


class State(NamedTuple):
    """``state.json``: the number that runs (0: the settings of a flash), the highest that was tried, and how often
    that one failed, and why."""

    committed: int = 0
    highest: int = 0
    failures: int = 0
    reason: str = ""


class Content(NamedTuple):
    """What was signed for this board: the configuration, and files by their names."""

    number: int
    settings: Dict[str, Any]
    files: Dict[str, bytes]


def file_name(key: str) -> str:
    """The name of the file with the settings of the board of that key, in the folder of the index."""
    return "settings-{:.16}.json".format(key)


def board_key(root: str) -> str:
    """The board's own public key (64 hexadecimal digits), which is made where there is none. The lock is held."""
    path = os.path.join(root, KEY_FILE)
    seed = read(path) if os.path.lexists(path) else None
    if seed is None and not os.path.lexists(path):
        seed = os.urandom(32)
        seed += hashlib.sha256(seed).digest()
        write_atomic(path, seed, mode=0o600)
    public = ed25519.public_of(_whole(seed or b"", path)).hex()
    line = public_key_line(Key(public, "board-" + public[:8], False))
    if shown_key(root) != line.strip():
        write_atomic(os.path.join(root, PUBLIC_FILE), line.encode("ascii"), mode=0o644)
    return public


def shown_key(root: str) -> Optional[str]:
    """The line of the board's own public key, for anyone to see; None where it has none yet."""
    try:
        return public_key_line(read_public_key(os.path.join(root, PUBLIC_FILE))).strip()
    except BadInput:
        return None


def _whole(data: bytes, path: str) -> bytes:
    """The private key in its file, behind which its SHA-256 stands."""
    if hashlib.sha256(data[:32]).digest() != data[32:]:
        message = "{} is missing or damaged: remove it, and have settings sealed to the key that recover makes."
        raise DeviceFailed(message.format(path))
    return data[:32]


def read_settings(data: bytes, trust: Trust, seed: bytes) -> Content:
    """The content of a signed settings file for the board with this private key. Raises ``BundleRefused``."""
    role = trust.role_or_root(SETTINGS)
    payload = read_payload(data, role)
    if payload["board"] != ed25519.public_of(seed).hex():
        raise BundleRefused(
            "other-board",
            "The settings are for the board {:.16}..., and this is another. Nothing was changed: make them for the key "
            "that edgeveil board status shows.".format(payload["board"]),
        )
    try:
        sealed = BytesIO(base64.b64decode(payload["sealed"], validate=True))
        content: Any = strict_json.loads(b"".join(opened(sealed, secret_of(seed), "it")))
        field.check(content, "settings", field.record(_CONTENT), file="The settings", cure=_CURE)
        files = {str(name): base64.b64decode(text, validate=True) for name, text in content["files"].items()}
        if not all(NAME.fullmatch(name) and name != EDGE for name in files):
            raise ValueError("a file's name")
    except (BadInput, strict_json.BadJson, binascii.Error, ValueError, TypeError, AttributeError):
        raise BundleRefused(
            "not-readable", "The settings cannot be read: they are damaged, or sealed to another key. " + _CURE
        ) from None
    return Content(payload["number"], content["settings"], files)


def read_payload(data: bytes, role: Role) -> Dict[str, Any]:
    """What enough keys of ``role`` signed, for whichever board. Raises ``BundleRefused``."""
    payload: Dict[str, Any] = unwrap(KIND, data, lambda signers: role.check(signers, "settings file", SETTINGS))
    field.check(payload, "settings", field.record(_PAYLOAD), file="The settings file", cure=_CURE)
    return payload


class BoardSettings(object):
    """The settings of the service of ``root``, whose configuration is at ``path``. ``filesystem`` makes all changes.

    The caller holds the board's lock.
    """

    def __init__(self, root: str, path: str, filesystem: Optional[Filesystem] = None) -> None:
        self._root, self._path, self._filesystem = root, path, filesystem or Filesystem()
        self._folder = os.path.join(root, FOLDER)

    @property
    def current(self) -> int:
        """The number that the service's configuration is of; 0 for that of a flash."""
        place = target(self._path)
        if place is None or os.path.dirname(os.path.dirname(place)) != self._folder:
            return 0
        return int(os.path.basename(os.path.dirname(place)))

    def state(self) -> State:
        """What was committed. Raises ``DeviceFailed`` where that cannot be known."""
        path = os.path.join(self._folder, STATE_FILE)
        try:
            data = read_strict(path)
            document: Any = dict(State()._asdict(), schema=1) if data is None else strict_json.loads(data)
            field.check(document, STATE_FILE, field.record(_STATE))
        except (OSError, ValueError, BundleRefused):
            document = None
        if document is None or (data is None and self.current):
            message = "{} is missing or damaged: no settings are taken. Flash the board again with its settings."
            raise DeviceFailed(message.format(path))
        del document["schema"]
        # A number that lies here was tried, whatever became of the file.
        tried = [int(name) for name in names(self._folder) if name.isdigit()]
        state = State(**document)
        return state._replace(highest=max([state.highest] + tried))

    def document(self) -> Dict[str, Any]:
        """What ``status`` shows."""
        state = self.state()
        shown = {"number": self.current, "highest": state.highest, "failures": state.failures, "reason": state.reason}
        return dict(shown, key=shown_key(self._root))

    def take(self, data: bytes, trust: Trust, restart: Callable[[], Optional[str]]) -> bool:
        """Verify settings, write them aside, switch, restart and commit; False where they were taken before.

        ``restart`` starts the service again, and returns why it does not run, or None. Raises ``BundleRefused`` or
        ``BadInput`` before anything is changed, ``TakenBack`` where the service did not run and the settings before
        are back.
        """
        if self.recover():
            restart()
        content = read_settings(data, trust, self._seed())
        state = self.state()
        number = content.number
        if number < state.highest:
            raise BundleRefused(
                "rolled-back",
                "The settings have number {}, and this board has had {} already: old ones are served.".format(
                    number, state.highest
                ),
            )
        if number == state.committed:
            return False
        if number == state.highest and state.failures >= MOST_FAILURES:
            raise BundleRefused(
                "failed-before",
                "The settings {} were taken back {} times here ({}). Sign new ones.".format(
                    number, state.failures, state.reason
                ),
            )
        document = self._checked(content)
        committed = self._keep_flashed(state)
        self._stage(content, document)
        failures = state.failures if number == state.highest else 0
        state = self._write(State(committed, number, failures))
        self._point_at(number)
        reason = restart()
        if reason is not None:
            self._undo(state, reason)
            now = restart()
            runs = "It runs again with those before" if now is None else "With those before it does not run either"
            raise TakenBack("The settings {} were taken back: {}. {}.".format(number, reason, runs))
        self._write(state._replace(committed=number, failures=0))
        self._tidy(keep=(number, state.committed))
        return True

    def recover(self) -> Optional[str]:
        """Take back what was on trial when the power failed; returns what was done, or None."""
        state, current = self.state(), self.current
        for name in names(self._folder):
            if name.endswith((".new", ".tmp")):
                remove_tree(self._filesystem, os.path.join(self._folder, name))
        if os.path.lexists(self._path + ".tmp"):
            self._filesystem.remove(self._path + ".tmp")
        if current in (0, state.committed):
            return None
        self._undo(state, "it was interrupted on trial")
        return "The settings before {} are back: it was on trial when the power failed.".format(current)

    def _seed(self) -> bytes:
        path = os.path.join(self._root, KEY_FILE)
        return _whole(read(path) or b"", path)

    def _checked(self, content: Content) -> Dict[str, Any]:
        """The whole configuration. Raises ``BadInput`` where the service would not begin with it."""
        place = self._place(content.number)
        settings = filled(content, config.read(self._path), place)
        for sink in settings["sink"]:
            _check_needs(sink, place)
        return settings

    def _keep_flashed(self, state: State) -> int:
        """The number to go back to; 0 for the configuration of a flash, which is kept."""
        if self.current:
            return state.committed
        data = read_strict(self._path)
        if data is None:
            raise BadInput("There is no {} on this board: flash it with a source and a sink first.".format(self._path))
        if not os.path.isdir(self._folder):
            self._filesystem.make_folder(self._folder)
            self._filesystem.sync_folder(self._root)
        self._replace(os.path.join(self._folder, FLASHED), data, stat.S_IMODE(os.stat(self._path).st_mode))
        return 0

    def _stage(self, content: Content, document: Dict[str, Any]) -> None:
        files = dict(content.files, **{EDGE: strict_json.dumps(document)})
        with self._group():
            modes = [(name, data, 0o640) for name, data in sorted(files.items())]
            replace_folder(self._filesystem, self._place(content.number), modes)

    def _point_at(self, number: int) -> None:
        """Put a number's configuration, or for 0 that of the flash, in place in one step."""
        if number:
            replace_link(self._filesystem, os.path.join(self._place(number), EDGE), self._path)
        else:
            if os.path.lexists(self._path + ".tmp"):
                self._filesystem.remove(self._path + ".tmp")
            flashed = os.path.join(self._folder, FLASHED)
            self._replace(self._path, read_strict(flashed) or b"", stat.S_IMODE(os.stat(flashed).st_mode))
        self._filesystem.sync_folder(os.path.dirname(self._path))

    def _undo(self, state: State, reason: str) -> None:
        self._point_at(state.committed)
        self._write(state._replace(failures=state.failures + 1, reason=reason[:2000]))

    def _write(self, state: State) -> State:
        data = strict_json.dumps(dict(state._asdict(), schema=1))
        self._replace(os.path.join(self._folder, STATE_FILE), data, 0o644)
        self._filesystem.sync_folder(self._folder)  # and with it what was renamed in it before
        return state

    def _replace(self, path: str, data: bytes, mode: int) -> None:
        with self._group():
            replace_file(self._filesystem, path, data, mode)

    def _tidy(self, keep: Tuple[int, int]) -> None:
        for name in names(self._folder):
            if name.isdigit() and int(name) not in keep:
                self._filesystem.rename(os.path.join(self._folder, name), os.path.join(self._folder, name + ".new"))
                remove_tree(self._filesystem, os.path.join(self._folder, name + ".new"))

    def _place(self, number: int) -> str:
        return os.path.join(self._folder, str(number))

    @contextlib.contextmanager
    def _group(self) -> Iterator[None]:
        """Files made in the block are of the group that reads the configuration of the flash: the update's unit may
        give no file away."""
        first = os.path.join(self._folder, FLASHED)
        own, group = os.getegid(), os.stat(first if os.path.exists(first) else self._path).st_gid
        if os.geteuid() == 0 and group != own:
            os.setegid(group)
        try:
            yield
        finally:
            if os.getegid() != own:
                os.setegid(own)


def filled(content: Content, before: Dict[str, Any], place: str) -> Dict[str, Any]:
    """The whole configuration of a board that has the settings ``before``; ``place`` is the folder of its files.

    Raises ``BadInput`` where it is none, changes what is ``FIXED``, or does not name exactly the files that come.
    """
    where = "settings {}".format(content.number)
    fixed = {name: before[name] for name in FIXED if name in before}
    settings = config.checked(dict(fixed, **content.settings), where)
    for name, why in FIXED.items():
        default = config.SETTINGS[name].default
        old, new = (_fixed_part(name, one.get(name, default)) for one in (before, settings))
        if old != new:
            raise BadInput("expected {} without another {!r}: {}. Leave it out.".format(where, name, why))
    text = strict_json.dumps(settings).decode("ascii")
    named = {name.rstrip(".") for name in re.findall(FILES + "/({})".format(NAME.pattern), text)}
    if named != set(content.files):
        problem = "expected a file for each {}/NAME in {}, and no other: the settings name {}, and there come {}"
        lists = (", ".join(sorted(one)) or "none" for one in (named, content.files))
        raise BadInput(problem.format(FILES, where, *lists))
    settings = config.checked(strict_json.loads(text.replace(FILES, place).encode("ascii")), where)
    # Of the units, which are as they were.
    config.check_start(config.merged({"inside_at": "unit"}, settings))
    return settings


def _fixed_part(name: str, value: Any) -> Any:
    """What of a setting is fixed: of a source with options, all before its question mark."""
    if name == "source" and fact_of(SOURCES, str(value), "options"):
        return str(value).partition("?")[0]
    return value


def _check_needs(sink: str, place: str) -> None:
    """Raise ``BadInput`` where a file that the sink reads, or its library, is not here; those in ``place`` come."""
    shown = without_secrets(sink)
    pairs = (one.partition("=") for one in sink.partition("?")[2].split("&"))
    options = {name: unquote(value) for name, _, value in pairs}
    for path in [options[name] for name in fact_of(SINKS, sink, "reads") or () if name in options]:
        if os.path.dirname(path) != place and not os.path.isfile(path):
            raise BadInput("{} reads {}, which is not on this board: give it with the settings".format(shown, path))
    needed = fact_of(SINKS, sink, "needs") or ()
    for one in needed if isinstance(needed, tuple) else ():
        kind, _, name = library(one).test.partition(":")
        if kind == "module" and importlib.util.find_spec(name.partition(".")[0]) is None:
            raise BadInput("{} needs {}, which is not on this board".format(shown, library(one).title))
