"""Series on the command line: arrays of windows, and recordings that are cut."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold.given import Given, Steps
from edgeveil.trainer.scaffold.look import look, next_command
from edgeveil.trainer.scaffold.new import write_recipe

pytestmark = pytest.mark.usefixtures("few_trees")

STEPS = Steps(rate=20.0, channels="ax:g,ay:g", hop=8)
CUT = Steps(rate=20.0, channels="ax:g,ay:g", window=16, hop=8, time="t")


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 240))
    x = rng.normal(size=(240, 16, 2)).astype(np.float32) * (1 + y + 2 * z)[:, None, None]
    path = tmp_path_factory.mktemp("windows") / "walks.npz"
    np.savez(path, x=x, y=y, z=z, subject=np.arange(240) // 10)
    return path


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("recordings"), np.random.default_rng(1)
    for number in range(80):
        rows = [f"{n / 20:.2f},{rng.normal():.3f},{rng.normal():.3f},{'ab'[number % 2]}" for n in range(64)]
        text = "\n".join(f"{row},{'fm'[number // 2 % 2]},p{number // 4}" for row in rows)
        (folder / f"{number:02d}.csv").write_text(f"t,ax,ay,does,sex,who\n{text}\n")
    return folder


def test_arrays_of_windows(windows, tmp_path):
    given = Given(f"npz:{windows}", steps=STEPS)
    found = look(given)
    assert (found.rows, found.shape, found.wrong) == (240, (16, 2), [])
    assert "24 subjects, none of them in two slices" in found.text()
    assert "--series rate=20.0 --series channels=ax:g,ay:g --series hop=8 --out mine.toml" in next_command(given, found)
    write_recipe(given, tmp_path / "mine.toml")
    recipe = Recipe.find(tmp_path / "mine.toml")
    assert (recipe.data.series.channels, recipe.data.series.units) == (["ax", "ay"], ["g", "g"])
    assert (recipe.classifiers.architecture, recipe.perturber.hold) == ("series", "period:600s")
    assert datasets.load(recipe).input.series.rate_hz == 20.0


def test_recordings_are_cut(recordings, tmp_path):
    given = Given(f"csv:{recordings}", "does", "sex", "who", steps=CUT)
    assert look(given).rows == 80 * 7
    write_recipe(given, tmp_path / "mine.toml")
    recipe = Recipe.find(tmp_path / "mine.toml")
    assert recipe.data.columns.time == "t"
    assert (recipe.data.series.length, recipe.data.series.hop) == (16, 8)
    assert recipe.perturber.keep == ["energy", "tempo"]


@pytest.mark.parametrize("name", ["rate", "hop"])
def test_a_zero_is_refused_and_not_left_out(name, windows, tmp_path):
    with pytest.raises(BadInput, match=f"data.series.{name}.*greater than.* 0"):
        write_recipe(Given(f"npz:{windows}", steps=replace(STEPS, **{name: 0})), tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (Steps(), 'rate, channels, window, hop, time must be said .* has the columns "t", "ax",'),
        (Steps(rate=20.0, channels="ax", window=16, hop=8, time="t"), 'a name and a unit for each.*got "ax"'),
    ],
)
def test_what_is_missing_of_recordings_is_said(steps, said, recordings):
    with pytest.raises(BadInput, match=said):
        look(Given(f"csv:{recordings}", "does", "sex", "who", steps=steps))


def test_what_does_not_go_with_the_data_is_refused(windows, recordings):
    with pytest.raises(BadInput, match="channels must be said"):
        look(Given(f"npz:{windows}", steps=Steps(rate=20.0)))
    with pytest.raises(BadInput, match="--series window and time are of recordings"):
        look(Given(f"npz:{windows}", steps=CUT))
    with pytest.raises(BadInput, match=r"--series rate=20\.0 is of a series"):
        look(Given(f"csv:{recordings / '00.csv'}", "does", "sex", steps=STEPS))
    with pytest.raises(BadInput, match="--camera is for a camera's pictures"):
        look(Given(f"npz:{windows}", capture="16x16x1", steps=STEPS))


def test_numbers_that_look_like_pictures_may_be_a_series(windows, tmp_path):
    with np.load(windows) as arrays:
        few = {name: arrays[name] for name in ("y", "z")}
        np.savez(tmp_path / "narrow.npz", x=arrays["x"], **few)
        np.savez(tmp_path / "wide.npz", x=np.concatenate([arrays["x"]] * 3, axis=2), **few)
    with pytest.raises(BadInput, match="say that they are a series: --series rate"):
        look(Given(f"npz:{tmp_path / 'narrow.npz'}"))
    assert "of a series say --series rate=50 --series channels" in look(Given(f"npz:{tmp_path / 'wide.npz'}")).text()
