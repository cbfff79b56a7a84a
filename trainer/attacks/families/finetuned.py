"""The fixed D_z, fine-tuned on perturbed samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgeveil.trainer.attacks import features
from edgeveil.trainer.attacks.families.networks import counting_stands_in, join_late, learn
from edgeveil.trainer.attacks.problem import Problem, Released
from edgeveil.trainer.attacks.protocol import Adaptive, Learned


class FineTuned(Adaptive):
    """Starts from the fixed classifier's weights; y and every further output join behind its logits."""

    name = "fine-tuned D_z"
    order = 14
    seeded = True
    needs_d_z = True

    def why_not(self, problem: Problem) -> str | None:
        """It needs a sensitive classifier to start from."""
        if problem.sensitive is None:
            return "the run has no sensitive classifier"
        return counting_stands_in(problem)

    def fit(self, problem: Problem, seed: int) -> Learned:
        """Train all of D_z's weights on ``fit``, stopped on ``stop``."""
        import keras

        problem = problem.capped(problem.budget.rows)
        keras.utils.set_random_seed(seed)
        model = _from(problem, problem.sensitive, features.side(problem, problem.fit).shape[1])
        # D_z gives log P(z|x) + constant: adding log P(z|y) - log P(z) starts it where Bayes' rule joins them.
        share = np.log(np.bincount(problem.fit.z, minlength=problem.z_classes) + 0.5)

        def look(part: Released) -> list[np.ndarray]:
            start = np.log(problem.base(part)) - (share - share.max())
            return [features.unit(problem, part), features.side(problem, part), start.astype(np.float32)]

        return learn(model, look, problem.fit, problem.stop, problem.budget, rate=7e-4)


def _from(problem: Problem, sensitive: Any, side_width: int) -> Any:
    import keras

    copy = keras.models.clone_model(sensitive)
    copy.set_weights(sensitive.get_weights())
    copy.trainable = True
    for layer in copy.layers:
        layer.trainable = True
    frame = keras.Input(problem.input.shape, name="frame")
    answers = copy(frame)
    return join_late(problem, frame, answers, side_width, answers)
