"""The zipapp under the real Pythons that boards have, on a real signed bundle: verify, run, bench.

``scripts/environments/pythons.py`` builds the environments. A missing interpreter fails nothing; the skip says so.
"""

import io
import json
import os
import subprocess
import sys

import jsonschema
import numpy as np
import pytest

from edgeveil.devices.zipapp import build_zipapp
from tests.support import bundles, tiny_models
from tests.support.boards import edge_tpu
from tests.support.boards.pythons import COMMANDS, python_of, pythons
from tests.support.checkout import PACKAGES, ROOT
from tests.support.once import nightly_but
from tests.support.promised import local_examples

pytestmark = [pytest.mark.pythons, pytest.mark.programs]

# environment: the artefacts it can run and the backend that does; tiny_models.VARIANTS less these must be refused
TFLITE = ("tflite-int8", "tflite-float32")
ONNX = ("onnx-float32", "onnx-int8")
CAN = {
    "py36": (ONNX, "onnxruntime"),
    "py37": (TFLITE, "tflite-runtime"),
    "py39-tflite": (TFLITE, "tflite-runtime"),
    "py39-openvino": (ONNX, "openvino"),
    "py311-litert": (TFLITE, "ai-edge-litert"),
    "py311-tflite": (TFLITE, "tflite-runtime"),
    "py311-openvino": (TFLITE + ONNX, "openvino"),
}
NUMPY_ALONE = ("py38", "py310", "py312", "py313", "py314")
ALL, ENDS = (*CAN, *NUMPY_ALONE), ("py36", "py314")  # the oldest and the newest by day
EACH_INTERPRETER = ("py36", "py37", "py311-litert")  # but OpenVINO: test_openvino_options.py has a stand-in for it


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    return build_zipapp(tmp_path_factory.mktemp("app") / "edgeveil-edge.pyz")


