"""Minimax: adversaries that learn, start anew, and are not asked which checkpoint to keep."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from edgeveil.models import adversaries
from edgeveil.models.classifiers import table1_wifi
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Joint, Part, Slices
from edgeveil.trainer.export.export import export
from edgeveil.trainer.perturbers import adversarial_score, minimax
from edgeveil.trainer.perturbers.minimax import Minimax
from edgeveil.trainer.perturbers.prgan import Generator
from edgeveil.trainer.runs.checkpoint_score import CheckpointScore
from edgeveil.trainer.train import train
from tests.support.small_runs import small_recipe, small_run

SECTION = {
    "kind": "minimax",
    "alpha": 5.0,
    "distance": 1.0,
    "noise": 4,
    "renew": 2,
    "judge_every": 2,
    "learning_rate": 5e-3,
    "generator": {"architecture": "mlp", "width": 16, "blocks": 1},
}


def dataset(n=256):
    """z is feature 1, y feature 0."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = rng.random((n, 4)).astype(np.float32)
    x[:, 0], x[:, 1] = y, z
    names, none = ("a", "b"), np.empty(0, np.int64)
    spec = InputSpec("vector", (4,), "float32", 0.0, 1.0)
    return Dataset("made", x, y, z, names, names, np.full((2, 2), 0.5), spec, Slices(none, np.arange(n), none))


def networks(**changes):
    generator = Generator(architecture="mlp", width=8, blocks=1)
    section = Minimax(**{**SECTION, "generator": generator, **changes})
    return minimax.build(dataset(), section, table1_wifi(4, 2), table1_wifi(4, 2), seed=0), section


def batch(data, n, noise=4):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(data.y), n)
    drawn = tf.constant(rng.random((n, noise), np.float32))
    return tf.constant(data.x[rows]), tf.constant(data.y[rows]), tf.constant(data.z[rows], tf.int32), drawn


def weights(model):
    return [v.numpy() for v in model.trainable_variables]


def changed(before, model):
    return any(not np.array_equal(a, b) for a, b in zip(before, weights(model), strict=True))


def test_three_architectures_for_images_and_for_vectors():
    for shape in ((8, 8, 1), (28, 28, 1), (48, 42, 1), (520,)):
        made = [make() for make in adversaries.adversaries(shape, 5)]
        assert len({tuple(type(layer).__name__ for layer in m.layers) for m in made}) >= 2
        assert len({m.count_params() for m in made}) == 3
        assert all(m(np.zeros((2, *shape), np.float32)).shape == (2, 5) for m in made)


def test_several_targets_are_a_sum_here_too():
    joint = Joint(("a", "b"), (("x", "y"), ("x", "y")), np.array([[0, 0], [1, 1]]))  # the same target twice
    nets, section = networks(learning_rate=1e-9)
    steps = [minimax.training_step(nets, dataset().theta, section, given) for given in (None, joint)]
    one, two = (float(step(*batch(dataset(), 192))["loss_target"]) for step in steps)
    assert two == pytest.approx(2 * one, rel=1e-4)


def test_adversaries_learn_from_what_is_made_and_start_anew():
    """With a generator that hardly moves they read z at last: were one sign wrong, or y masked away, they could not."""
    nets, section = networks(learning_rate=1e-6)
    everyone = [nets.generator, nets.discriminator, *(a.model for a in nets.adversaries)]
    before, target = [weights(m) for m in everyone], weights(nets.target)
    step = minimax.training_step(nets, dataset().theta, section)
    u, y, z, noise = batch(dataset(), 192)
    losses = step(u, y, z, noise)
    assert all(changed(b, m) for b, m in zip(before, everyone, strict=True))
    expected = (
        section.alpha * (losses["loss_target"] + losses["loss_sensitive"])
        + section.beta * losses["loss_hinge"]
        + section.gan * losses["loss_gan"]
    )
    assert float(losses["loss_generator"]) == pytest.approx(float(expected), rel=1e-5)
    for _ in range(60):
        step(u, y, z, noise)
    made = nets.generator([u, noise])

    def right(adversary):
        return (np.array(adversary.model(made, training=False)).argmax(axis=1) == z.numpy()).mean()

    assert min(right(adversary) for adversary in nets.adversaries) > 0.95
    assert not changed(target, nets.target)
    one = nets.adversaries[0]
    rate = float(one.optimizer.learning_rate)
    one.renew(7)
    assert right(one) < 0.9
    assert float(one.optimizer.learning_rate) == rate
    assert int(one.optimizer.iterations) == 0
    again = weights(one.model)
    one.renew(7)
    assert not changed(again, one.model)


