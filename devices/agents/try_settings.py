"""Starts a service with new settings; where it is not ready in its time, the ones before come back.

This file is sent alone to a board, after a flash has written the settings: ``keep FOLDER PATH...`` before that, and
``restart FOLDER UNIT...`` after it, which prints a JSON document where the service does not start. What is kept lies in
``FOLDER`` until a start succeeds, so that after a flash that was cut off it is still what ran last.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from typing import Dict, List, Optional

LIST = "list.json"  # path -> the name of its copy, or null where there was nothing; written last
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
        json.dump(names, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(os.path.join(folder, "new"), os.path.join(folder, LIST))


def restart(folder: str, units: List[str]) -> int:
    """Restart the units; the exit code. Where that fails, the document says whether settings came ``back``, whether
    the service ``runs`` with them, and the last ``lines`` of the units' log."""
    began = int(time.time())
    if _call(["systemctl", "restart"] + units) == 0:
        shutil.rmtree(folder, ignore_errors=True)
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
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"back": back, "runs": runs, "lines": text.splitlines()[-LINES:]}))
    return 4


def _restore(folder: str) -> None:
    with open(os.path.join(folder, LIST)) as file:
        names = json.load(file)
    for path, name in names.items():
        if name is not None:
            _copy(os.path.join(folder, name), path + ".before")
            os.rename(path + ".before", path)
        elif os.path.lexists(path):
            if path.endswith((".service", ".timer")):
                _call(["systemctl", "disable", "--now", os.path.basename(path)])
            if os.path.lexists(path):
                os.remove(path)


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