def edge(python, app, *arguments, **environment):
    return subprocess.run(
        [str(python), "-I", str(app), *map(str, arguments)],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        cwd=app.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def edges(python, app, *commands):
    """Exit code, standard output and standard error of each of these commands."""
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [str(python), "-I", "-c", COMMANDS, str(app), words],
        cwd=app.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_environment_is_tried():
    assert set(CAN) | set(NUMPY_ALONE) == set(pythons.ROWS)


@pytest.mark.parametrize("name", nightly_but(ALL, *ENDS))
def test_importing_needs_numpy_alone(name, app):
    code = (
        f"import sys; sys.path.insert(0, {str(app)!r}); import numpy; before = set(sys.modules); "
        "import edgeveil.edge_runtime.api; "
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - before}), sys.version_info[:2])"
    )
    done = subprocess.run([str(python_of(name)), "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for module in ("onnxruntime", "tflite_runtime", "ai_edge_litert", "openvino", "argparse", "zipfile"):
        assert repr(module) not in done.stdout
    version = pythons.ROWS[name][0].replace(".", ", ")
    assert f"({version})" in done.stdout


# Imports each module that ships, warnings as errors; what an interpreter's own package is missing for is left out.
IMPORT_ALL = """
import importlib, pkgutil, sys, warnings
sys.path.insert(0, sys.argv[1])
import numpy
warnings.simplefilter("error")
count = 0
for root in ("edgeveil.edge_runtime", "edgeveil.devices.agents"):
    for module in pkgutil.walk_packages(importlib.import_module(root).__path__, root + "."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                if error.name is None or error.name.startswith("edgeveil"):
                    raise
            count += 1
print(count)
"""


@pytest.mark.parametrize("name", nightly_but(ALL, *ENDS))
def test_every_module_of_the_runtime_and_every_agent_can_be_imported(name):
    command = [str(python_of(name)), "-c", IMPORT_ALL, str(PACKAGES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shipped = [path for root in ("edge_runtime", "devices/agents") for path in (ROOT / root).rglob("*.py")]
    roots_and_main = 3
    assert int(done.stdout) == len(shipped) - roots_and_main


@pytest.mark.parametrize("name", nightly_but(ALL, *ENDS))
def test_a_bundle_without_models_runs_everywhere(name, app, tmp_path):
    python = python_of(name)
    made = bundles.make_bundle(tmp_path)
    x = np.random.default_rng(0).integers(0, 17, (30, 4)).astype(np.uint8)
    np.savez(tmp_path / "in.npz", x=x)
    done = edge(python, app, "verify", made.path, "--trust", made.trust)
    assert done.returncode == 0, done.stderr
    place = ("--source", f"npz:{tmp_path}/in.npz", "--sink", f"npz:{tmp_path}/out.npz")
    done = edge(python, app, "run", made.path, "--trust", made.trust, *place, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames_out"] == 30
    with np.load(tmp_path / "out.npz") as out:
        assert np.array_equal(out["label"], x.argmax(axis=1))


REPORTS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.pipeline.perturber import Perturber
found, x = {}, np.array([16, 0, 4, 12], np.uint8)
for op in sys.argv[4:]:
    place = "{}/{}/".format(sys.argv[2], op)
    with Perturber.open(place + "test.veil", trust=place + "trust") as perturber:
        sent = perturber.perturb_batch([RawFrame(x, i) for i in range(4000)])
    found[op] = np.stack([one.outputs["report"] for one in sent])
np.savez(sys.argv[3], **found)
"""


@pytest.fixture(scope="module")
def promised(tmp_path_factory):
    """A folder with a bundle of each mechanism, and what each releases here."""
    folder = tmp_path_factory.mktemp("promised")
    for op in local_examples.OPS:
        bundles.make_bundle(folder / op, example=local_examples.example(op))
    return folder, {op: _reports(op, 4000) for op in local_examples.OPS}


@pytest.mark.parametrize("name", nightly_but(ALL, *ENDS))
def test_a_promise_is_kept_everywhere(name, app, promised, tmp_path):
    """Its integers are checked and its golden report is that of this Python's; what it releases is as likely."""
    folder, released = promised
    command = [python_of(name), "-I", "-c", REPORTS, app, folder, tmp_path / "sent.npz", *local_examples.OPS]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there = np.load(tmp_path / "sent.npz")
    for op, here in released.items():
        sent = there[op].astype(float)
        z = (sent.mean(axis=0) - here.mean(axis=0)) / np.sqrt((sent.var(axis=0) + here.var(axis=0)) / 4000 + 1e-30)
        assert np.abs(z).max() < 6, op


def _reports(op, n):
    parts, tables = local_examples.document(op, 1.0, 4)
    x = np.tile(np.array([16, 0, 4, 12], np.uint8), (n, 1))
    return local_examples.pipeline(parts, tables).run(x)["report"].astype(float)


@pytest.mark.parametrize("name", nightly_but(ALL, *ENDS))
def test_a_real_bundle_is_verified_and_a_tampered_one_refused(name, app, tiny, tmp_path):
    python = python_of(name)
    data = bytearray(tiny.path.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.veil").write_bytes(bytes(data))
    good, bad = (["verify", path, "--trust", tiny.trust] for path in (tiny.path, tmp_path / "bad.veil"))
    done = edges(python, app, [*good, "--signature-only"], [*bad, "--signature-only"], *[good] * (name in NUMPY_ALONE))
    assert [code for code, _, _ in done] == [0, 2, 2][: len(done)], done
    assert "Traceback" not in done[1][2]
    assert name not in NUMPY_ALONE or "pip install" in done[2][2]


@pytest.mark.parametrize("name", nightly_but(CAN, *EACH_INTERPRETER))
def test_every_artefact_runs_where_it_can(name, app, tiny, tmp_path):
    """verify holds it against the golden outputs made with LiteRT and ONNX Runtime; run must agree on a frame."""
    python = python_of(name)
    variants, backend = CAN[name]
    x = np.random.default_rng(0).integers(0, 256, (10, *tiny_models.SHAPE)).astype(np.uint8)
    np.savez(tmp_path / "in.npz", x=x)
    commands = []
    for variant in tiny_models.VARIANTS:
        common = (tiny.path, "--trust", tiny.trust, "--artefact", variant, "--json")
        place = ("--source", f"npz:{tmp_path}/in.npz", "--sink", f"npz:{tmp_path}/{variant}.npz")
        commands += [("verify", *common), ("run", *common, *place)]
    done = edges(python, app, *commands)
    for variant, verified, ran in zip(tiny_models.VARIANTS, done[::2], done[1::2], strict=True):
        if variant not in variants:
            assert (verified[0], ran[0]) == (2, 2)
            assert "can run" in verified[2]
            assert not (tmp_path / f"{variant}.npz").exists()
            continue
        assert (verified[0], ran[0]) == (0, 0), (variant, verified, ran)
        limit = tiny.manifest["models"]["generator"]["artefacts"][variant]["tolerance"]["max_abs"]
        assert json.loads(verified[1])["self_test"]["max_abs"] <= limit
        document = json.loads(ran[1])
        jsonschema.validate(document, json.loads((ROOT / "docs/reference/schemas/run.schema.json").read_text()))
        assert document["backends"]["generator"]["backend"] == backend
        assert (document["frames_in"], document["frames_out"], document["dropped"]) == (10, 10, {})
        with np.load(tmp_path / f"{variant}.npz") as out:
            assert out["x"].shape == x.shape
            assert not (out["x"] == x).all(axis=(1, 2, 3)).any()


@pytest.mark.parametrize("name", nightly_but(CAN, "py36"))
def test_bench_runs_everywhere(name, app, tiny):
    python = python_of(name)
    floors = ("--min-count", 20, "--min-seconds", 0)
    done = edge(python, app, "bench", tiny.path, "--trust", tiny.trust, *floors, "--json")
    assert done.returncode == 3, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((ROOT / "docs/reference/schemas/bench.schema.json").read_text()))
    assert document["backend"] == CAN[name][1]
    assert [one["device"] for one in document["ran_on"]] == ["CPU"], document["ran_on"]
    assert "not measured" not in document["ran_on"][0]["kernels"].values()
    assert document["machine"]["python"].startswith(pythons.ROWS[name][0])


REFERENCE = """
import hashlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline
from edgeveil.edge_runtime.bundle.trust_store import open_trust
bundle = read_bundle(sys.argv[2], open_trust(sys.argv[3]))
golden = bundle.manifest.document["golden"]
load = lambda file: np.load(io.BytesIO(bundle.members[file]))
draws = {name: load(file) for name, file in golden["draws"].items()}
for variant in ("tflite-int8", "tflite-float32"):
    out = load_pipeline(bundle.manifest, bundle.members, variant, kernels="reference").run(load(golden["input"]), draws)
    print(variant, hashlib.sha256(out["frame"].tobytes()).hexdigest())
"""


OWN = """
import io, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from edgeveil.edge_runtime.backends import open_backend
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
bundle = read_bundle(sys.argv[2], open_trust(sys.argv[3]))
rng = np.random.RandomState(0)
for variant in sys.argv[4].split():
    entry = bundle.manifest.document["models"]["generator"]["artefacts"][variant]
    backend = open_backend(entry["format"], bundle.members[entry["file"]], entry)
    feeds = [
        [rng.random_sample(tensor.shape).astype(np.float32) for tensor in backend._inputs] for _ in range(2)
    ]
    encoded = [[tensor.encode(value) for tensor, value in zip(backend._inputs, one)] for one in feeds]
    first = backend.infer(encoded[0])
    kept = [value.copy() for value in first]
    second = backend.infer(encoded[1])
    assert any((a != b).any() for a, b in zip(kept, second)), variant
    assert all((a == b).all() for a, b in zip(kept, first)), variant
    print(variant)
"""


@pytest.mark.parametrize("name", nightly_but(CAN, *EACH_INTERPRETER))
def test_what_an_interpreter_returned_stays_as_it_is_when_it_runs_again(name, app, tiny):
    """Another thread sends a frame while the next one is made."""
    variants = " ".join(CAN[name][0])
    command = [python_of(name), "-c", OWN, app, tiny.path, tiny.trust, variants]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == variants.split(), done.stderr


@pytest.mark.parametrize(
    "names",
    [
        ("py37", "py311-litert"),
        pytest.param(("py37", "py39-tflite", "py311-tflite", "py311-litert"), marks=pytest.mark.nightly),
    ],
    ids=len,
)
def test_reference_kernels_give_the_same_bytes_on_litert_and_tflite_runtime(app, tiny, names):
    seen = {}
    for name in names:
        command = [str(python_of(name)), "-I", "-c", REFERENCE, str(app), str(tiny.path), str(tiny.trust)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        seen[name] = sorted(line for line in done.stdout.splitlines() if line.startswith("tflite-"))
    assert len(seen["py37"]) == 2
    assert all(lines == seen["py37"] for lines in seen.values()), seen


def _pictures():
    """``numpy_example`` for pictures of four pixels, which the simulated camera delivers."""
    manifest, members = bundles.numpy_example()
    manifest["input"].update(kind="image", shape=[4, 1, 1])
    manifest["outputs"][0]["shape"] = [4, 1, 1]
    manifest["tables"]["means"]["shape"] = [4, 4, 1, 1]
    for member in ("golden/input.npy", "golden/numpy.frame.npy", "tables/means.npy"):
        members[member] = bundles.npy(np.load(io.BytesIO(members[member])).reshape(-1, 4, 1, 1))
    return manifest, members


@pytest.mark.parametrize("name", nightly_but(ALL, *ENDS))
def test_a_live_source_runs_as_a_service_of_two_processes(name, app, tiny, tmp_path):
    python, made = python_of(name), tiny if name in CAN else bundles.make_bundle(tmp_path, example=_pictures())
    words = [made.path, "--trust", made.trust, "--sink", f"npz:{tmp_path}/out.npz"]
    words += ["--artefact", CAN[name][0][0]] if name in CAN else []
    more = ("--source", "simulate:depth?fps=200", "--fps", 50, "--frames", 60, "--health", "off", "--log", "json")
    done = edge(python, app, "run", *words, *more, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((ROOT / "docs/reference/schemas/run.schema.json").read_text()))
    assert document["frames_in"] == 60 == document["frames_out"] + sum(document["dropped"].values())
    ready = next(json.loads(line) for line in done.stderr.splitlines() if '"event": "ready"' in line)
    assert "filter" in ready["isolation"]
    with np.load(tmp_path / "out.npz") as out:
        assert out["index"].tolist() == list(range(len(out["index"])))


@pytest.mark.parametrize("name", nightly_but(("py36", "py37", "py38", "py314"), *ENDS))
def test_training_and_every_board_cut_the_same_patches(name):
    """Numpy 1.19 to 2: the same code gives the same bits, from 150 simulated frames to the patches of two people."""
    manifest = bundles.captured_example()[0]
    manifest["input"].update(shape=[180, 180, 1], high=255.0)
    text = json.dumps({key: manifest[key] for key in ("input", "capture")})
    environment = {"PYTHONPATH": str(PACKAGES), "OPENBLAS_NUM_THREADS": "1"}
    here, there = (
        subprocess.run(
            [str(python), str(ROOT / "tests/support/boards/edge_patches.py"), text],
            env=environment,
            capture_output=True,
            check=True,
        ).stdout
        for python in (sys.executable, python_of(name))
    )
    assert json.loads(here)["patches"] > 100
    assert json.loads(there) == json.loads(here)


# Two inputs on OpenVINO: their results, the first again after the second, and whether any memory is the other's.
TWO_FRAMES = """
import sys
sys.path.insert(0, sys.argv[1])
import json
import numpy as np
from edgeveil.edge_runtime.backends import open_backend
entry = json.loads(sys.argv[3])
opened = open_backend("onnx", open(sys.argv[2], "rb").read(), entry, backend="openvino")
shapes = {one["name"]: one["shape"] for one in entry["inputs"]}
pairs = [{name: np.full(shape, value, np.float32) for name, shape in shapes.items()} for value in (0.25, 0.75)]
results = [{name: np.asarray(value) for name, value in opened.run(one).items()} for one in pairs]
kept = {name: value.copy() for name, value in results[0].items()}
again = {name: np.asarray(value) for name, value in opened.run(pairs[0]).items()}
opened.run(pairs[1])
same = all((results[0][n] == kept[n]).all() and (again[n] == kept[n]).all() for n in kept)
apart = any((results[0][n] != results[1][n]).any() for n in kept)
untouched = all((value == 0.25).all() for value in pairs[0].values())
print(same, apart, untouched)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["py39-openvino", "py311-openvino"])
def test_a_result_of_openvino_does_not_change_with_the_next_frame(name, tiny, tmp_path):
    entry = tiny.manifest["models"]["generator"]["artefacts"]["onnx-int8"]
    path = tmp_path / "model.onnx"
    path.write_bytes(tiny.members[entry["file"]])
    words = [str(python_of(name)), "-c", TWO_FRAMES, str(PACKAGES), str(path), json.dumps(entry)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"] * 3, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["py39-openvino", "py311-openvino"])
def test_openvino_runs_what_was_asked_for_on_the_device_that_was(name, app, tiny):
    """HETERO is a device of its own, with the processor under it; MYRIAD is in no wheel."""
    python, words = python_of(name), ["verify", tiny.path, "--trust", tiny.trust, "--backend", "openvino"]
    asked = dict.fromkeys(("myriad", "myriad,cpu", "openvino:HETERO:MYRIAD,CPU"), "MYRIAD")
    if name == "py311-openvino":
        asked |= {"openvino:GPU": "GPU", "openvino:NPU": "NPU"}  # whose plugins load here, and find nothing
    both = ["--device", "openvino:HETERO:CPU", "--artefact", "onnx-float32", "--json"]
    refused = [[*words, "--device", device, "--artefact", "onnx-float32"] for device in asked]
    bench = ["bench", *words[1:], *both[:2], "--min-seconds", 0, "--json"]
    verified, benched, *others = edges(python, app, [*words, *both], bench, *refused)
    assert verified[0] == 0, verified
    assert json.loads(verified[1])["device"] == "openvino:HETERO:CPU"
    (ran_on,) = json.loads(benched[1])["ran_on"]
    assert ran_on["device"] == "CPU"
    for part, (code, out, said) in zip(asked.values(), others, strict=True):
        assert (code, out) == (4, "")
        assert f"device {part} was asked for, and OpenVINO" in said
        assert "--device cpu" in said.splitlines()[-1]


def test_the_jetsons_onnxruntime_refuses_a_gpu_that_it_was_built_without(app, tiny):
    words = ["verify", tiny.path, "--trust", tiny.trust, "--device"]
    for code, out, said in edges(python_of("py36"), app, [*words, "cuda"], [*words, "tensorrt,cpu"]):
        assert (code, out) == (4, "")
        assert "onnxruntime 1.10.0 was built without it" in said


@pytest.mark.parametrize("name", nightly_but(("py37", "py39-tflite", "py311-tflite"), "py37"))
def test_older_interpreters_hand_their_graph_to_the_edge_tpu_too(name, app, tiny, tmp_path):
    made, library = edge_tpu.bundle(tiny, tmp_path / "made"), edge_tpu.build(tmp_path)
    words = ["verify", made.path, "--trust", made.trust, "--device", "edgetpu", "--json"]
    done = edge(python_of(name), app, *words, LD_LIBRARY_PATH=library)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["artefact"] == edge_tpu.COMPILED
    done = edge(python_of(name), app, *words)
    assert done.returncode == 4
    assert "libedgetpu.so.1" in done.stderr


@pytest.mark.parametrize("name", nightly_but(("py36", "py37"), "py36"))
def test_names_may_have_any_letter_where_the_locale_is_c(name, app, tiny, tmp_path):
    folder = tmp_path / "Größe"
    folder.mkdir()
    np.savez(folder / "ein.npz", x=np.zeros((3, *tiny_models.SHAPE), np.uint8))
    given = {"bundle": str(tiny.path), "trust": str(tiny.trust), "source": f"npz:{folder}/ein.npz"}
    (folder / "müde.json").write_text(json.dumps({**given, "sink": [f"npz:{folder}/öffentlich.npz"]}))
    done = edge(python_of(name), app, "run", "--config", folder / "müde.json", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert (folder / "öffentlich.npz").is_file()
