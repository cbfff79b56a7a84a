"""A user's own source and sinks, from an installed package, are used as ours are."""

import os
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from edgeveil.devices.zipapp import build_zipapp
from edgeveil.edge_runtime import config, kinds
from edgeveil.edge_runtime.backends import available, open_backend
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.lut import as_array
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sinks import wire
from tests.support import bundles
from tests.support.checkout import PACKAGES, ROOT
from tests.support.once import nightly_but

PLUGINS = ROOT / "tests/support/plugins/edge"
SUMS = (16, 8, 4, 30)  # of the rows that ``numpy_example`` gives for each largest feature


@pytest.fixture
def plugins(monkeypatch):
    """The packages of tests/support/plugins/edge are installed, in this process."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    yield
    sys.modules.pop("edgeveil_edge_parts", None)


@pytest.fixture(params=["a checkout", "a zipapp"])
def run(request, tmp_path):
    """Runs a bundle with such a package on the path, and returns its manifest."""
    made = bundles.make_bundle(tmp_path / "bundle", example=bundles.numpy_example())
    words = (
        ["-m", "edgeveil.edge_runtime"] if request.param == "a checkout" else [str(build_zipapp(tmp_path / "e.pyz"))]
    )
    path = os.pathsep.join([str(PLUGINS)] + [str(PACKAGES)] * (request.param == "a checkout"))

    def run(*more, stdin=None):
        command = [sys.executable, *words, "run", str(made.path), "--trust", str(made.trust), *more]
        environment = dict(os.environ, PYTHONPATH=path)
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, input=stdin
        )
        assert done.returncode == 0, done.stderr
        return parse(made.manifest)

    return run


def test_a_source_and_a_sink_of_a_package_run_file_to_file(run, tmp_path):
    run("--source", "ramp:8", "--sink", f"tally:{tmp_path}/sums")
    lines = [f"{number} {SUMS[number % 4]}" for number in range(8)]
    assert (tmp_path / "sums").read_text().splitlines() == lines


@pytest.mark.parametrize(("source", "stdin"), nightly_but((("ramp:8", None), ("ramp:-", "8\n")), ("ramp:-", "8\n")))
def test_a_networked_sink_of_a_package_gets_each_frame_from_the_service(run, source, stdin):
    received = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def receive():
            connection = server.accept()[0]
            with connection:
                while data := connection.recv(1 << 16):
                    received.append(data)

        receiver = threading.Thread(target=receive)
        receiver.start()
        sink = f"collector://127.0.0.1:{server.getsockname()[1]}"
        manifest = run("--source", source, "--sink", sink, "--health", "off", "--as-root", stdin=stdin)
        receiver.join(10)
    form, data = wire.Format(manifest.outputs, manifest), b"".join(received)
    size = wire.HEADER_BYTES + form.payload_bytes
    records = [form.decode(data[at : at + size]) for at in range(0, len(data), size)]
    assert [int(record.outputs["frame"].sum()) for record in records] == [SUMS[number % 4] for number in range(8)]


def test_their_facts_hold_as_those_of_ours(plugins):
    assert kinds.check_source("ramp:8") == ("ramp", "8")
    assert kinds.check_sink("tally:x") == ("tally", "x")
    with pytest.raises(BadInput, match=r"collector://HOST:PORT.*Write collector://"):
        kinds.check_sink("collector:127.0.0.1:80")  # its base class has the fact that it is on a network
    with pytest.raises(BadInput, match="ramp: is not one"):
        kinds.check_replay("ramp:8", realtime=True, repeat=False)
    settings = config.merged({"bundle": "b", "trust": "t", "source": "ramp:8", "sink": ["tally:x"]}, {})
    assert not config.needs_service(settings)
    assert config.needs_service(settings._replace(sink=["collector://127.0.0.1:80"]))


def test_a_backend_of_a_package_runs_where_it_is_named_and_never_by_itself(plugins, tmp_path):
    made = bundles.make_bundle(tmp_path, example=bundles.cleaner_example())
    entry = made.manifest["models"]["cleaner"]["artefacts"]["numpy-float32"]
    model, x = made.members[entry["file"]], {"features": np.ones((3, 6), np.float32)}
    ours, theirs = (open_backend("numpy", model, entry, backend=name) for name in ("auto", "twice-checked"))
    assert (ours.info()["backend"], theirs.info()["backend"]) == ("numpy", "twice-checked")
    name = entry["outputs"][0]["name"]
    assert np.array_equal(*(as_array(backend.run(x)[name]) for backend in (ours, theirs)))
    perturber = Perturber.open(made.path, trust=made.trust, backend="twice-checked")
    assert {one["backend"] for one in perturber.info["backends"].values()} == {"twice-checked"}
    assert "twice-checked" not in available("numpy")
    with pytest.raises(BadInput, match="a backend that runs tflite"):
        open_backend("tflite", model, entry, backend="twice-checked")


def test_without_the_package_there_is_no_such_kind():
    with pytest.raises(BadInput, match="expected a source"):
        kinds.check_source("ramp:8")
    with pytest.raises(BadInput, match="expected a sink"):
        kinds.check_sink("tally:x")
