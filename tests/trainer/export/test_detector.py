"""A person detector that somebody brings: linted for the boards, recorded, and counted with by the runtime."""

import io

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from pydantic import ValidationError

from edgeveil.devices import profiles
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.trainer.export import manifest as detector
from edgeveil.trainer.recipe.training_sections import Count, CountedBy
from tests.support.promised.detector_bundle import PICTURE, detector_example, network


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("detector") / "people.onnx"
    path.write_bytes(network())
    return path


def asked(place, **change):
    return CountedBy(**{"file": str(place), "low": 0.0, "high": 1.0, **change})


def test_the_section_is_one_that_the_runtime_takes(file):
    section, members = detector.detector_section(
        asked(file, point="centre", gone_frames=3), [profiles.load("workstation")]
    )
    manifest, _ = detector_example()
    same = {**manifest["detector"]["artefact"], "weight_bytes": 1040, "tolerance": {"max_abs": 0.05}}
    assert section["artefact"] == same
    check_manifest({**manifest, "detector": section}, sealed=False)
    pictures, scores = (np.load(io.BytesIO(members[name])) for name in section["golden"].values())
    assert pictures.shape == (2, *PICTURE)
    cells = pictures.mean(axis=3).reshape(2, 8, 8, 8, 8).mean(axis=(2, 4))
    assert scores == pytest.approx(cells.reshape(2, 64), abs=1e-5)


def noisy() -> bytes:
    """The network with a generator of its own, which no audit could speak of."""
    model = onnx.load_from_string(network())
    model.graph.node.append(helper.make_node("RandomUniform", [], ["luck"], shape=[1, 64]))
    model.graph.node.append(helper.make_node("Identity", ["luck"], ["dice"]))
    model.graph.output.append(helper.make_tensor_value_info("dice", TensorProto.FLOAT, [1, 64]))
    return bytes(model.SerializeToString())


def test_it_is_linted_as_any_model(tmp_path):
    (tmp_path / "noisy.onnx").write_bytes(noisy())
    with pytest.raises(BadInput, match=r"The detector may not be used: no-random"):
        detector.detector_section(asked(tmp_path / "noisy.onnx"), [profiles.load("workstation")])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": "none.onnx"}, "a network was expected at none.onnx"),
        ({"boxes": "dice"}, "the outputs dice, scores was expected"),
        ({"classes": "kinds", "person": 0}, "scores, kinds was expected"),
    ],
)
def test_what_it_lacks_is_said(file, change, words):
    with pytest.raises(BadInput, match=words):
        detector.detector_section(asked(file, **change), [])


def test_a_file_that_is_none_and_a_board_without_its_interpreter_are_refused(file, tmp_path):
    (tmp_path / "text.tflite").write_text("no network")
    with pytest.raises(BadInput, match=r"text.tflite is no tflite file"):
        detector.detector_section(asked(tmp_path / "text.tflite"), [])
    with pytest.raises(BadInput, match="coral-dev-board runs no onnx"):
        detector.detector_section(asked(file), [profiles.load("coral-dev-board")])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": "people.pt"}, "NAME.tflite or NAME.onnx"),
        ({"classes": "kinds"}, "both `classes` and `person`"),
        ({"low": "dark"}, "low"),
    ],
)
def test_a_section_of_a_recipe_is_checked(change, words):
    with pytest.raises(ValidationError, match=words):
        asked("people.onnx", **change)


def test_what_is_counted_stays_as_it_was(file):
    count = Count(period_s=60, lines=[{"name": "door", "start": [0, 1], "end": [9, 1]}], detector=asked(file))
    assert "detector" not in count.manifest()
