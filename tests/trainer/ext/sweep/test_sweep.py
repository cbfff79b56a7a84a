"""A sweep checks every key before it starts, keeps each point as it is done, and goes on from there."""

import json
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.image import imread as read_image

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.trainer.attacks import run_all
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.audit.audit import audit
from edgeveil.trainer.audit.findings import kept
from edgeveil.trainer.datasets.base import InputSpec, Part
from edgeveil.trainer.export.export import export
from edgeveil.trainer.ext.sweep import axes as engines
from edgeveil.trainer.ext.sweep import axes as sweep
from edgeveil.trainer.ext.sweep import point as measuring
from edgeveil.trainer.ext.sweep.axes import Axis, parse, points
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.report.frontier import as_text, draw
from edgeveil.trainer.runs.run import Run
from scripts.audit_rows import fields
from tests.support import once
from tests.support.small_runs import small_recipe, small_run, write_npz
from tests.support.trial import short_audit


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("perturber.price=0.5,1,2", "perturber.price", (0.5, 1, 2)),
        ("recipe.seed=0,1", "seed", (0, 1)),
        ("perturber.method=funnel,residual", "perturber.method", ("funnel", "residual")),
        ('perturber.keep=["pixels"],["pixels","moments"]', "perturber.keep", (["pixels"], ["pixels", "moments"])),
        ("data.source=wifi,wifi-strength", "data.source", ("wifi", "wifi-strength")),
    ],
)
def test_an_axis_is_a_key_and_values(text, key, values):
    assert parse(text) == Axis(key, values)


@pytest.mark.parametrize("text", ["perturber.price", "=1", "perturber.price=", "Perturber.Price=1", "seed=1,1"])
def test_what_is_no_axis_is_refused(text):
    with pytest.raises(BadInput, match="--axis"):
        parse(text)


def test_points_are_every_combination_that_a_recipe_knows():
    recipes = [Recipe.find("digits-codebook"), Recipe.find("digits-label-only")]
    found = points(recipes, [parse("perturber.price=1,8"), parse("seed=0,1")])
    assert [dict(point.settings) for point in found if point.recipe.name == "digits-codebook"] == [
        {"perturber.price": price, "seed": seed} for price in (1, 8) for seed in (0, 1)
    ]
    assert [dict(point.settings) for point in found if point.recipe.name == "digits-label-only"] == [
        {"seed": 0},
        {"seed": 1},
    ]
    assert found[0].recipe.perturber.price == 1.0
    assert len({point.name for point in found}) == 6


