"""Starts a service with new settings; where it is not ready in its time, the ones before come back.

A flash sends this file alone to a board: ``keep FOLDER PATH...`` before it writes settings, and ``restart FOLDER
UNIT...`` after that, which prints a JSON document where the service does not start. What is kept lies in ``FOLDER``
until a start succeeds, so that after a flash that was cut off it is still what ran last. Where the power failed in
between, ``recover --settings`` puts it back before anything runs (``after_boot``).
"""

import json
import os
import shutil
import subprocess
import sys
import time
from typing import Dict, List, Optional

KEPT = os.path.join("unfinished", "settings")  # the folder, in that of the releases
LIST = "list.json"  # the boot, and path -> the name of its copy, or null where there was nothing; written last
BOOT = "/proc/sys/kernel/random/boot_id"
LINES = 20


def keep(folder: str, paths: List[str]) -> None:
    """Copy these files, unless the first one is not there (no service has run) or earlier ones are kept."""
    if os.path.exists(os.path.join(folder, LIST)) or not os.path.lexists(paths[0]):
        return
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    os.mkdir(folder, 0o700)
    names: Dict[str, Optional[str]] = {}
    for number, path in enumerate(paths):
        names[path] = str(number) if os.path.lexists(path) else None
        if names[path] is not None:
            _copy(path, os.path.join(folder, str(number)))
    with open(os.path.join(folder, "new"), "w") as file:
        json.dump({"boot": _boot(), "files": names}, file)
    os.sync()
    os.rename(os.path.join(folder, "new"), os.path.join(folder, LIST))
    os.sync()  # before the first of them is written anew


def after_boot(folder: str) -> bool:
    """Put back what was kept before the power failed; False where nothing was, or where a flash is at it in this boot.

    A process that was killed anywhere in here is followed by one that does it all again.
    """
    try:
        with open(os.path.join(folder, LIST)) as file:
            boot = json.load(file).get("boot", _boot())
    except (OSError, ValueError):
        return False
    if boot == _boot():
        return False
    _restore(folder)
    _call(["systemctl", "daemon-reload"])
    _forget(folder)
    return True


def restart(folder: str, units: List[str]) -> int:
    """Restart the units; the exit code. Where that fails, the document says whether settings came ``back``, whether
    the service ``runs`` with them, and the last ``lines`` of the units' log."""
    began = int(time.time())
    if _call(["systemctl", "restart"] + units) == 0:
        _forget(folder)
        return 0
    logs = ["journalctl", "--no-pager", "--quiet", "--output=cat", "-n", str(LINES), "--since", "@{}".format(began)]
    text = _output(logs + [part for unit in units for part in ("-u", unit)])
    back, runs = os.path.exists(os.path.join(folder, LIST)), False
    if back:
        _restore(folder)
        _call(["systemctl", "daemon-reload"])
        _call(["systemctl", "reset-failed"] + units)
        runs = _call(["systemctl", "restart"] + units) == 0
        if runs:
            _forget(folder)
    print(json.dumps({"back": back, "runs": runs, "lines": text.splitlines()[-LINES:]}))
    return 4


def _restore(folder: str) -> None:
    with open(os.path.join(folder, LIST)) as file:
        document = json.load(file)
    names = document.get("files", document)  # an earlier version wrote no boot
    for path, name in names.items():
        if name is not None:
            _copy(os.path.join(folder, name), path + ".before")
            os.rename(path + ".before", path)
        elif os.path.lexists(path):
            if path.endswith((".service", ".timer")):
                _call(["systemctl", "disable", "--now", os.path.basename(path)])
            if os.path.lexists(path):
                os.remove(path)


def _forget(folder: str) -> None:
    """Remove what is kept, the list first: half of the copies put back would be neither settings."""
    os.sync()
    if os.path.exists(os.path.join(folder, LIST)):
        os.remove(os.path.join(folder, LIST))
        os.sync()
    shutil.rmtree(folder, ignore_errors=True)


def _boot() -> str:
    try:
        with open(BOOT) as file:
            return file.read().strip()
    except OSError:
        return ""


def _copy(source: str, target: str) -> None:
    """A file with its owner and mode, by descriptors; a link, as units have them, as it is."""
    if os.path.lexists(target):
        os.remove(target)
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    with open(source, "rb") as file:
        status, data = os.fstat(file.fileno()), file.read()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.fchmod(file.fileno(), status.st_mode & 0o777)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _call(command: List[str]) -> int:
    try:
        with open(os.devnull, "r+b") as nothing:
            return subprocess.call(command, stdin=nothing, stdout=nothing, stderr=nothing)  # noqa: S603 - ours
    except OSError:
        return 127


def _output(command: List[str]) -> str:
    try:
        with open(os.devnull, "r+b") as nothing:
            output = subprocess.Popen(command, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing).communicate()[0]  # noqa: S603 - ours
        return output.decode("utf-8", "replace")
    except OSError:
        return ""


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        keep(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(restart(sys.argv[2], sys.argv[3:]))
