"""A profile is a file of facts: those that ship are whole, and what is wrong in one's own is named."""

import pytest
import tomllib

from edgeveil.devices import profiles
from edgeveil.devices.flashing.placement import within
from edgeveil.devices.flashing.readiness import findings
from edgeveil.devices.flashing.records import Facts
from edgeveil.edge_runtime.errors import BadInput
from tests.support.checkout import ROOT

OWN = """
name = "my-board"
title = "My board"
architecture = "armv7l"
system = "Debian 12"
python = "3.11"
artefacts = ["tflite-int8"]
checked = []
unchecked = ["the real board"]

[[backends]]
name = "tflite-runtime"
versions = ">=2.5,<2.12"
artefacts = ["tflite-int8"]

[tflite]
min_runtime_version = "2.7"
ops = { CONV_2D = 5 }
"""


def parse(text):
    return profiles.parse(tomllib.loads(text), source="my-board.toml")


PIS = ["raspberry-pi-cpu", "raspberry-pi5"]
HAILOS = ["raspberry-pi5-hailo8", "raspberry-pi5-hailo8l", "raspberry-pi5-hailo10h"]


def test_the_boards_that_ship():
    assert profiles.names() == [
        "coral-dev-board",
        "coral-usb",
        "intel-core-ultra",
        "intel-n100",
        "jetson-nano",
        "jetson-orin-nano",
        "raspberry-pi-cpu",
        "raspberry-pi-cpu-32",
        "raspberry-pi3-ncs2",
        "raspberry-pi5",
        "raspberry-pi5-hailo10h",
        "raspberry-pi5-hailo8",
        "raspberry-pi5-hailo8l",
        "rockchip-rk3588",
        "workstation",
    ]


@pytest.mark.parametrize("name", profiles.names())
def test_every_shipped_profile_is_sound(name):
    profile = profiles.load(name)
    assert profile.name == name
    for artefact in profile.artefacts:
        limits = profile.limits(artefact)
        assert limits is None or type(limits).__name__.lower().startswith(artefact.split("-")[0])
    # Only the machine that runs these tests was ever the real thing.
    assert any("real board" in fact for fact in profile.unchecked) or name == "workstation"
    assert profile.service.user != profile.service.inside_user
    assert profile.camera.sources
    assert {"clock_khz", "temperature_millic"} <= set(profile.sensors)
    assert profile.memory_mib or profile.architecture == "x86_64", "what the smallest such board has"
    # What the recipe installs is what the planner then takes, or numpy.
    for install in profile.install:
        for package, version in (one.split("==") for one in install.packages):
            backends = [b for b in profile.backends if b.name == package]
            assert package == "numpy" or any(within(version, b.versions) for b in backends)
        brings = any(one.startswith(("numpy", "python3-numpy")) for one in (*install.packages, *install.system))
        assert brings or install.unavailable
    text = profile.text()
    assert profile.title in text
    assert all(fact in text for fact in profile.unchecked)


@pytest.mark.parametrize(
    ("system", "python", "names"),
    [
        ("Raspberry Pi OS 12", "3.11", PIS + HAILOS),
        ("Debian 13, Raspberry Pi OS 13", "3.13", [*PIS, *HAILOS, "intel-n100", "rockchip-rk3588", "workstation"]),
        ("Ubuntu 24.04", "3.12", [*PIS, "intel-n100", "intel-core-ultra", "rockchip-rk3588", "workstation"]),
        ("Ubuntu 26.04", "3.14", [*PIS, "intel-n100", "intel-core-ultra", "workstation"]),
        ("JetPack 7", "3.12", ["jetson-orin-nano"]),
    ],
)
def test_systems_that_are_sold_now_have_a_recipe(system, python, names):
    for name in names:
        assert profiles.load(name).recipe(python).packages, (system, name)


def test_a_hailo_10h_has_hailort_5_its_own_driver_s_file_and_says_what_was_never_tried():
    board = profiles.load("raspberry-pi5-hailo10h")
    assert (board.accelerator_path, board.backends[0].device) == ("/dev/h1x-0", "hailo10h")
    assert [within(one, board.backends[0].versions) for one in ("4.23.0", "5.2.0")] == [False, True]
    assert "the real board and the Hailo" in board.unchecked


def test_a_system_that_no_interpreter_is_for_says_so_everywhere():
    pi = profiles.load("raspberry-pi-cpu-32")
    assert "Python 3.13: no interpreter has a wheel for 32-bit ARM" in pi.text()
    with pytest.raises(BadInput, match=r"nothing to collect for raspberry-pi-cpu-32 with Python 3\.13: no interpreter"):
        pi.recipe("3.13")
    facts = Facts("armv7l", "3.13.5", 10**10, False, True, True, interpreters={"numpy": "2.2.4"})
    (found,) = [one for one in findings(facts, pi) if one.what == "interpreter"]
    assert "write its 64-bit system, or Raspberry Pi OS 12" in found.cure


