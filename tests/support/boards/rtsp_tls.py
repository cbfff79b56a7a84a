"""Half an hour of a camera that speaks RTSP over TLS: its server is killed five times, and nothing raw is found.

gst-rtsp-server is the camera; it asks for a name and password, and its certificate is of an authority made for this.
The service fetches from it, perturbs and writes. A row of the camera's still colour bars is what is looked for: in the
memory of the sending process, and in every file that was written meanwhile. In the memory of the two processes that
must see raw frames it has to be found, or the search would be none. Needs root, and Debian's python3-gi,
gir1.2-gst-rtsp-server-1.0 and gstreamer1.0-plugins-good. Records docs/results/bench/rtsp-tls.json.
"""

import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.edge_runtime.manifest.manifest import Manifest, expected
from scripts import record
from scripts.measure.soak import children

ROOT = Path(__file__).resolve().parents[3]
RESULT = Path("docs/results/bench/rtsp-tls.json")
SERVER, SYSTEM_PYTHON = ROOT / "scripts/emulation/rtsp_server.py", "/usr/bin/python3"
WRITTEN = ("/dev/shm", "/var/tmp", "/run", "/tmp")  # noqa: S108 - where a leak would lie
ROW, AWAY_S, LOOKS = 40, 3.0, 12
MOST_BYTES = 2**28


