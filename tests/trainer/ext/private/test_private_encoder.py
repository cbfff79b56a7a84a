"""DP-SGD that is killed and goes on: every step that was begun counts, and no lot or noise comes twice."""

import contextlib

import keras
import numpy as np
import pytest

from edgeveil.trainer.ext.private import noise as dpsgd
from edgeveil.trainer.ext.private.noise import Secret, Shares
from edgeveil.trainer.ext.private.per_example import Claim
from edgeveil.trainer.recipe.private import Private
from edgeveil.trainer.runs.checkpoint_score import train_encoder
from edgeveil.trainer.runs.run import Checkpoint

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 1000)
U = (RNG.random((1000, 4)) / 2 + Y[:, None] / 2).astype(np.float32)
ROWS = list(np.arange(1000)[:, None])


class Log:
    """Checkpoints in a folder, as a run's."""

    def __init__(self, folder):
        self.folder = folder

    def checkpoint(self, name, **holders):
        return Checkpoint(self.folder / f"{name}.npz", **holders)


class Lots(Secret):
    """Secret noise that keeps how many lots were drawn, and fails in one of them as a killed process would."""

    def __init__(self, fails_in=None):
        super().__init__()
        self.drawn, self._fails_in = 0, fails_in

    def uniform(self, shape):
        if shape == (1000,):
            self.drawn += 1
            if self.drawn == self._fails_in:
                raise RuntimeError("killed")
        return super().uniform(shape)


def asked(**changes):
    """A budget of 40 steps, without the accountant: what is spent is not asked here."""
    claim = Claim(8.0, 1e-5, 0.1, 0.9, 40, rdp=8.0, pld=8.0, grid=1e-4, accountant="")
    settings = Private(
        **{"epsilon": 8.0, "delta": 1e-5, "lot": 100, "steps": 40, "learning_rate": 0.1, "average": False, **changes}
    )
    return Shares(settings, 1000, dpsgd.Plan(1000, 100, 40, 1.0, claim), claim)


def network():
    keras.utils.set_random_seed(0)
    vector = keras.Input((4,))
    return keras.Model(vector, keras.layers.Dense(2)(vector))


def trained(folder, noise=None, **changes):
    model = network()
    told = train_encoder(model, U, Y, ROWS, asked(**changes), noise=noise or Secret(), log=Log(folder))
    return model, told


def test_it_learns_in_the_steps_of_the_plan(tmp_path):
    noise = Lots()
    model, told = trained(tmp_path, noise)
    assert told == {"begun": 40, "kept": 40}
    assert noise.drawn == 40
    assert (np.asarray(model(U)).argmax(axis=1) == Y).mean() > 0.9


def test_what_was_begun_before_a_kill_is_spent(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        trained(tmp_path, Lots(fails_in=14))
    again = Lots()
    _, told = trained(tmp_path, again)
    assert again.drawn == 20  # of 40, 20 were written down as begun
    assert told == {"begun": 40, "kept": 30}


def test_a_run_killed_again_and_again_never_draws_more_lots_than_planned(tmp_path):
    drawn = 0
    for _ in range(5):
        noise = Lots(fails_in=3)
        with contextlib.suppress(RuntimeError):
            trained(tmp_path, noise)
        drawn += noise.drawn
    assert drawn <= 40
    _, told = trained(tmp_path, noise := Lots())
    assert noise.drawn == 0
    assert told == {"begun": 40, "kept": 0}


def test_a_finished_training_spends_nothing_more_and_gives_the_same_weights(tmp_path):
    model, _ = trained(tmp_path)
    again, _ = trained(tmp_path, noise := Lots())
    assert noise.drawn == 0
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_average_is_that_of_the_second_half(tmp_path, monkeypatch):
    seen = []
    plain = dpsgd.train

    def watched(model, *args, after, **settings):
        def noted(number):
            seen.append(model.get_weights())
            after(number)

        plain(model, *args, after=noted, **settings)

    monkeypatch.setattr(dpsgd, "train", watched)
    model, _ = trained(tmp_path, average=True)
    expected = [np.mean(part, axis=0) for part in zip(*seen[20:], strict=True)]
    for one, other in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
