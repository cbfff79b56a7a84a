"""Takes EdgeVeil off a board: ``look JOB`` finds what is there, ``erase JOB`` removes it; each prints JSON.

This file is sent alone to a board. ``JOB`` has all names and paths (``devices/flashing/removal.py``). The service is
stopped first and its settings go last, for they name its folder: after an interruption the same command ends the rest.
"""

import contextlib
import errno
import grp
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Optional

RUNS = re.compile(r"^ExecStart=.* (/\S+?)(?:/runtime)?/current/edgeveil-edge\.pyz run ", re.MULTILINE)
OPTION = re.compile(r'=(/[^&"\s]+)')  # a file that an address of the settings names
RUNTIME = "edgeveil-edge.pyz"


def look(job: Dict[str, Any]) -> Dict[str, Any]:
    """What is there of the job. ``removed``: [path, bytes] in the order of their removal; ``spent``: the 1e-6 epsilon
    that was counted, None where it cannot be read; ``kept``: what stays, though it is near; ``mine``: whether this user
    may remove all of it."""
    return {
        "removed": [[path, _bytes(path)] for path in paths(job)],
        "links": [path for path in _folders(job) if os.path.islink(path)],
        "units": _units(job),
        "users": _users(job),
        "mine": os.getuid() == 0 or not (_users(job) or [one for one in paths(job) if not _may_remove(one)]),
        "spent": _spent(job),
        "kept": _kept(job),
    }


def erase(job: Dict[str, Any]) -> None:
    """Stop the service, then remove everything. Exits with one sentence where a step fails."""
    units, systemd = _units(job), os.path.isdir(job["systemd"])
    if units and systemd:
        _run(["systemctl", "stop"] + units)
        _run(["systemctl", "reset-failed"] + units, may_fail=True)  # of units that did not fail
    running = _running(job["root"])
    if running:
        sys.exit("error: processes {} still run from {}: stop them".format(", ".join(map(str, running)), job["root"]))
    managers = [path for path in _shared(job) if path.endswith(".conf")]  # settings of systemd itself
    # Read before anything goes: the settings name the ledger, the units whose folder this is.
    listed, users, own = list(paths(job)), _users(job), _owns(job)
    settings = [path for path in listed if path == os.path.dirname(job["settings"])]
    roots = [path for path in listed if os.path.dirname(path) == job["root"]]
    for path in listed:
        if path not in settings + roots:
            remove(path)
    if own and systemd:
        _run(["systemctl", "daemon-reexec" if managers else "daemon-reload"])
    for user in users:
        _run(["userdel", user])
    for name in job["users"] if own else []:
        if _has_group(name) and not _has_user(name):
            _run(["groupdel", name])
    for path in roots:
        remove(path)
    uploads = [_of_login(folder) for folder, _ in job["named"] if folder.startswith("~")]
    for place in [job["root"]] + uploads + [os.path.dirname(path) for path in managers]:
        if os.path.isdir(place) and not os.listdir(place):
            remove(place)
    for path in settings:
        for name in sorted(os.listdir(path), key=lambda name: os.path.join(path, name) == job["settings"]):
            remove(os.path.join(path, name))
        remove(path)
    os.sync()


def paths(job: Dict[str, Any]) -> Iterator[str]:
    """What is there, in the order of its removal: units, state, uploads, then the folders of releases and settings."""
    own = _owns(job)
    if own:
        for unit in job["units"]:
            for path in [os.path.join(job["unit_folder"], unit)] + _wanted_by(job["unit_folder"], unit):
                if os.path.lexists(path):
                    yield path
        for path in _shared(job) + job["files"] + _folders(job):
            if os.path.lexists(path):
                yield path
    for path in _matching(job["named"]):
        yield path
    if os.path.isdir(job["root"]):
        for name in sorted(os.listdir(job["root"])):
            if re.fullmatch(job["names"], name):
                yield os.path.join(job["root"], name)
    settings = os.path.dirname(job["settings"])
    if own and os.path.lexists(settings):
        yield settings


def _matching(named: List[List[str]]) -> List[str]:
    """The files whose names match the pattern of their folder."""
    folders = [(_of_login(folder), pattern) for folder, pattern in named]
    return [
        os.path.join(folder, name)
        for folder, pattern in folders
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else [])
        if re.fullmatch(pattern, name)
    ]


def _of_login(folder: str) -> str:
    """A folder whose ``~`` is the home of who logged in, though this is sudo's root."""
    return os.path.expanduser(folder.replace("~", "~" + os.environ.get("SUDO_USER", ""), 1))


def _may_remove(path: str) -> bool:
    return os.access(os.path.dirname(path), os.W_OK) and (not os.path.isdir(path) or os.access(path, os.W_OK))


def remove(path: str) -> None:
    """Remove a file, link or tree; of a file system that is mounted there, what is in it."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)  # follows no link
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.EBUSY or os.listdir(path):
            sys.exit("error: {} cannot be removed: {}".format(error.filename or path, error.strerror))


def _owns(job: Dict[str, Any]) -> bool:
    """Whether the service of that name is the one of this folder: by its unit, else its settings, else by its place."""
    unit = _text(os.path.join(job["unit_folder"], job["units"][0]))
    if unit is not None:
        runs = RUNS.search(unit)
        return runs is not None and runs.group(1) == job["root"]
    bundle = (_json(job["settings"]) or {}).get("bundle")
    if isinstance(bundle, str):
        return bundle.startswith(job["root"] + "/")
    return bool(job["root"] == job["default_root"])


def _folders(job: Dict[str, Any]) -> List[str]:
    """The folders of the service's state, and the ledger where its settings name another place for it."""
    if not _owns(job):
        return []
    ledger = (_json(job["settings"]) or {}).get("ledger")
    folders = list(job["folders"])
    if isinstance(ledger, str) and not any(ledger.startswith(one + "/") for one in folders):
        folders += [ledger + end for end in ("", ".lock", ".tmp")]
    return folders