class Camera:
    """The server at one port; ``kill`` and ``start`` it again."""

    def __init__(self, certificate: Path) -> None:
        self._certificate, self.port = certificate, 0
        self.start()

    def start(self) -> None:
        """Start it at the port that it had. Raises ``DeviceFailed`` where it cannot run."""
        command = [SYSTEM_PYTHON, str(SERVER), str(self.port), str(self._certificate)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        said = self._process.stdout.readline() if self._process.stdout else ""
        if not said.strip().isdigit():
            raise DeviceFailed("no RTSP server here: apt install python3-gi gir1.2-gst-rtsp-server-1.0")
        self.port = int(said)

    def kill(self) -> None:
        """As a cable that is pulled."""
        self._process.kill()
        self._process.wait()


def watch(
    made: Any,
    manifest: Manifest,
    certificates: tuple[Path, ...],
    seconds: float,
    kills: int,
    written: Sequence[str] = WRITTEN,
) -> dict[str, Any]:
    """The service on such a camera for so long; ``made`` has the bundle's ``path`` and ``trust``.

    ``certificates`` are the authority's, the server's and its key, for localhost; ``written`` the folders that are
    searched besides the service's own. Raises ``DeviceFailed``.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        both, who = folder / "camera.pem", folder / "who"
        both.write_bytes(certificates[1].read_bytes() + certificates[2].read_bytes())
        who.write_text("who:topsecret\n")
        camera, found = Camera(both), {"camera's": 0, "inside": 0, "outside": 0}
        environment = {**os.environ, "SSL_CERT_FILE": str(certificates[0])}
        try:
            source = f"rtsps://localhost:{camera.port}/cam"
            needle = _row(source, expected(manifest.input, manifest.capture), environment)
            words = ["run", str(made.path), "--trust", str(made.trust), "--source", source]
            words += ["--source-credentials", str(who), "--sink", f"npz:{folder}/out.npz", "--health", "off"]
            words += ["--log", "json", "--json", "--duration", str(seconds), "--restarts", "1000"]
            began, log = time.time(), (folder / "log").open("w+")
            command = [sys.executable, "-m", "edgeveil.edge_runtime", *words]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
            while '"event": "source"' not in (folder / "log").read_text() and process.poll() is None:
                time.sleep(0.1)
            _trouble(process, camera, found, needle, seconds, kills)
            out = process.communicate(timeout=120)[0]
            log.seek(0)
            events = [json.loads(line) for line in log if line.startswith('{"')]
            files = [needle in data for data in _written(began, [name, *written])]
            said = out + (folder / "log").read_text()
        finally:
            camera.kill()
    if process.returncode or not out:
        raise DeviceFailed(f"the service ended with code {process.returncode}: {events[-1:]}")
    document, names = json.loads(out), [event["event"] for event in events]
    return {
        "seconds": round(document["seconds"], 1),
        "exit_code": process.returncode,
        "frames_in": document["frames_in"],
        "frames_out": document["frames_out"],
        "dropped": document["dropped"],
        "unaccounted": document["frames_in"] - document["frames_out"] - sum(document["dropped"].values()),
        "server_killed": kills,
        "events": {event: names.count(event) for event in sorted(set(names))},
        "isolation": next(event["isolation"] for event in events if event["event"] == "ready"),
        "looks": LOOKS,
        "row_found_in_memory": found,
        "files_searched": len(files),
        "row_found_in_files": sum(files),
        "password_printed": "topsecret" in said,
    }


def _trouble(
    process: subprocess.Popen[str], camera: Camera, found: dict[str, int], needle: bytes, seconds: float, kills: int
) -> None:
    """Kill the server and look into memory, at even times, until the service ends."""
    began = time.monotonic()
    dues = [(seconds * (n + 0.7) / (kills + 1), True) for n in range(kills)]
    dues += [(seconds * (n + 0.5) / LOOKS, False) for n in range(LOOKS)]
    for due, kill in sorted(dues):
        time.sleep(max(0.0, began + due - time.monotonic()))
        if kill:
            camera.kill()
            time.sleep(AWAY_S)
            camera.start()
            continue
        # The one that fetches is started before the inside.
        for who, pid in zip(found, [*children(process.pid)[:2], process.pid], strict=False):
            found[who] += _holds(pid, needle)


def _row(source: str, sensor: dict[str, Any], environment: dict[str, str]) -> bytes:
    """A row of the camera's picture as the service's processes have it, read in a process that ends."""
    code = (
        "import json, sys; from edgeveil.edge_runtime.sources.rtsp import RtspsSource\n"
        "with RtspsSource(sys.argv[1].partition(':')[2], json.loads(sys.argv[2])) as source:\n"
        f"    sys.stdout.buffer.write(source.next()._data[{ROW}].tobytes())"
    )
    told = source.replace("://", "://who:topsecret@")
    command = [sys.executable, "-c", code, told, json.dumps(sensor)]
    row = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True).stdout
    if len(set(row)) < 5:
        raise DeviceFailed("the camera's picture has no row that could be told from any other")
    return row


def _holds(pid: int, needle: bytes) -> bool:
    """Whether a process has these bytes in memory that it can write to; only root may look."""
    with contextlib.suppress(OSError, ValueError), Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights = line.split()[:2]
            begin, end = (int(word, 16) for word in place.split("-"))
            if not rights.startswith("rw") or end - begin > MOST_BYTES:
                continue
            with contextlib.suppress(OSError):
                memory.seek(begin)
                if needle in memory.read(end - begin):
                    return True
    return False


def _written(began: float, folders: Sequence[str]) -> Iterator[bytes]:
    """The content of regular files that were written since."""
    for root in folders:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder) / name
                with contextlib.suppress(OSError):
                    facts = path.lstat()
                    if stat.S_ISREG(facts.st_mode) and facts.st_mtime >= began and facts.st_size < MOST_BYTES:
                        yield path.read_bytes()


def main() -> int:
    """Watch and record; exit code 3 where a frame is not accounted for, or a raw row is where none may be."""
    from tests.support import network_receivers
    from tests.support.boards import rtsp_bundle

    script = record.Script(__file__, __doc__, "--minutes 1 --kills 1 --out rtsp-tls.json", out=RESULT)
    script.add_argument("--minutes", type=float, default=30.0)
    script.add_argument("--kills", type=int, default=5, help="how often the camera's server is killed")
    options = script.parse_args()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        made = rtsp_bundle.make(Path(name))
        certificates = network_receivers.certificates(Path(name))
        done = watch(made, rtsp_bundle.manifest_of(made), certificates, 60 * options.minutes, options.kills)
    what = "the service on a camera over RTSP and TLS, whose server is killed"
    record.write(options.out, script.made_by(options), {"what": what, **record.here(), **done})
    print(json.dumps(done, indent=1))
    held = done["row_found_in_memory"]
    good = not (done["unaccounted"] or held["outside"] or done["row_found_in_files"] or done["password_printed"])
    return 0 if good and held["camera's"] and held["inside"] else 3


if __name__ == "__main__":
    record.run(main)