def test_fresh_adversaries_find_what_is_left_and_no_more(monkeypatch):
    monkeypatch.setattr(
        adversarial_score, "FAMILIES", adversarial_score.FAMILIES[1:]
    )  # the forest: the other is tried with a whole run
    data = dataset(900)
    seen, held = data.rows(np.arange(600)), data.rows(np.arange(600, 900))
    assert adversarial_score.adversarial_accuracy(data, seen, seen.x, held, held.x) > 0.95

    def hidden(part: Part):
        return np.where(np.arange(4) == 1, 0.5, part.x).astype(np.float32)

    assert adversarial_score.adversarial_accuracy(data, seen, hidden(seen), held, hidden(held)) < 0.62


def test_a_checkpoint_that_fresh_adversaries_read_least_is_chosen():
    rule = {"floor": 0.9, "most_distance": 2.0}

    def ranked(target, distance, accuracy, cross_entropy=1.0):
        return adversarial_score.rank(CheckpointScore(target, 0.5, cross_entropy, 0.6, distance), accuracy, **rule)

    assert ranked(0.95, 1.0, 0.6, 3.0) < ranked(0.99, 0.5, 0.7)
    assert ranked(0.95, 1.0, 0.7) < ranked(0.95, 3.0, 0.5)  # a wreck
    assert ranked(0.95, 3.0, 0.9) < ranked(0.85, 1.0, 0.5)  # below the floor
    assert ranked(0.89, 1.0, 0.9) < ranked(0.85, 1.0, 0.5)


def test_y_that_d_y_misses_is_read_by_one_that_learns_on_what_is_sent():
    data = dataset(900)
    seen, held = data.rows(np.arange(600)), data.rows(np.arange(600, 900))
    missed, met = CheckpointScore(0.5, 0.5, 1.0, 0.6, 1.0), CheckpointScore(0.95, 0.5, 1.0, 0.6, 1.0)

    def asked(score, made):
        return adversarial_score.read_too(score, 0.9, data, seen, made, held, made(held.x))

    def hidden(x):
        return np.zeros_like(x)

    found = asked(missed, lambda x: -x)
    assert found.kept_accuracy == found.reader_accuracy > 0.9 > found.target_accuracy == 0.5
    assert asked(missed, hidden).kept_accuracy < 0.6
    assert asked(met, hidden) is met  # D_y reads it, so no other is trained
    rule = {"floor": 0.9, "most_distance": 2.0}
    assert found.rank(**rule)[0] == 0 < missed.rank(**rule)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adversarial_score, "SMALL", replace(adversarial_score.SMALL, epochs=2, trees=10))
        lent = small_run().folder
        recipe = small_recipe(lent.parent / "small.npz", epochs=3, perturber=SECTION)
        return train(recipe, tmp_path_factory.mktemp("minimax") / "run", classifiers=lent)


def test_it_trains_is_judged_in_turn_and_draws_noise(run):
    lines = run.metrics("perturber")
    assert [("validation_fresh_accuracy" in line) for line in lines] == [False, True, True]
    assert run.facts["chosen_epoch"] in (2, 3)
    fitted = run.perturber()
    assert [stage["stage"] for stage in fitted.stages] == ["preprocess", "draw", "artefact", "output"]
    x = run.dataset().x[:50]
    assert not np.array_equal(fitted.perturb(x)["frame"], fitted.perturb(x)["frame"])


@pytest.mark.nightly  # by day of PR-GAN: export/test_export.py
def test_it_draws_noise_on_the_board(run, tmp_path):
    exported = export(run.folder, ["coral-dev-board"], tmp_path / "export")
    assert "noise" in exported.manifest["golden"]["draws"]