def _shared(job: Dict[str, Any]) -> List[str]:
    """The files that all services of a board have, where no other one is there."""
    units = os.listdir(job["unit_folder"]) if os.path.isdir(job["unit_folder"]) else []
    units = [one for one in units if one.startswith("edgeveil") and one.endswith((".service", ".timer"))]
    others = set(units) - set(job["units"])
    if others or not _owns(job):
        return []
    locks = [[folder or tempfile.gettempdir(), pattern] for folder, pattern in job["locks"]]
    return [path for path in job["shared"] if os.path.lexists(path)] + _matching(locks)


def _units(job: Dict[str, Any]) -> List[str]:
    if not _owns(job):
        return []
    return [one for one in job["units"] if os.path.lexists(os.path.join(job["unit_folder"], one))]


def _wanted_by(folder: str, unit: str) -> List[str]:
    """The links by which systemd starts a unit."""
    wants = [os.path.join(folder, one) for one in sorted(os.listdir(folder))] if os.path.isdir(folder) else []
    links = [os.path.join(one, unit) for one in wants if one.endswith((".wants", ".requires"))]
    own = [os.path.join(folder, unit + end) for end in (".wants", ".requires", ".d")]
    return [path for path in links + own if os.path.lexists(path)]


def _users(job: Dict[str, Any]) -> List[str]:
    """The users that a flash made, those whose group is another one's first.

    A flash writes the folder of its service into the account; of earlier versions, the service's own names are known.
    """
    own, names = _owns(job), []
    for account in pwd.getpwall():
        earlier = account.pw_name in job["users"] and not account.pw_gecos and account.pw_dir == "/nonexistent"
        if account.pw_gecos.split(",")[0] == job["mark"] or (own and earlier):
            group = account.pw_gid
            first = _has_group(account.pw_name) and grp.getgrnam(account.pw_name).gr_gid == group
            names.append((first, account.pw_name))
    return [name for _, name in sorted(names)]


def _spent(job: Dict[str, Any]) -> Optional[int]:
    """The 1e-6 epsilon in all ledgers, those that were set aside too, and by the state of the releases."""
    state = _json(os.path.join(job["root"], "state.json")) or {}
    total, books = 0, 0
    for place in _folders(job):
        in_it = [os.path.join(place, one) for one in os.listdir(place)] if os.path.isdir(place) else [place]
        for path in in_it:
            name = os.path.basename(path)
            if (not name.startswith("ledger") and place != path) or name.endswith((".lock", ".tmp")):
                continue
            if os.path.lexists(path):
                try:
                    total, books = total + int(_json(path)["ledger"]["lifetime"]), books + 1
                except (TypeError, KeyError, ValueError):
                    return None
    if state.get("ledger") and not books:
        return None  # it is lost, or this user may not enter its folder
    return max(total, int(state.get("spent") or 0))


def _kept(job: Dict[str, Any]) -> List[str]:
    """What stays: foreign files in the folder of the releases, files elsewhere that the settings name, and the settings
    and state of a service of that name in another folder."""
    removed = list(paths(job))
    root = job["root"]
    kept = [os.path.join(root, one) for one in sorted(os.listdir(root))] if os.path.isdir(root) else []
    for path in [job["settings"]] + job["files"] if _owns(job) else []:
        kept += [one for one in OPTION.findall(_text(path) or "") if os.path.lexists(one)]
    if not _owns(job):
        kept += [one for one in [job["settings"]] + job["folders"] if os.path.lexists(one)]
    return sorted({one for one in kept if not any((one + "/").startswith(gone + "/") for gone in removed)})


def _running(root: str) -> List[int]:
    """The processes that run from this folder."""
    found = []
    for name in os.listdir("/proc"):
        words = (_text(os.path.join("/proc", name, "cmdline")) or "").split("\0") if name.isdigit() else []
        if any(word.startswith(root + "/") and word.endswith(RUNTIME) for word in words):
            found.append(int(name))
    return sorted(found)


def _bytes(path: str) -> int:
    """Bytes of a file, or of all files of a tree."""
    if os.path.islink(path) or not os.path.isdir(path):
        return os.lstat(path).st_size
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # of a service that still runs
                size += os.lstat(os.path.join(folder, name)).st_size
    return size


def _has_user(name: str) -> bool:
    return any(account.pw_name == name for account in pwd.getpwall())


def _has_group(name: str) -> bool:
    return any(group.gr_name == name for group in grp.getgrall())


def _run(command: List[str], may_fail: bool = False) -> None:
    with open(os.devnull, "rb") as nothing:
        child = subprocess.Popen(command, stdin=nothing, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603 - ours
        text = child.communicate()[0].decode("utf-8", "replace").strip()
    if child.returncode and not may_fail:
        sys.exit("error: {} ended with code {}: {}".format(" ".join(command[:3]), child.returncode, text[-300:]))


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _json(path: str) -> Any:
    try:
        return json.loads(_text(path) or "null")
    except ValueError:
        return None


if __name__ == "__main__":
    wanted = json.loads(sys.argv[2])
    if sys.argv[1] == "erase":
        erase(wanted)
    print(json.dumps(look(wanted)))