def test_the_boards_limits_are_those_of_their_runtimes():
    coral, jetson = profiles.load("coral-dev-board"), profiles.load("jetson-nano")
    assert coral.tflite.min_runtime_version == "2.5"
    assert not {"TILE", "LEAKY_RELU", "GELU", "HARD_SWISH", "DEPTH_TO_SPACE", "DEQUANTIZE"} & set(coral.tflite.ops)
    assert (jetson.onnx.opset, jetson.onnx.ir) == (13, 7)
    assert "onnx-int8" not in jetson.artefacts


def test_what_an_artefact_runs_on_is_a_fact_of_the_backend():
    ncs2 = profiles.load("raspberry-pi3-ncs2")
    assert ncs2.accelerator("onnx-float32") == "Neural Compute Stick 2"
    assert ncs2.accelerator("tflite-int8") is None
    assert profiles.load("coral-dev-board").compiler == "edgetpu_compiler"


def test_facts_are_what_the_manifest_carries():
    assert profiles.load("coral-dev-board").facts() == {"artefacts": ["tflite-int8"], "backends": ["tflite-runtime"]}


def test_ones_own_board_is_a_new_file(tmp_path):
    path = tmp_path / "my-board.toml"
    path.write_text(OWN)
    profile = profiles.load(str(path))
    assert profile.name == "my-board"
    assert profile.tflite.ops == {"CONV_2D": 5}
    assert profile.limits("onnx-float32") is None


def test_the_page_on_boards_has_a_row_for_each_and_an_example_that_loads():
    page = (ROOT / "docs/reference/boards.md").read_text()
    for name in profiles.names():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        profile = profiles.load(name)
        assert profile.python in row
        assert all(f"`{artefact}`" in row for artefact in profile.artefacts)
        assert all(backend.name in row or backend.name == "openvino" for backend in profile.backends)
    example = page.split("```toml\n")[1].split("```")[0]
    board = profiles.parse(tomllib.loads(example), source="docs/reference/boards.md")
    assert board.tflite.ops["CONV_2D"] == 5
    assert board.accelerator("tflite-int8") == "NPU"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BadInput, match=r"there is no profile 'jetson'.*coral-dev-board, coral-usb, intel-core-ultra"):
        profiles.load("jetson")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "my-board"', 'name = "My Board"', "name must be small letters"),
        ('title = "My board"\n', "", "title is missing"),
        ('python = "3.11"', "python = 3.11", "python must be a version"),
        ('["tflite-int8"]\nchecked', '["tflite-int4"]\nchecked', r"artefacts\[0\] must be tflite-int8"),
        ('["tflite-int8"]\nchecked', "[]\nchecked", "artefacts must be a list of at least one"),
        ('["tflite-int8"]\nchecked', '["tflite-int8", "onnx-int8"]\nchecked', "no .*backends.* runs onnx-int8"),
        ('name = "tflite-runtime"', 'name = "tensorrt"', "name must be hailo-platform"),
        ('versions = ">=2.5,<2.12"', 'versions = "new"', "versions must be versions such as"),
        ("CONV_2D = 5", 'CONV_2D = "5"', r"ops.CONV_2D must be a valid integer"),
        ("CONV_2D = 5", "CONV_2D = 0", r"ops.CONV_2D must be greater than or equal to 1"),
        ("min_runtime_version", "min_runtime", "min_runtime is not a known key"),
        ('system = "Debian 12"', 'system = "Debian 12"\nkernel = "6.1"', "kernel is not a known key"),
        ("[tflite]", '[service]\nuser = "a b"\n[tflite]', "service.user must be the name of a user"),
        ("[tflite]", '[[install]]\npython = "3.11"\npackages = ["numpy>1"]\n[tflite]', "an exact version"),
        ("[tflite]", '[[install]]\npython = "3.9"\n[tflite]', "is for its own Python 3.11"),
        ('[tflite]\nmin_runtime_version = "2.7"', "[onnx]\nir = 7", "onnx.opset is missing"),
    ],
)
def test_what_is_wrong_is_named(old, new, says):
    assert old in OWN
    with pytest.raises(BadInput, match=says):
        parse(OWN.replace(old, new))


RECIPES = {
    "jetson-nano": ("onnxruntime==1.10.0", "numpy==1.19.4"),  # 1.19.5 ends there with SIGILL
    "coral-dev-board": ("python3-tflite-runtime", "python3-numpy"),  # PyPI's tflite-runtime has crashed there
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_board_gets_the_build_that_does_not_crash_there(name):
    install = profiles.load(name).recipe()
    assert install.packages + install.system == RECIPES[name]
