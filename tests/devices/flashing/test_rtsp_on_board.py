"""A flashed service on a camera that speaks RTSP over TLS, as units on the virtual board: killed servers, and no leak.

gst-rtsp-server on this machine is the camera. A row of its still colour bars is looked for in the memory of every
process of the board, and in every byte of its disk.
"""

import json
import mmap
import os
import subprocess
import time

import pytest

from edgeveil.edge_runtime.manifest.manifest import expected
from tests.support import network_receivers, programs
from tests.support.boards import emulated_boards, rtsp_bundle, rtsp_tls
from tests.support.boards.board_service import healthy, process, units
from tests.support.checkout import ROOT
from tests.support.watching_bundle import CAPTURE, watching_bundle

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

MINUTES = float(os.environ.get("EDGEVEIL_RTSP_MINUTES", "30"))
KILLS, LOOKS, AWAY_S, ROW = 5, 6, 5, 40
HOST = "camera.example"
SOURCE = f"rtsps://{HOST}:322/cam"
GRAY = {**CAPTURE, "frame": {"shape": [240, 320], "dtype": "uint8", "unit_mm": None}, "resize": "area"}
UNITS = {"camera's": "edgeveil-camera", "inside": "edgeveil-inside", "outside": "edgeveil"}
# A row as the camera's process has it; the certificate is that of the board's own store.
READ = f"""
import json, sys
from edgeveil.edge_runtime.sources.rtsp import RtspsSource
with RtspsSource("//who:topsecret@{HOST}:322/cam", json.loads(sys.argv[1])) as source:
    print(source.next()._data[{ROW}].tobytes().hex())
"""


