"""Runs once on a board that booted from a card: a flash without a connection. It is on the card with its files.

``files.json`` has every file's SHA-256, ``job.json`` what to do with them (``devices/flashing/plan.py``).
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List


def main(here: str) -> None:
    """Check the card's files, place them, install the release and enable the service. Exits if a part fails."""
    for name, sha in json.loads(_read(here, "files.json").decode()).items():
        if hashlib.sha256(_read(here, name)).hexdigest() != sha:
            sys.exit("%s differs from what was written: write the card again" % name)
    job = json.loads(_read(here, "job.json").decode())
    root = job["root"]
    _keep_root_key(here, root, job)
    for user, command in job["users"]:
        with open(os.devnull, "w") as nothing:
            known = subprocess.call(["id", "-u", user], stdout=nothing, stderr=nothing) == 0  # noqa: S603, S607 - a name of ours; found as every shell would
        if not known:
            _run(*command)
    os.makedirs(root, mode=0o755, exist_ok=True)
    for path in job["removed"]:
        if os.path.lexists(path):
            os.remove(path)
    for name, path in sorted(job["places"].items()):
        _place(_read(here, name), path, job["groups"].get(path))
    if job["site"]:
        unpack, archive = (os.path.join(here, name) for name in ("unpack_wheels.py", "site.zip"))
        _run(sys.executable, unpack, archive, job["site"]["sha256"], job["site"]["place"])
    # An installed release finds its wheels next to it; this runtime needs their path (numpy may be one).
    os.environ.update(job["environment"])
    more = job["environment"].get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.path.join(root, "site") + (":" + more if more else "")
    bundle, runtime = (os.path.join(here, name) for name in ("bundle.veil", "edgeveil-edge.pyz"))
    _run(sys.executable, runtime, "install", bundle, "--root", root, *_trial(job["trial"]))
    # One that is there stays: a new one would forget what was spent.
    if job["ledger"] and not os.path.lexists(job["ledger"]["place"]):
        maker, installed = os.path.join(here, "make_ledger.py"), os.path.join(root, "runtime/current/edgeveil-edge.pyz")
        _run(sys.executable, maker, installed, job["ledger"]["place"], job["ledger"]["owner"])
    for command in job["enabling"]:
        _run(*command)
    os.sync()
    shutil.rmtree(here)


def _trial(options: List[str]) -> List[str]:
    """The options of the trial: synthetic frames where the camera is not plugged in yet; the service waits for it."""
    if "--source" not in options:
        return options
    at = options.index("--source")
    kind, _, place = options[at + 1].partition(":")
    device = "/dev/video" + place if place.isdigit() else place
    if kind != "camera" or os.path.exists(device):
        return options
    print("there is no %s yet: the release is tried on synthetic frames" % device)
    return options[:at] + options[at + 2 :]


def _keep_root_key(here: str, root: str, job: Dict[str, Any]) -> None:
    """A board that already has a root key keeps it, and refuses the card of another owner."""
    key_path = os.path.join(root, "trust", "root.pub")
    if not os.path.exists(key_path):
        return
    with open(key_path, "rb") as file:
        if file.read() != _read(here, "trust/root.pub"):
            sys.exit("this board has another root key already, and a card never changes it")
    job["places"] = {name: path for name, path in job["places"].items() if not name.startswith("trust/")}


def _place(data: bytes, path: str, group: Any) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path + ".tmp", "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(path + ".tmp", 0o644 if group is None else 0o640)
    if group is not None:
        shutil.chown(path + ".tmp", group=group)
    os.rename(path + ".tmp", path)


def _read(here: str, name: str) -> bytes:
    with open(os.path.join(here, name), "rb") as file:
        return file.read()


def _run(*command: str) -> None:
    code = subprocess.call(command)  # noqa: S603 - from the job, whose hash was checked
    if code:
        sys.exit("%s ended with code %d" % (" ".join(command[:3]), code))


if __name__ == "__main__":
    main(os.path.dirname(os.path.abspath(__file__)))
