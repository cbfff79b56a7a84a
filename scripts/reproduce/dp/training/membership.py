"""Membership inference on classifiers of MNIST's parity: few rows, the same by DP-SGD, and many rows.

Records docs/results/dp/membership.json. A tenth of the labels is wrong, so that there is something to remember. Models
are trained in blocks, of which each has every row in half of its models. Every model is a target once, and its shadows
are the next block; so many targets cost no more than their own training. The attacks read logits of a target's ONNX
artefact for the first target, and of the network that it is made of for the others: ``artefact_off`` is the largest
difference that the first one shows. On many rows next to nothing is found even without privacy, so that a .50 alone is
no merit of DP.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.trainer.attacks.training_data.membership_inference import confidence, halves, likelihood_ratio
from edgeveil.trainer.audit.probes.areas import Scored, area, recognised
from edgeveil.trainer.datasets.loaders import mnist
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.private import dpsgd
from edgeveil.trainer.private.noise import Seeded
from scripts.reproduce import record

RESULT = Path("docs/results/dp/membership.json")
WRONG, TEST, BATCH = 0.1, 5_000, 100  # the last of the artefact
EPSILON, DELTA, CLIP, STEPS = 8.0, 1e-5, 1.0, 200
RATE = 1e-3  # of Adam
WIDTH = 16


class Setting(NamedTuple):
    """``members`` rows train each model, out of twice as many; ``blocks`` of ``shadows`` models each."""

    name: str
    members: int
    batch: int
    epochs: int
    shadows: int
    blocks: int
    private: bool = False

    @property
    def targets(self) -> int:
        """How many models are attacked: all."""
        return self.shadows * self.blocks


SETTINGS = (
    Setting("few rows", 500, 50, 30, 8, 4),
    Setting("few rows, DP-SGD", 500, 100, 0, 8, 2, private=True),
    Setting("many rows", 16_000, 200, 3, 2, 2),
)


def trained(x: np.ndarray, y: np.ndarray, setting: Setting, seed: int) -> tuple[Any, Any]:
    """A classifier, and the claim of its training where that is private."""
    import keras

    from edgeveil.models import classifiers

    keras.utils.set_random_seed(seed)
    model = classifiers.small(x.shape[1:], 2, width=WIDTH)
    optimizer = keras.optimizers.Adam(RATE)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    if not setting.private:
        model.compile(
            optimizer,
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
            steps_per_execution=5,
        )
        model.fit(x, y, batch_size=setting.batch, epochs=setting.epochs, verbose=0)
        return model, None
    made = dpsgd.plan(len(y), epsilon=EPSILON, delta=DELTA, lot=setting.batch, steps=STEPS, clip=CLIP)
    alone = [np.array([row]) for row in range(len(y))]
    noise = Seeded(seed)
    dpsgd.train(model, x, y, lambda out, label: loss(label, out), made, rows=alone, optimizer=optimizer, noise=noise)
    return model, made.claim


def of_artefact(model: Any, x: np.ndarray) -> np.ndarray:
    """Logits of the model's ONNX artefact (n, 2), as onnxruntime runs it."""
    import onnxruntime

    from edgeveil.trainer.export.convert.to_onnx import convert

    session = onnxruntime.InferenceSession(convert(model, ["float32"], batch=BATCH)["float32"])
    name = session.get_inputs()[0].name
    parts = (session.run(None, {name: x[at : at + BATCH]})[0] for at in range(0, len(x), BATCH))
    return np.concatenate(list(parts))


def measured(setting: Setting, u: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """AUC and true positives at 1 % false ones, of the attack by the loss and of LiRA, over all targets."""
    began, rng = time.monotonic(), np.random.default_rng(0)
    order = rng.permutation(len(y))
    pool, test = order[: 2 * setting.members], order[-TEST:]
    x, labels = u[pool], y[pool].copy()
    wrong = rng.random(len(pool)) < WRONG
    labels[wrong] = 1 - labels[wrong]
    inside = np.stack([halves(len(pool), setting.shadows, rng) for _ in range(setting.blocks)])
    found, right, claim, off = np.empty(inside.shape), [], None, 0.0
    for seed, (block, one) in enumerate(np.ndindex(*inside.shape[:2])):
        rows = inside[block, one]
        model, claim = trained(x[rows], labels[rows], setting, seed)
        logits = predict(model, x)
        if not seed:
            ships = of_artefact(model, x)
            off, logits = float(np.abs(ships - logits).max()), ships
        found[block, one] = confidence(logits, labels)
        right.append(float((predict(model, u[test]).argmax(axis=1) == y[test]).mean()))
    attacks: dict[str, Any] = {}
    ratios = [
        likelihood_ratio(one, found[other], inside[other])
        for block, other in enumerate(np.roll(np.arange(setting.blocks), -1))
        for one in found[block]
    ]
    for name, scores in (("loss", found.reshape(-1)), ("LiRA", np.concatenate(ratios))):
        row = np.tile(np.arange(len(pool)), setting.targets)
        fold = np.repeat(np.arange(setting.targets), len(pool))
        scored = Scored(scores, inside.reshape(-1), fold, row, row)
        measures = {"auc": area, "tpr": recognised}
        attacks[name] = {key: scored.measured(one, rng)._asdict() for key, one in measures.items()}
    about = {**setting._asdict(), "targets": setting.targets, "accuracy": float(np.mean(right)), "attacks": attacks}
    wall = round(time.monotonic() - began)
    return {**about, "artefact_off": off, "claim": claim and claim.as_dict(), "wall_s": wall}


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    kept = "settings that are done, from which a run that was ended goes on (default: runs/membership)"
    script.add_argument("--work", type=Path, default=Path("runs/membership"), help=kept)
    asked = script.parse_args()
    readings = mnist.load(target="parity", sensitive="less-than-five")
    u = readings.x.astype(np.float32) / 255
    y = np.asarray(readings.y, np.int64)
    rows = [
        record.kept(asked.work / f"{number}.json", lambda one=setting: measured(one, u, y))  # type: ignore[misc]
        for number, setting in enumerate(SETTINGS)
    ]
    document = {**record.here(), "seed": "the number of the model", "wrong_labels": WRONG, "rows": rows}
    record.write(asked.out, script.made_by(asked), document)


if __name__ == "__main__":
    record.run(main)
