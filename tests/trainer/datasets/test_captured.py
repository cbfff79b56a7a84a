"""Training data through the device's own capture: the same patches, their labels, and a recipe's section about it."""

from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.manifest.schema import check_manifest
from edgeveil.edge_runtime.pipeline.crops import Capture as Runner
from edgeveil.edge_runtime.util.simulated_scene import Scene
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.loaders import overhead
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Capture

OVERHEAD = Recipe.find("overhead-prgan")
FRAMES = Path(__file__).with_name("frames.toml").read_text()


def recording(folder, sessions=24, frames=30):
    """Frames of a small overhead camera: who walks is z, which way is y, a session for each crossing."""
    scene, x, y, z, session = Scene(seed=2, people=1, shape=(106, 128), cast=2), [], [], [], []
    tick = crossing = 0
    before = False
    while crossing < sessions:
        tick += 1
        there = scene.anybody(tick / 10)
        crossing += there and not before
        before = there
        if there and crossing <= sessions:
            if not session or session[-1] != crossing:
                x.append(np.full((106, 128), 3340, np.uint16))  # nobody in it: no reading comes of it
            frame = scene.frame(tick / 10)
            x += [frame]
            about = scene.walkers[0]
            count = len(x) - len(y)
            y += [int(about.inward)] * count
            z += [about.who] * count
            session += [crossing] * count
    np.savez(folder / "frames.npz", x=np.stack(x), y=y, z=z, session=session)
    return np.stack(x), np.array(y), np.array(session)


def test_frames_of_ones_own_become_the_patches_that_a_device_would_cut(tmp_path):
    x, y, session = recording(tmp_path)
    recipe = Recipe.parse(FRAMES, folder=tmp_path)
    data = datasets.load(recipe)
    assert data.x.shape[1:] == (45, 45, 1)
    assert (data.input.dtype, data.input.low, data.input.high) == ("uint8", 0.0, 255.0)
    assert 24 * 5 < len(data.x) < len(x) - 24
    runner = Runner(parse(recipe.capture.document()))
    first = [found for n in np.flatnonzero(session == 1) for found in runner.frames(RawFrame(x[n], 0))]
    assert np.array_equal(data.x[: len(first)], np.stack([patch._data for _, patch in first]))
    assert data.y[0] == y[0]


def test_frames_that_are_not_the_recipes_are_refused_in_a_sentence(tmp_path):
    recording(tmp_path, sessions=2)
    with pytest.raises(BadInput, match=r"frames are uint16 \(106, 128, 1\), not uint16 \(424, 512\)"):
        datasets.load(Recipe.parse(FRAMES.replace("[106, 128]", "[424, 512]"), folder=tmp_path))
    with pytest.raises(BadInput, match="finds no person"):
        datasets.load(Recipe.parse(FRAMES.replace("least_pixels = 40", "least_pixels = 9000"), folder=tmp_path))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("[106, 128]", "[40, 128]"), "at most the frame's"),
        (("unit_mm = 1.0", ""), "unit_mm"),
        (('"height"', '"value"'), "people are found in depth"),
        (("size = [45, 45]\n[capture.frame]", 'resize = "area"\n[capture.frame]'), "nearest"),
    ],
)
def test_a_section_that_no_device_would_run_is_refused_with_the_recipe(change, match):
    with pytest.raises(BadInput, match=rf"`capture`: expected a section that a device can run \(.*{match}"):
        Recipe.parse(FRAMES.replace(*change))


def test_the_simulated_people_are_simulated_and_their_crossings_whole():
    readings = overhead.load(target="direction", sensitive="build", capture=OVERHEAD.capture, crossings=8)
    assert "SIMULATED" in OVERHEAD.description
    assert "SIMULATED" in overhead.__doc__
    assert readings.x.shape[1:] == (180, 180, 1)
    assert len(np.unique(readings.session)) == 8
    for one in np.unique(readings.session):
        here = readings.session == one
        assert len(np.unique(readings.y[here])) == len(np.unique(readings.z[here])) == 1
    with pytest.raises(BadInput, match=r"\[capture\.crop\]"):
        overhead.load(target="direction", sensitive="build", capture=None)


def test_its_generator_has_the_size_of_the_papers():
    """Table 3: 96.4 million operations (which are multiply-adds) and 420.3 thousand parameters for OccuTherm."""
    from edgeveil.models.generators import conv_generator
    from edgeveil.trainer.graphs.macs import keras_macs

    about = OVERHEAD.perturber.generator
    cost = keras_macs(conv_generator((180, 180, 1), width=about.width, halvings=about.halvings, blocks=about.blocks))
    assert abs(cost.macs / 96.4e6 - 1) < 0.01
    assert abs(cost.parameters / 420.3e3 - 1) < 0.03


def test_what_a_recipe_says_of_capture_is_what_a_manifest_takes():
    from tests.support import bundles

    manifest, _ = bundles.artefact_example(audited=False)
    manifest["capture"] = OVERHEAD.capture.manifest()
    check_manifest(manifest, sealed=False)
    scan = Capture.model_validate(
        {
            "frame": {"shape": [4], "dtype": "int8"},
            "measure": "seen",
            "low": -104.0,
            "high": 0.0,
            "dtype": "uint8",
            "access_points": [f"00:11:22:33:44:{n:02x}" for n in range(4)],
        }
    )
    manifest, _ = bundles.numpy_example()
    manifest["capture"] = scan.manifest()
    check_manifest(manifest, sealed=False)
