"""A service whose camera is not there at boot: it waits for it, and begins soon after it comes."""

import json
import socket
import time

import pytest

from edgeveil.edge_runtime.inside.process import POLL_S, SAY_AFTER_S, device_file, wait_for_file
from tests.edge_runtime.outside.test_external_inside import start_inside
from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, start


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("camera:0", "/dev/video0"),
        ("camera:/dev/v4l/by-id/one", "/dev/v4l/by-id/one"),
        ("kinect:", None),
        ("gst:nvarguscamerasrc", None),
        ("simulate:depth", None),
    ],
)
def test_which_device_file_a_source_opens(source, path):
    assert device_file(source) == path


def test_a_camera_that_comes_after_hours_is_seen_within_a_second(tmp_path):
    place, said, alive = tmp_path / "video0", [], []
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds
        if now[0] >= 7200:
            place.touch()

    assert wait_for_file(str(place), said.append, lambda: alive.append(1), lambda: now[0], sleep)
    assert now[0] <= 7200 + POLL_S
    assert len(said) == 1, "an hour of waiting does not fill a log"
    assert len(alive) >= 7200 / POLL_S - 1
    assert not wait_for_file(str(place), said.append, lambda: None, lambda: now[0], sleep)


def test_one_that_comes_at_once_is_not_spoken_of(tmp_path):
    place, said, now = tmp_path / "video0", [], [0.0]

    def sleep(seconds):
        now[0] += seconds
        place.touch()

    assert wait_for_file(str(place), said.append, lambda: None, lambda: now[0], sleep)
    assert said == []
    assert now[0] < SAY_AFTER_S


def test_a_unit_without_its_camera_waits_is_up_for_its_manager_and_starts_anew_when_it_comes(tmp_path):
    """Real processes: the manager hears READY, and the inside lives until the file comes, then ends with 4."""
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    camera = tmp_path / "video7"
    quick = "from edgeveil.edge_runtime.inside import process; process.SAY_AFTER_S = 0.0"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        words = arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path})
        first = f"import os; os.environ['NOTIFY_SOCKET'] = {str(tmp_path / 'notify')!r}"
        outside = start(words, tmp_path, first)
        inside = start_inside(made, tmp_path, f"camera:{camera}", quick)
        try:
            while b"READY=1" not in (said := manager.recv(4096)):
                assert b"STOPPING" not in said
            assert b"waiting for its source" in said
            assert inside.poll() is None
            camera.touch()
            came = time.monotonic()
            assert inside.wait(timeout=20) == 4
            assert time.monotonic() - came < 30
            waiting = next(json.loads(line) for line in outside.stderr if '"event": "waiting"' in line)
            assert str(camera) in waiting["message"]
            assert outside.poll() is None
        finally:
            for process in (outside, inside):
                process.kill()
                process.communicate()


def test_a_source_without_a_device_file_is_tried_again_in_the_same_process(tmp_path):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(made, "fake:0", f"npz:{tmp_path}/out.npz", **{"inside-at": tmp_path})
    outside = start(words, tmp_path)
    inside = start_inside(made, tmp_path, "fake:10?fps=50&absent=2")
    try:
        heard = [json.loads(line) for line in outside.stderr if line.startswith("{")]
        assert inside.wait(timeout=30) == 0, inside.stderr.read()
        assert outside.wait(timeout=30) == 0
    finally:
        for process in (outside, inside):
            process.kill()
            process.communicate()
    events = [event["event"] for event in heard]
    assert events.index("waiting") < events.index("source")
