"""edgeveil-edge: exit codes, one JSON document on stdout, one sentence on stderr."""

import json
import os
import signal
import subprocess
import sys

import cv2
import jsonschema
import numpy as np
import pytest

from edgeveil import edge_runtime
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.cli import run as run_command
from edgeveil.edge_runtime.errors import GONE, BadInput
from edgeveil.edge_runtime.manifest import manifest as manifests
from tests.support import bundles, tiny_models
from tests.support.checkout import PACKAGES, ROOT

RUN = ("run", "{bundle}", "--trust", "{trust}", "--source")


@pytest.fixture
def made(tmp_path):
    bundle = bundles.make_bundle(tmp_path / "bundle")
    x = np.random.default_rng(0).integers(0, 17, (50, 4)).astype(np.uint8)
    np.savez(tmp_path / "in.npz", x=x)
    return bundle


def edge(capsys, *arguments):
    """The exit code, what it printed, and what it said."""
    try:
        code = main.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code, out, err


def run(capsys, bundle, source, sink, *more):
    return edge(capsys, "run", bundle.path, "--trust", bundle.trust, "--source", source, "--sink", sink, *more)


def test_what_was_removed_is_refused_by_name_with_what_replaces_it(capsys):
    words = ["report", "--root", "/opt/edgeveil", "--to", "mqtts://broker/hall-1"]  # by an older update unit
    assert edge(capsys, *words) == (2, "", f"error: edgeveil-edge report: {GONE['report']}.\n")