def test_rtsp_over_tls_as_units_of_the_board(tmp_path, edgeveil):
    programs.need(*programs.RTSP_SERVER)
    owner, bundle = watching_bundle(tmp_path, "corridor", capture=GRAY)
    wheels = emulated_boards.wheels(emulated_boards.LITERT, emulated_boards.OPENCV)
    edgeveil("board", "wheels", "raspberry-pi-cpu", *wheels, "--out", tmp_path / "wheels")
    authority, certificate, key = network_receivers.certificates(tmp_path, HOST)
    (tmp_path / "both.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    (tmp_path / "who").write_text("who:topsecret\n")
    camera = rtsp_tls.Camera(tmp_path / "both.pem")
    try:
        with emulated_boards.board("vm", reach={"10.0.2.100:322": camera.port}) as board:
            trust_camera(board, authority)
            common = ["--for", "raspberry-pi-cpu", "--trust", owner, "--wheels", tmp_path / "wheels"]
            flash = ["flash", bundle.path, "--on", board.target, *common, "--json"]
            service = ["--source", SOURCE, *board.options(source_credentials=tmp_path / "who")]
            edgeveil(*flash, *service, "--sink", "npz:/var/lib/edgeveil/out?rotate=2MB&keep=3")
            manifest = rtsp_bundle.manifest_of(bundle)
            needle = row(board, expected(manifest.input, manifest.capture))
            before = healthy(board, more_than=5)
            assert len({process(board, unit) for unit in UNITS.values()}) == 3
            began = time.monotonic()
            looked = trouble(board, camera, needle)
            seconds = time.monotonic() - began
            after = healthy(board, more_than=before["frames_out"])
            log = board.run("journalctl --no-pager -o cat -u 'edgeveil*'").stdout
            settings = board.run("stat -c '%a %U %G' /etc/edgeveil/camera.json").stdout.decode().strip()
            active, restarts = units(board), service_restarts(board)
            isolation = after["isolation"]
            board.run("systemctl stop edgeveil && sync")
            found = found_on_disk(board.disk, needle)
    finally:
        camera.kill()
    waiting = after["frames_in"] - after["frames_out"] - sum(after["dropped"].values())
    emulated_boards.record(
        "rtsp-board.json",
        {
            "machine": "qemu-system-aarch64 virt, Cortex-A53, two cores; the machine under it was busy",
            "source": SOURCE,
            "seconds": round(seconds, 1),
            "server_killed": KILLS,
            **{key: after[key] for key in ("frames_in", "frames_out", "dropped")},
            "in_flight_at_the_last_look": waiting,
            "units_active": active,
            "restarts": restarts,
            "isolation": isolation,
            "looks": looked,
            "bytes_of_disk_searched": found[1],
            "row_found_on_disk": found[0],
            "camera_settings": settings,
            "password_in_log": b"topsecret" in log,
        },
    )
    assert 0 <= waiting <= 3
    assert active == ["active"] * 3
    assert settings == "640 root edgeveil-camera"
    assert b"topsecret" not in log
    assert not found[0]
    for one in looked:
        assert one["others"] == {}, "another process has a raw row"
    held = [unit for one in looked for unit in one["held"]]
    assert {"camera's", "inside"} <= set(held), "the search finds what it should"
    assert "outside" not in held


def trust_camera(board, authority):
    """As ``update-ca-certificates`` does, and a name for the camera."""
    hashed = subprocess.run(
        [programs.need("openssl"), "x509", "-hash", "-noout", "-in", str(authority)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # As the packages openssl and ca-certificates have it.
    board.run("mkdir -p /etc/ssl/certs /usr/lib/ssl && ln -s /etc/ssl/certs /usr/lib/ssl/certs")
    board.put(authority.read_bytes(), f"/etc/ssl/certs/{hashed}.0")
    board.run(f"echo '10.0.2.100 {HOST}' >> /etc/hosts")


def row(board, sensor):
    """A row of the camera's picture. Only ``READ`` knows the password, and it is gone with its process."""
    path = "PYTHONPATH=/opt/edgeveil/current/edgeveil-edge.pyz:/opt/edgeveil/site"
    said = board.run(
        f"cd /root && {path} timeout 120 python3 - '{json.dumps(sensor)}'", data=READ.encode(), timeout_s=200
    ).stdout.decode()
    needle = bytes.fromhex(said.strip().splitlines()[-1])
    assert len(set(needle)) >= 5, "no row that could be told from any other"
    return needle


def trouble(board, camera, needle):
    """Kill the server and look into memory, at even times; what each look found."""
    board.put((ROOT / "tests/support/boards/raw_search.py").read_bytes(), "/root/raw_search.py")
    began, seconds, looked = time.monotonic(), 60 * MINUTES, []
    dues = [(seconds * (n + 0.7) / (KILLS + 1), "kill") for n in range(KILLS)]
    dues += [(seconds * (n + 0.5) / LOOKS, "look") for n in range(LOOKS)] + [(seconds, "end")]
    for due, what in sorted(dues):
        time.sleep(max(0.0, began + due - time.monotonic()))
        if what == "kill":
            camera.kill()
            time.sleep(AWAY_S)
            camera.start()
        elif what == "look":
            pids = {process(board, unit).decode(): name for name, unit in UNITS.items()}
            found = json.loads(board.run("python3 /root/raw_search.py", data=needle.hex().encode()).stdout)
            held = [pids[pid] for pid in found["found"] if pid in pids]
            others = {pid: said for pid, said in found["found"].items() if pid not in pids}
            looked.append({"processes": found["looked"], "held": sorted(held), "others": others})
    return looked


def service_restarts(board):
    """How often systemd started each unit again."""
    return {
        unit: int(board.run(f"systemctl show -P NRestarts {unit}").stdout) for unit in ("edgeveil", *UNITS.values())
    }


def found_on_disk(disk, needle):
    """Whether the bytes are anywhere on the disk, deleted files and journal included; and its size."""
    with disk.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        assert whole.find(b"edgeveil-inside.service") >= 0, "this is the board's disk"
        return whole.find(needle) >= 0, len(whole)
