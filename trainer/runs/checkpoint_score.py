"""The score of a checkpoint: D_y and D_z on perturbed samples, the distance to MED, and that of x' to x."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.graphs.macs import keras_macs
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.progress import progress
from edgeveil.trainer.runs.run import Log


@dataclass(frozen=True)
class CheckpointScore:
    """Measured on validation rows: z against the classifier that the perturber was trained against (non-adaptive), y by
    D_y and by ``reader_accuracy``, the best other reader (a label that is sent, one that learned on x'; 0: none)."""

    target_accuracy: float  # Acc(D_y)
    sensitive_accuracy: float  # Acc(D_z), its logits masked to the z that θ allows
    med_cross_entropy: float  # mean CE(MED(z|y), D_z(x'|y)), in nats; its least value is med_entropy
    med_entropy: float
    distance: float  # mean Euclidean distance between u and u' in the unit cube
    reader_accuracy: float = 0.0
    sensitive_excess: float = 0.0  # |Acc(D_z) - that of the guess from y|, above two standard errors of the guess

    @property
    def kept_accuracy(self) -> float:
        """How often the best reader has y right."""
        return max(self.target_accuracy, self.reader_accuracy)

    def as_dict(self) -> dict[str, float]:
        """By name, as plain numbers."""
        return asdict(self)

    def rank(self, *, floor: float, most_distance: float) -> tuple[float, ...]:
        """Smaller is better, for ``min`` over checkpoints.

        Best are those whose best reader has y right at least as often as ``floor``; of them those within
        ``most_distance``, because a generator may destroy its input to deceive a confident D_z; of them those whose
        D_z has z right as often as the guess from y (one that is always wrong reveals as much as one that is always
        right); of them the one nearest to MED. The last alone is flat over late epochs, between which the accuracy of
        D_z moves by ten points on MNIST. Where none meets the floor, the best read y is best.
        """
        if self.kept_accuracy < floor:
            return (1.0, -self.kept_accuracy)
        return (0.0, float(self.distance > most_distance), self.sensitive_excess, self.med_cross_entropy)


def score_checkpoint(
    u: np.ndarray,
    perturbed: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    *,
    theta: np.ndarray,
    target: Any,
    sensitive: Any,
) -> CheckpointScore:
    """Score ``perturbed`` (n, ...) against ``u`` (n, ...), both in the unit cube, with labels y and z (n,).

    ``theta`` is MED(z|y) (classes of y, classes of z); ``target`` and ``sensitive`` are D_y and D_z, Keras models from
    the unit cube to logits.
    """
    p = theta[y]
    log_d = log_masked(predict(sensitive, perturbed), p)
    surprise = -np.where(p > 0, p * np.where(p > 0, log_d, 0.0), 0.0).sum(axis=1)
    entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(axis=1)
    right, guess = (float((one.argmax(axis=1) == z).mean()) for one in (log_d, p))
    return CheckpointScore(
        target_accuracy=float((predict(target, perturbed).argmax(axis=1) == y).mean()),
        sensitive_accuracy=right,
        med_cross_entropy=float(surprise.mean()),
        med_entropy=float(entropy.mean()),
        distance=float(np.linalg.norm((perturbed - u).reshape(len(u), -1), axis=1).mean()),
        sensitive_excess=max(0.0, abs(right - guess) - 2 * float(np.sqrt(guess * (1 - guess) / len(u)))),
    )


def log_masked(logits: np.ndarray, p: np.ndarray) -> np.ndarray:
    """log D_z(x'|y): logits (n, classes of z) masked to the z with p > 0 and renormalised; -inf elsewhere."""
    masked = np.where(p > 0, logits.astype(np.float64), -np.inf)
    masked -= masked.max(axis=1, keepdims=True)
    return masked - np.log(np.exp(masked).sum(axis=1, keepdims=True))


# Fixed classifiers in bfloat16, while a perturber is trained against them: half the time where they are large.
#
# Weights stay float32 and so do the losses; what is between has 8 bits of precision instead of 24. Checkpoints are
# judged, and everything is audited, by the networks themselves.


LEAST_MACS = 10_000_000  # below, the time goes into other things than multiplying
NATIVE = {"avx512_bf16", "amx_bf16"}  # processors without these only imitate it, and are slower


def in_bfloat16(model: Any, *, processor: Path = Path("/proc/cpuinfo")) -> Any:
    """A network with the same weights that computes in bfloat16, from and to float32; ``model`` itself where that is
    no gain: it is small, or this ``processor`` (what Linux says of it) cannot.
    """
    if not NATIVE & _flags(processor) or keras_macs(model).macs < LEAST_MACS:
        return model
    import keras

    same = keras.models.clone_model(model, clone_function=_layer, recursive=True)
    same.set_weights(model.get_weights())
    return keras.Model(same.input, keras.layers.Activation("linear", dtype="float32")(same.output))


def _layer(layer: Any) -> Any:
    import keras

    config = layer.get_config()
    if isinstance(layer, keras.Layer) and not isinstance(layer, keras.layers.InputLayer):  # ``a + b`` has no type
        config["dtype"] = "mixed_bfloat16"
    return type(layer).from_config(config)


def _flags(processor: Path) -> set[str]:
    try:
        lines = processor.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}