def test_a_board_s_process_computes_on_one_thread_unless_its_environment_says_otherwise():
    """As a command and not as a function of another program; numpy reads these variables when it is loaded."""
    code = (
        "import json, os, sys; sys.argv[1:] = ['no-such-command']; from edgeveil.edge_runtime.cli import main; "
        "assert main.main(['no-such-command']) == 2 and 'OMP_NUM_THREADS' not in os.environ; "
        "assert main.main() == 2 and 'numpy' not in sys.modules; "
        "print(json.dumps({name: os.environ[name] for name in main.late_imports.ONE_THREAD}))"
    )
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment = {**kept, "OPENBLAS_NUM_THREADS": "3", "PYTHONPATH": str(PACKAGES)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    threads = {"OPENBLAS_NUM_THREADS": "3", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    assert json.loads(done.stdout) == threads


def test_run_writes_frames_and_sums_up(made, tmp_path, capsys):
    code, out, _ = run(capsys, made, f"npz:{tmp_path}/in.npz", f"npz:{tmp_path}/out.npz", "--json")
    assert code == 0
    document = json.loads(out)
    jsonschema.validate(document, json.loads((ROOT / "docs/reference/schemas/run.schema.json").read_text()))
    assert (document["frames_in"], document["frames_out"], document["dropped"]) == (50, 50, {})
    with np.load(tmp_path / "in.npz") as given, np.load(tmp_path / "out.npz") as got:
        assert got["index"].tolist() == list(range(50))
        assert np.array_equal(got["label"], given["x"].argmax(axis=1))
        assert got["x"].shape == given["x"].shape
    code, out, _ = run(capsys, made, f"npz:{tmp_path}/in.npz", f"npz:{tmp_path}/out.npz")
    assert code == 0
    assert out.startswith("50 frames in, 50 out")


@pytest.mark.parametrize("variant", tiny_models.VARIANTS)
def test_run_on_a_real_artefact_from_images_to_images(tiny, tmp_path, capsys, variant):
    (tmp_path / "in").mkdir()
    for name in "abc":
        cv2.imwrite(str(tmp_path / "in" / f"{name}.png"), np.full(tiny_models.SHAPE, ord(name), np.uint8))
    (tmp_path / "in/b.png").write_bytes(b"no picture")
    cv2.imwrite(str(tmp_path / "in" / "d.png"), np.zeros((5, 5), np.uint8))
    code, out, _ = run(capsys, tiny, f"images:{tmp_path}/in", f"images:{tmp_path}/out", "--artefact", variant, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["artefact"] == variant
    assert (document["frames_in"], document["frames_out"]) == (4, 2)
    assert document["dropped"] == {"shape": 1, "unreadable": 1}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["00000000.png", "00000002.png"]


def test_a_run_says_what_became_of_the_records_of_each_sink(made, tmp_path, capsys):
    code, out, _ = run(capsys, made, f"npz:{tmp_path}/in.npz", f"csv:{tmp_path}/out.csv")
    assert code == 0
    assert f"csv:{tmp_path}/out.csv: 50 records delivered, 0 waiting, 0 lost" in out
    with np.load(tmp_path / "in.npz") as given:
        np.savez(tmp_path / "one.npz", x=given["x"][:1])
    _, out, _ = run(capsys, made, f"npz:{tmp_path}/one.npz", f"csv:{tmp_path}/one.csv")
    assert out.startswith("1 frame in, 1 out")
    assert f"csv:{tmp_path}/one.csv: 1 record delivered" in out


def test_a_folder_of_pictures_of_a_wrong_size_ends_with_four(tiny, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for name in "ab":
        cv2.imwrite(str(tmp_path / "in" / f"{name}.png"), np.zeros((5, 5), np.uint8))
    code, out, err = run(capsys, tiny, f"images:{tmp_path}/in", f"images:{tmp_path}/out", "--json")
    assert code == 4
    assert json.loads(out)["dropped"] == {"shape": 2}
    assert "no frame came out of 2 (2 shape): this bundle takes frames of uint8 " in err


@pytest.mark.parametrize(
    ("drops", "failed"),
    [({"nobody": 9}, False), ({"nobody": 8, "shape": 1}, True), ({"newer-frame": 1}, False), ({}, False)],
)
def test_an_empty_scene_is_no_failure(drops, failed):
    manifest = manifests.parse(bundles.numpy_example()[0])
    document = {"frames_in": 9, "frames_out": 0, "dropped": drops, "sinks": {}}
    assert bool(list(run_command._failures(document, manifest))) is failed


@pytest.mark.parametrize(
    ("delivered", "waiting", "lost", "failed"), [(0, 0, 5, True), (1, 0, 5, False), (0, 1, 5, False), (0, 0, 0, False)]
)
def test_a_sink_that_lost_all_is_a_failure(delivered, waiting, lost, failed):
    sinks = {"tcp://h:1": {"delivered": delivered, "waiting": waiting, "lost": lost}}
    document = {"frames_in": 5, "frames_out": 5, "dropped": {}, "sinks": sinks}
    assert [text[:27] for text in run_command._failures(document, None)] == ["nothing arrived at tcp://h:"] * failed


@pytest.mark.parametrize(
    ("source", "sink", "said"),
    [
        ("npz:a.npz", "mqqt://broker/hall", "Did you mean mqtt://?"),
        ("cam:0", "npz:o.npz", "Did you mean camera:?"),
        ("npz:a.npz", "mqtt:broker/hall", "Write mqtt://..."),
        ("npz:a.npz", "camera:0", "camera: is a source."),
        ("preview:8080", "npz:o.npz", "preview: is a sink."),
    ],
)
def test_a_typing_error_is_found_before_anything_starts(made, capsys, monkeypatch, source, sink, said):
    from edgeveil.edge_runtime.outside import service

    monkeypatch.setattr(service, "run", None)
    monkeypatch.setattr(run_command, "_file_to_file", None)
    code, _, err = run(capsys, made, source, sink)
    assert code == 2
    assert err.rstrip().endswith(said)


ON_A_NETWORK = [["tcp://127.0.0.1:9"], ["mqtts://broker/hall"], ["http://127.0.0.1:9/"], ["preview:0"]]
ON_A_NETWORK += [["npz:out.npz", "--health", place] for place in ("0.0.0.0:9464?token_file=t", "[::]:9464")]


@pytest.mark.parametrize("sink", ON_A_NETWORK)
def test_the_process_with_the_network_is_root_on_request_alone(made, capsys, monkeypatch, sink):
    from edgeveil.edge_runtime.outside import service

    def ran(_settings):
        raise BadInput("it ran")

    monkeypatch.setattr(service, "run", ran)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for more in ([], ["--inside-user", "nobody"]):
        code, _, err = run(capsys, made, "simulate:depth", *sink, *more)
        assert (code, "another user than root" in err, "--as-root" in err, "it ran" in err) == (2, True, True, False)
    assert "it ran" in run(capsys, made, "simulate:depth", *sink, "--as-root")[2]
    assert "it ran" in run(capsys, made, "simulate:depth", "npz:out.npz")[2]  # nothing goes to a network
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "it ran" in run(capsys, made, "simulate:depth", *sink)[2]


def test_verify_says_what_was_verified(made, tiny, capsys):
    code, out, _ = edge(capsys, "verify", made.path, "--trust", made.trust)
    assert code == 0
    assert "verified: numpy-example" in out
    assert "self-test passed" in out
    code, out, _ = edge(capsys, "verify", tiny.path, "--trust", tiny.trust, "--artefact", "tflite-int8", "--json")
    assert code == 0
    assert json.loads(out)["self_test"]["max_abs"] <= 4
    assert json.loads(out)["verified"] is True


def test_verify_of_the_signature_alone_opens_no_interpreter(tiny, capsys, monkeypatch):
    monkeypatch.setattr("edgeveil.edge_runtime.pipeline.perturber.load_pipeline", None)
    code, out, _ = edge(capsys, "verify", tiny.path, "--trust", tiny.trust, "--signature-only", "--json")
    assert code == 0
    assert json.loads(out)["self_test"] is None


def test_bench_ends_with_three_where_figures_are_invalid(made, capsys):
    code, out, err = edge(
        capsys, "bench", made.path, "--trust", made.trust, "--min-count", 5, "--min-seconds", 0, "--json"
    )
    assert code == 3
    assert json.loads(out)["verdict"] == "INVALID"
    assert "too short" in err
    code, out, err = edge(capsys, "bench", made.path, "--trust", made.trust, "--min-count", 5, "--min-seconds", 0)
    assert code == 3
    assert out.splitlines()[-1] == "INVALID"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([*RUN, "npz:{tmp}/none", "--sink", "npz:{tmp}/o"], "no such file"),
        ([*RUN, "what", "--sink", "npz:{tmp}/o"], "expected a source"),
        ([*RUN, "npz:{tmp}/in.npz", "--sink", "what"], "expected a sink"),
        ([*RUN, "npz:{tmp}/in.npz", "--sink", "npz:{tmp}/./in.npz"], "another path than the source"),
        ([*RUN, "npz:{tmp}/in.npz", "--sink", "npz:{bundle}"], "another path than the bundle"),
        (["verify", "{bundle}", "--trust", "{tmp}"], "holds no .pub file"),
        (["verify", "{tmp}/in.npz", "--trust", "{trust}"], "no bundle"),
        (["verify", "{tmp}/none.veil", "--trust", "{trust}"], "none.veil"),
        (["bench", "{bundle}", "--trust", "{trust}", "--backend", "what"], "expected a backend"),
        (["bench", "{bundle}", "--trust", "{trust}", "--min-count", "0"], "at least 1 frame"),
        (["run", "{bundle}", "--trust", "{trust}"], "expected --source and --sink"),
        ([*RUN, "a", "--sink", "b", "--threads", "0"], "threads"),
        ([], "COMMAND"),
        (["fly"], "fly"),
    ],
)
def test_a_mistake_ends_with_two_and_one_sentence(made, tmp_path, capsys, arguments, match):
    before = sorted(tmp_path.rglob("*"))
    values = {"bundle": made.path, "trust": made.trust, "tmp": tmp_path}
    code, out, err = edge(capsys, *[argument.format(**values) for argument in arguments])
    assert code == 2
    assert out == ""
    assert match in err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_development_bundle_is_announced_by_every_command(tmp_path, capsys):
    made = bundles.make_bundle(tmp_path, development=True)
    np.savez(tmp_path / "in.npz", x=np.zeros((2, 4), np.uint8))
    for code, _, err in (
        edge(capsys, "verify", made.path, "--trust", made.trust),
        edge(capsys, "verify", made.path, "--trust", made.trust, "--signature-only"),
        run(capsys, made, f"npz:{tmp_path}/in.npz", f"npz:{tmp_path}/out.npz"),
    ):
        assert code == 0
        assert "*** DEVELOPMENT BUNDLE" in err


def test_a_privacy_stop_ends_with_seventy_and_writes_nothing(tmp_path, capsys):
    def leaks(manifest, members):
        members["tables/means.npy"] = bundles.npy(np.eye(4, dtype=np.float32))
        x = np.array([[16, 1, 0, 0], [0, 3, 0, 0]], np.uint8)
        members["golden/input.npy"] = bundles.npy(x)
        members["golden/numpy.label.npy"] = bundles.npy(x.argmax(axis=1))
        members["golden/numpy.frame.npy"] = bundles.npy(np.eye(4, dtype=np.uint8)[x.argmax(axis=1)] * np.uint8(16))

    made = bundles.make_bundle(tmp_path / "bundle", change=leaks)
    x = np.eye(4, dtype=np.uint8)[np.arange(40) % 4] * np.uint8(16)
    np.savez(tmp_path / "in.npz", x=x)
    code, out, err = run(capsys, made, f"npz:{tmp_path}/in.npz", f"npz:{tmp_path}/out.npz", "--json")
    assert code == 70
    assert out == ""
    assert "30 frames in a row" in err
    assert not (tmp_path / "out.npz").exists()


def test_an_unexpected_error_names_a_place_and_no_value(made, tmp_path, capsys, monkeypatch):
    def broken(*_args, **_kwargs):
        raise ValueError("array([171, 171])")

    monkeypatch.setattr("edgeveil.edge_runtime.pipeline.batch.run", broken)
    code, _, err = run(capsys, made, f"npz:{tmp_path}/in.npz", f"npz:{tmp_path}/out.npz")
    assert code == 70
    assert "ValueError" in err
    assert "171" not in err
    assert "Traceback" not in err


def test_version_and_help(capsys):
    assert edge(capsys, "--version")[1] == f"edgeveil-edge {edge_runtime.__version__}\n"
    assert f'version = "{edge_runtime.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_every_command_has_an_example_that_is_understood(capsys):
    (commands,) = (action.choices for action in main._parser()._actions if action.dest == "command")
    assert len(commands) == 19
    for command in commands:
        code, text, _ = edge(capsys, command, "--help")
        assert code == 0
        example = text.split("example:\n  edgeveil-edge ")[1].splitlines()[0].split()
        assert main._parser().parse_args(example).command == command


def test_a_flag_of_an_earlier_version_is_refused_with_its_new_name(made, tmp_path, capsys):
    code, _, err = run(capsys, made, f"npz:{tmp_path}/in.npz", f"npz:{tmp_path}/out.npz", "--aim")
    assert code == 2
    assert "--aim is now called --camera-aid" in err


SLOW = """
import time
from edgeveil.edge_runtime.cli import main as cli
from edgeveil.edge_runtime.pipeline.perturber import Perturber
real = Perturber.perturb
def slow(self, frame):
    time.sleep(0.02)
    print(frame.index, flush=True)
    return real(self, frame)
Perturber.perturb = slow
raise SystemExit(cli.main())
"""


def test_ctrl_c_ends_with_130_and_keeps_every_frame(made, tmp_path):
    arguments = ["run", made.path, "--trust", made.trust, "--source", f"npz:{tmp_path}/in.npz", "--sink"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *map(str, arguments), f"npz:{tmp_path}/out.npz"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for _ in range(4):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    with np.load(tmp_path / "out.npz") as got:
        assert 4 <= len(got["index"]) < 50
        assert got["index"].tolist() == list(range(len(got["index"])))
    assert b"interrupted" in out


def test_the_process_that_runs_leaves_no_core_dump(made, tmp_path):
    code = """
import resource, sys
from edgeveil.edge_runtime.cli import main as cli; from edgeveil.edge_runtime.pipeline import batch as loop
def look(*args, **kwargs):
    import ctypes
    print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
    raise KeyboardInterrupt
loop.run = look
raise SystemExit(cli.main())
"""
    place = ["--source", f"npz:{tmp_path}/in.npz", "--sink", f"npz:{tmp_path}/out.npz"]
    command = [sys.executable, "-c", code, "run", str(made.path), "--trust", str(made.trust), *place]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stdout.strip() == "(0, 0) 0"


def test_a_reader_that_goes_away_is_no_traceback(made):
    command = [sys.executable, "-m", "edgeveil.edge_runtime", "verify", str(made.path), "--trust", str(made.trust)]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_progress_is_for_people_alone(made, tmp_path, capsys, monkeypatch):
    with run_command._progress(1000) as shown:
        shown(500, 500)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with run_command._progress(1000) as shown:
        shown(99, 99)
        shown(150, 149)
    assert capsys.readouterr().err == "\r150 of 1000 frames in, 149 out\n"


def test_the_output_of_an_earlier_run_is_kept_under_a_dated_name(made, tmp_path, capsys):
    words = ["run", made.path, "--trust", made.trust, "--source", f"npz:{tmp_path}/in.npz"]
    for suffix in ("npz", "csv"):
        out = tmp_path / f"out.{suffix}"
        out.write_text("of an earlier run")
        assert edge(capsys, *words, "--sink", f"{suffix}:{out}")[0] == 0
        (old,) = tmp_path.glob(f"out.*Z.{suffix}")
        assert old.read_text() == "of an earlier run"
        assert out.read_bytes()[:3] != b"of "


def test_what_a_run_lacks_is_named_as_it_is_given(made, capsys):
    code, _, said = edge(capsys, "run", made.path, "--source", "npz:in.npz")
    assert code == 2
    assert "expected --trust and --sink on the command line or in the configuration" in said
