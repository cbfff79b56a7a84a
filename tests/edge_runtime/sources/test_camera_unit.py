"""Three processes as systemd would start them: the camera's, the inside and the sending one; a server as camera."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc import pipes
from tests.hostile_bundles import one_artefact, onnx_models
from tests.security import noise_camera
from tests.support import bundles
from tests.support.checkout import PACKAGES

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGES), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return bundles.make_bundle(tmp_path_factory.mktemp("b"), example=one_artefact.example("onnx", onnx_models.good()))


@pytest.fixture
def folder():
    """One that every user may enter: of root's, the processes become nobody."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        (Path(name) / "frames-at").mkdir(0o711)
        yield Path(name)


class Units:
    """The processes; one that ends is started again until the end, as by Restart=always."""

    def __init__(self, made, folder, source):
        self.made, self.folder, self.ended, self.stopping = made, folder, [], False
        (folder / "camera.json").write_text(
            json.dumps({"bundle": str(made.path), "trust": str(made.trust), "source": source})
        )
        at, shown = ["--frames-at", str(folder / "frames-at")], source.split("/x")[0].replace("who:topsecret@", "")
        bundle = [str(made.path), "--trust", str(made.trust), "--source", shown + "/...", "--fps", "25"]
        self.words = {
            "camera": ["camera", "--config", str(folder / "camera.json"), *at],
            "inside": ["inside", *bundle, "--inside-at", str(folder), *at],
        }
        outside = ["run", *bundle, "--inside-at", str(folder), "--sink", f"npz:{folder}/out.npz", "--json"]
        self.running = {}
        self.outside = self._start([*outside, "--health", "off", "--log", "json", "--duration", "600"])
        self.events = []
        for run in (self._listen, *(lambda name=name: self._keep(name) for name in self.words)):
            threading.Thread(target=run, daemon=True).start()

    def _start(self, words):
        command = [sys.executable, "-m", "edgeveil.edge_runtime", *words]
        return subprocess.Popen(
            command, env=ENVIRONMENT, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _listen(self):
        for line in self.outside.stderr:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def _keep(self, name):
        while not self.stopping:
            self.running[name] = self._start(self.words[name])
            _, said = self.running[name].communicate()
            self.ended.append((name, self.running[name].returncode, said))
            time.sleep(0.2)

    def wait_for(self, times):
        """Until that many insides have opened the camera."""
        until = time.monotonic() + 60
        while sum(event["event"] == "ready" for event in self.events) < times or not self._frames() > 10 * times:
            assert time.monotonic() < until, (self.events, self.ended)
            time.sleep(0.1)

    def _frames(self):
        """Frames that came in, by the page of counters."""
        from edgeveil.edge_runtime.ipc.counters import Counters, page_at

        with contextlib.suppress(BadInput, OSError):
            return Counters(page_at(str(self.folder / "counters"))).get("frames-in")
        return 0

    def stop(self):
        self.outside.send_signal(signal.SIGINT)
        out = self.outside.stdout.read()
        self.stopping = True
        for process in [self.outside, *self.running.values()]:
            process.kill()
            process.wait()
        return json.loads(out)


def test_frames_come_through_and_each_process_may_end_and_come_back(made, folder):
    with noise_camera.serve(login=True) as server:
        source = f"http://who:topsecret@127.0.0.1:{server.server_address[1]}/x?token=topsecret"
        units = Units(made, folder, source)
        try:
            units.wait_for(1)
            pipe = folder / "frames-at/frames"
            assert stat.S_IMODE(pipe.stat().st_mode) == 0o622
            units.running["inside"].kill()
            units.wait_for(2)
            units.running["camera"].kill()
            units.wait_for(3)
            time.sleep(1)
        finally:
            document = units.stop()
    # The inside is no child of the sending process, and is still at work as that one ends: no exact sum.
    assert document["frames_in"] >= document["frames_out"] >= 10, (document, units.events)
    assert {asked for asked, _ in server.asked} == {"/x?token=topsecret"}
    assert {who for _, who in server.asked} == {None, "Basic d2hvOnRvcHNlY3JldA=="}
    codes = {(name, code) for name, code, _ in units.ended}
    # The camera's process ends because nobody reads any more; the inside because nobody writes.
    assert {("inside", -9), ("camera", 0), ("camera", -9), ("inside", 4)} <= codes
    assert "topsecret" not in json.dumps(units.events) + json.dumps(document) + "".join(t for *_, t in units.ended)
    (told, *_) = [event for event in units.events if event["event"] == "source"]
    assert told["raw_on_network"] is True
    ready = next(event for event in units.events if event["event"] == "ready")
    assert "seccomp" in ready["isolation"] or "namespace" in ready["isolation"]


def test_a_new_inside_never_begins_in_the_middle_of_a_frame(tmp_path):
    first = pipes.make_for_inside(str(tmp_path))
    camera = pipes.open_for_camera(str(tmp_path))
    os.write(camera, b"half a fra")
    os.close(first)
    second = pipes.make_for_inside(str(tmp_path))
    with pytest.raises(BrokenPipeError):
        os.write(camera, b"me")
    again = pipes.open_for_camera(str(tmp_path))
    os.write(again, b"whole")
    assert os.read(second, 100) == b"whole"
    for handle in (camera, second, again):
        os.close(handle)


def test_the_cameras_process_waits_for_an_inside_and_takes_nothing_but_a_pipe(tmp_path):
    reading = []

    def inside_comes(_seconds):
        reading.append(pipes.make_for_inside(str(tmp_path)))

    camera = pipes.open_for_camera(str(tmp_path), sleep=inside_comes)
    assert len(reading) == 1
    os.close(camera)
    os.close(reading[0])
    (tmp_path / "frames").unlink()
    (tmp_path / "frames").touch()
    with pytest.raises(BadInput, match="something else"):
        pipes.open_for_camera(str(tmp_path))
    with pytest.raises(BadInput, match="edgeveil-recover"):
        pipes.make_for_inside(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["camera", "--source", "http://camera.example/x", "--frames-at", "."], "--accept-raw-on-network"),
        (["camera", "--source", "https://camera.example/x"], "--frames-at DIR"),
        (["camera", "--source", "camera:0", "--frames-at", "."], "opens this source itself"),
        (["camera", "--source", "https://who:pw@camera.example/x", "--frames-at", "."], "--source-credentials FILE"),
        (["inside", "--source", "https://camera.example/x", "--inside-at", "."], "--frames-at DIR"),
        (["inside", "--source", "camera:0", "--inside-at", ".", "--frames-at", "."], "no other source"),
        (["run", "--source", "camera:0", "--sink", "npz:x", "--frames-at", "."], "--inside-at DIR"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(made, words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("edgeveil.edge_runtime.cli.options.CAMERA_PATH", str(tmp_path / "none.json"))
    (tmp_path / "empty.json").write_text("{}")
    config = ["--config", str(tmp_path / "empty.json")]
    assert main.main([words[0], str(made.path), "--trust", str(made.trust), *words[1:], *config]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert len(error.splitlines()) == 1