# Straight-through rounding: in training the losses see samples rounded, as sent, and the gradient passes unchanged.
#
# Samples of few levels (WiFi: an access point is seen or not) need it: a network's output for 0.3 does not predict that
# for 0. The network that ships has no rounding; the board's output stage rounds (``preprocess.to_raw``).


def identity(v: Any) -> Any:
    """v unchanged: for samples of so many levels that rounding does not matter."""
    return v


def straight_through(spec: InputSpec) -> Callable[[Any], Any]:
    """A function of v (n, *shape) in the unit cube: rounded to the steps of ``spec``'s integers, with gradient 1.

    Raises ``BadInput`` where the samples are not whole numbers.
    """
    if np.dtype(spec.dtype).kind not in "iu":
        raise BadInput(
            f"`perturber.straight_through` is for samples of whole numbers; these are {spec.dtype}. Leave it out."
        )
    import tensorflow as tf

    span = tf.constant(spec.span, tf.float32)

    def sent(v: Any) -> Any:
        return v + tf.stop_gradient(tf.round(v * span) / span - v)

    return sent


# The epochs of a perturber's training: resume, stop on divergence, keep the best checkpoint.


EXPLODED = 1e3  # times the loss of the first epoch, or this where that was below 1: no training recovers from there


@dataclass(frozen=True)
class Judged:
    """The measures of a checkpoint, its rank (smaller is better; None: not ranked), and the figures for progress."""

    measured: Mapping[str, float]
    rank: Sequence[float] | None
    shown: Mapping[str, float]


def run_epochs(
    log: Log,
    *,
    epochs: int,
    trained: Mapping[str, Any],
    ships: Mapping[str, Any],
    epoch: Callable[[int], dict[str, float]],
    judged: Callable[[int], Judged],
    stage: str = "perturber",
    of: str = "",
) -> int:
    """Run ``epoch`` (number to mean losses, ``loss_generator`` among them) and ``judged`` up to number ``epochs``.

    ``trained`` is all that a resumed training needs (networks, optimisers); ``ships`` is restored at the end to the
    epoch of the best rank, whose number is returned. Resumes from the last checkpoint; those of another ``stage`` than
    the perturber's have its name and ``of``. Raises ``LimitNotMet`` where training diverges: a measure
    is not a number, or the generator's loss is a thousand times that of the first epoch; the checkpoint before is kept.
    """
    first = stage == "perturber"
    name = "" if first else f"{stage}-{of}"
    last, best = log.checkpoint(f"{name}last", **trained), log.checkpoint(f"{name}best", **ships)
    facts: dict[str, Any] = {"epoch": 0, "best_epoch": 0, "rank": None, "first_loss": None, **(last.restore() or {})}
    with whole_steps() as check, progress(stage, total=epochs, done=facts["epoch"]) as advance:
        for number in range(facts["epoch"] + 1, epochs + 1):
            losses = epoch(number)
            judgement = judged(number)
            measured = losses | {f"validation_{name}": value for name, value in judgement.measured.items()}
            if facts["first_loss"] is None:
                facts["first_loss"] = losses["loss_generator"]
            check_converging(number, measured, losses["loss_generator"], facts["first_loss"])
            log.metric(stage=stage, step=number, **measured)
            rank = None if judgement.rank is None else list(judgement.rank)
            if rank is not None and (facts["rank"] is None or rank < facts["rank"]):
                facts |= {"best_epoch": number, "rank": rank}
                best.save(**judgement.measured)
            facts["epoch"] = number
            last.save(**facts)
            advance(**judgement.shown)
            check()
    best.restore()
    if first:
        log.record(chosen_epoch=facts["best_epoch"])
    return int(facts["best_epoch"])


def check_converging(number: int, measured: Mapping[str, float], loss: float, first: float) -> None:
    """Raise ``LimitNotMet`` if training has diverged in epoch ``number``."""
    if not np.isfinite(list(measured.values())).all():
        what = "a loss is no longer a number"
    elif abs(loss) > EXPLODED * max(1.0, abs(first)):
        what = f"the generator's loss went from {first:.3g} to {loss:.3g}"
    else:
        return
    note = f"The checkpoint of epoch {number - 1} is kept. " if number > 1 else ""
    raise LimitNotMet(
        f"Training diverged in epoch {number}: {what}. {note}Lower `perturber.learning_rate` or `perturber.alpha` and "
        "train into another folder."
    )