@pytest.mark.parametrize(
    ("axis", "why"),
    [
        ("perturber.prise=1", 'did you mean "perturber.price"'),
        ("perturber.price=-1", "perturber.price"),
        ("perturber.price=much", "perturber.price"),
        ("nothing.at.all=1", "no such key"),
    ],
)
def test_a_wrong_key_or_value_is_refused_before_anything_starts(axis, why, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "measured", lambda *a, **k: pytest.fail("it started"))
    with pytest.raises(BadInput, match=why):
        sweep.sweep([Recipe.find("digits-codebook")], [parse("seed=0"), parse(axis)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


FIGURES = {
    "leak": {"name": "code counts", "accuracy": 0.6, "low": 0.58, "high": 0.62, "auc": 0.53},
    "chance": {"prior": 0.6, "majority": 0.59},
    "target": {"accuracy": 0.97, "low": 0.96, "high": 0.98},
    "kept": {"ink": {"correlation": 0.8, "low": 0.78, "high": 0.82}},
    "bits_over_null": {"estimate": 0.005, "low": 0.001, "high": 0.009, "null": 0.004, "null_95": 0.006},
}


def worked(calls, *, crash=()):
    """An engine that gives made-up figures at once, and counts what it was asked for."""

    def measured(tasks, out, *, jobs, engine):
        for task in tasks:
            calls.append(task.name)
            died = any(text in task.name for text in crash)
            yield (
                task,
                {"crashed": "it ran out of memory"}
                if died
                else {**FIGURES, "kept": {} if task.floor else FIGURES["kept"]},
            )

    return measured


def test_points_that_are_done_are_not_done_again_and_label_only_stands_beside_them(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(engines, "measured", worked(calls, crash=["price=8"]))
    recipes, axes = [Recipe.find("digits-codebook")], [parse("perturber.price=1,8")]
    with pytest.raises(DeviceFailed, match=r"1 of 3 points .*memory.*same command"):
        sweep.sweep(recipes, axes, tmp_path, budget="quick")
    assert len(calls) == 3
    calls.clear()
    monkeypatch.setattr(engines, "measured", worked(calls))
    frontier = sweep.sweep(recipes, axes, tmp_path, budget="quick")
    assert [name for name in calls if "price=8" in name] == calls
    assert [row["recipe"] for row in frontier["points"]] == ["label-only", "digits-codebook", "digits-codebook"]
    assert frontier["compared"] == 2
    calls.clear()
    sweep.sweep(recipes, axes, tmp_path, budget="quick")
    assert calls == []
    sweep.sweep(recipes, [parse("perturber.price=1,2")], tmp_path, budget="quick")
    assert len(calls) == 1  # a further value, and the floor stays
    text = as_text(json.loads((tmp_path / "frontier.json").read_text()))
    assert "digits-codebook price=2" in text
    assert "60.0 [58.0, 62.0]" in text
    assert "0.80" in text


def test_a_point_that_failed_says_why_and_the_picture_is_the_same_bytes_each_time(tmp_path):
    row = {"recipe": "a", "floor": False, "settings": {}, "data": "digits", "seed": 0, **FIGURES}
    failed = {"recipe": "a", "floor": False, "settings": {"seed": 1}, "data": "digits", "failed": "it diverged."}
    frontier = {"attacks": "auto", "points": [{**row, "recipe": "label-only", "kept": {}}, row, failed]}
    assert "a seed=1" in as_text(frontier)
    assert "not run: it diverged." in as_text(frontier)
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
        assert [path.name for path in draw(frontier, folder)] == ["frontier.svg", "frontier.png"]
    assert (first / "frontier.svg").read_bytes() == (second / "frontier.svg").read_bytes()
    assert (first / "frontier.png").stat().st_size > 5000


def test_ray_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DeviceFailed, match=r"pip install 'edgeveil\[ray\]'"):
        sweep.sweep([Recipe.find("digits-codebook")], [], tmp_path, engine="ray")


@pytest.fixture
def recipe_file(tmp_path):
    data = write_npz(tmp_path)
    path = tmp_path / "small.toml"
    path.write_text(small_recipe(data, kind="label-only").toml())
    return path


@contextmanager
def here(*_, **__):
    """Runs jobs one after the other in this process."""
    yield lambda jobs: ((job, job.run()) for job in jobs)


@contextmanager
def broken_off(*_, **__):
    """The first of them, and no other."""

    def run(jobs):
        yield jobs[0], jobs[0].run()
        raise KeyboardInterrupt

    yield run


@pytest.mark.slow
def test_a_sweep_is_interrupted_and_gone_on_with(recipe_file, tmp_path, monkeypatch, edgeveil):
    words = ["sweep", recipe_file, "--axis", "seed=1", "--json", "--out", tmp_path / "out", "--attacks", "codes"]
    folder = tmp_path / "out" / "points"
    monkeypatch.setattr(engines, "processes", broken_off)
    assert edgeveil(*words)[0] == 130
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert len(before) == 1
    monkeypatch.setattr(engines, "processes", here)
    code, said, err = edgeveil(*words)
    assert code == 0, err
    assert "2 points, 1 of them done before; each is in " in err
    assert re.fullmatch(r"All figures are in \S+\. Open \S+frontier\.svg or \S+frontier\.png", err.splitlines()[-1])
    frontier = json.loads(said)
    assert len(frontier["points"]) == 2
    assert all(path.stat().st_mtime_ns == before.get(path.name, path.stat().st_mtime_ns) for path in folder.glob("*"))
    floor, mine = frontier["points"]
    assert floor["floor"]
    assert not mine["floor"]
    # Label-only is the floor: the recipe's own D_y says the same.
    assert mine["leak"]["accuracy"] == pytest.approx(floor["leak"]["accuracy"], abs=0.02)
    assert (tmp_path / "out" / "frontier.svg").is_file()


@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_a_sweep_in_other_processes(recipe_file, tmp_path, monkeypatch, engine):
    if engine == "ray":
        pytest.importorskip("ray")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(sweep.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    )
    frontier = sweep.sweep([Recipe.find(recipe_file)], [], tmp_path / "out", engine=engine, jobs=1, attacks="codes")
    assert [row["recipe"] for row in frontier["points"]] == ["label-only", "small-label-only"]
    assert all(row["target"]["accuracy"] > 0.9 for row in frontier["points"])


FEW = {"fixed D_z", "logistic regression", "code counts"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [FEW, pytest.param({*FEW, "transfer", "inversion", "mixed"}, marks=pytest.mark.nightly)], ids=len
)
def test_a_sweep_attacks_as_the_audit_does(names, tmp_path, monkeypatch):
    quick = [family for family in adversaries() if family.name in names]
    short_audit.shorten(monkeypatch, families=quick)  # of both
    monkeypatch.setattr(measuring, "adversaries", lambda: quick)
    monkeypatch.setattr(run_all, "NEARLY_ALL", 2.0)  # however much is read, none is left out
    trained = Run.open(once.copied(small_run().folder, tmp_path / "run"))
    export(trained.folder, ["jetson-nano"], tmp_path / "export")
    audited = audit(tmp_path / "export", run=trained.folder, artefact="keras")
    point = measuring.measure(
        *(trained.dataset(), trained.perturber(), trained.classifiers()),
        attacks="all",
        seed=trained.recipe.seed,
        pictures=tmp_path / "pictures",
    )
    assert "pictures" not in point  # these samples are vectors
    rows = fields(audited)
    assert point["attacked_by"] == [row["name"] for row in rows["adversaries"]]
    assert point["not_run"] == rows["not_run"]
    assert set(point["attacked_by"]) >= names - {"code counts"}  # two of them need the samples behind what left
    # Which of two attacks of nearly the same strength is worst may turn on rounding in what was trained.
    assert point["leak"]["accuracy"] == pytest.approx(rows["worst_adaptive"]["accuracy"], abs=0.05)
    reader = kept(audited)
    assert list(point["target"].values()) == [reader.value, *reader.interval]


def test_a_point_has_a_picture_of_what_it_sends_named_by_what_it_shows(tmp_path):
    spec = InputSpec("image", (4, 4, 1), "uint8", 0.0, 16.0)
    dataset = SimpleNamespace(unit=lambda x: x / 16.0, input=spec)
    frames = np.full((12, 4, 4, 1), 8, np.uint8)
    names = {measuring.drawn(dataset, frames, tmp_path / "pictures") for _ in range(2)}
    names.add(measuring.drawn(dataset, frames * 0, tmp_path / "pictures"))
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == sorted(names)
    assert len(names) == 2
    for name in names:
        assert read_image(tmp_path / "pictures" / name).shape == (4, measuring.SHOWN * 5, 4)  # a line apart


def test_bits_of_recordings_are_over_a_null_of_whole_recordings():
    recording = np.arange(400) // 20
    z = recording % 2  # nothing tells z, and each recording has a code of its own
    part = Part(np.zeros((400, 1)), np.zeros(400, np.int64), z, recording, np.arange(400))
    found = measuring.bits_over_null(part, recording, (1, 20, 2), np.random.default_rng(0))
    assert found["estimate"] == pytest.approx(0, abs=1e-9)
    alone = Part(part.x, part.y, z, None, part.index)
    assert measuring.bits_over_null(alone, recording, (1, 20, 2), np.random.default_rng(0))["estimate"] > 0.9
