"""Membership inference on classifiers of MNIST's parity: few rows, the same by DP-SGD, and many rows.

Records docs/results/dp/membership.json. A tenth of the labels is wrong, so that there is something to remember. Targets
and shadows are trained each on half of the rows; the attacks read the logits of the target's ONNX artefact. On many
rows next to nothing is found even without privacy, so that a .50 alone is no merit of DP.
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
    """``members`` rows train each model, out of twice as many."""

    name: str
    members: int
    batch: int
    epochs: int
    shadows: int
    private: bool = False


SETTINGS = (
    Setting("few rows", 500, 50, 30, 8),
    Setting("few rows, DP-SGD", 500, 100, 0, 2, private=True),
    Setting("many rows", 16_000, 200, 3, 2),
)
TARGETS = 1


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
    inside = np.concatenate([halves(len(pool), setting.shadows, rng), _targets(len(pool), rng)])
    found, right, claim = [], [], None
    for seed, rows in enumerate(inside):
        model, claim = trained(x[rows], labels[rows], setting, seed)
        # What ships is the target; shadows are the attacker's own.
        ask = predict if seed < setting.shadows else of_artefact
        found.append(confidence(ask(model, x), labels))
        right.append(float((predict(model, u[test]).argmax(axis=1) == y[test]).mean()))
    shadows, known = np.array(found[: setting.shadows]), inside[: setting.shadows]
    attacks: dict[str, Any] = {}
    for name in ("loss", "LiRA"):
        scores = [one if name == "loss" else likelihood_ratio(one, shadows, known) for one in found[setting.shadows :]]
        row = np.tile(np.arange(len(pool)), TARGETS)
        member = inside[setting.shadows :].reshape(-1)
        fold = np.repeat(np.arange(TARGETS), len(pool))
        scored = Scored(np.concatenate(scores), member, fold, row, row)
        measures = {"auc": area, "tpr": recognised}
        attacks[name] = {key: scored.measured(one, rng)._asdict() for key, one in measures.items()}
    about = {**setting._asdict(), "accuracy": float(np.mean(right[setting.shadows :])), "attacks": attacks}
    return {**about, "claim": claim and claim.as_dict(), "wall_s": round(time.monotonic() - began)}


def _targets(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Half of the rows for each."""
    return np.array([rng.permutation(rows) < rows // 2 for _ in range(TARGETS)])


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    asked = script.parse_args()
    readings = mnist.load(target="parity", sensitive="less-than-five")
    u = readings.x.astype(np.float32) / 255
    rows = [measured(setting, u, np.asarray(readings.y, np.int64)) for setting in SETTINGS]
    document = {**record.here(), "seed": "the number of the model", "wrong_labels": WRONG, "rows": rows}
    record.write(asked.out, script.made_by(asked), document)


if __name__ == "__main__":
    record.run(main)
