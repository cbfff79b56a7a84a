"""Membership inference on classifiers of MNIST's parity: few rows, the same by DP-SGD, and many rows.

Records docs/results/dp/membership.json. A tenth of the labels is wrong, so that there is something to remember. Models
are trained in blocks, of which each has every row in half of its models. Every model is a target once, and its shadows
are the next block, or all other blocks; so many targets cost no more than their own training. The attacks read logits
of a target's ONNX artefact for the first target, and of the network that it is made of for the others:
``artefact_off`` is the largest difference that the first one shows. On many rows next to nothing is found even without
privacy, so that a .50 alone is no merit of DP.
"""

from __future__ import annotations

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


def ratios(found: np.ndarray, inside: np.ndarray, blocks: int) -> np.ndarray:
    """LiRA's scores (targets * rows,) of confidences ``found`` (blocks, models, rows) of models that were trained on
    the rows ``inside``: shadows of a target are the next ``blocks`` after its own."""
    scores, rows = [], found.shape[2]
    for block, targets in enumerate(found):
        shadows = (block + 1 + np.arange(blocks)) % len(found)
        theirs = found[shadows].reshape(-1, rows), inside[shadows].reshape(-1, rows)
        scores += [likelihood_ratio(one, *theirs) for one in targets]
    return np.concatenate(scores)


def measured(setting: Setting, u: np.ndarray, y: np.ndarray, work: Path) -> dict[str, Any]:
    """AUC and true positives at 1 % false ones, of the attack by the loss and of LiRA, over all targets. What each
    model says of the rows is kept in the folder ``work``."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    pool, test = order[: 2 * setting.members], order[-TEST:]
    x, labels = u[pool], y[pool].copy()
    wrong = rng.random(len(pool)) < WRONG
    labels[wrong] = 1 - labels[wrong]
    inside = np.stack([halves(len(pool), setting.shadows, rng) for _ in range(setting.blocks)])

    def told(seed: int, rows: np.ndarray) -> dict[str, Any]:
        model, claim = trained(x[rows], labels[rows], setting, seed)
        logits, off = predict(model, x), None
        if not seed:
            ships = of_artefact(model, x)
            off, logits = np.abs(ships - logits).max(), ships
        right = (predict(model, u[test]).argmax(axis=1) == y[test]).mean()
        about = {"confidence": confidence(logits, labels).tolist(), "right": right, "off": off}
        return {**about, "claim": claim and claim.as_dict()}

    models = [
        record.kept(work / f"{seed}.json", lambda seed=seed, rows=rows: told(seed, rows))  # type: ignore[misc]
        for seed, rows in enumerate(inside.reshape(-1, len(pool)))
    ]
    found = np.array([one["confidence"] for one in models]).reshape(inside.shape)
    attacks: dict[str, Any] = {}
    tried = {"loss": found.reshape(-1), "LiRA": ratios(found, inside, 1)}
    if setting.blocks > 2:
        tried["LiRA, all other blocks"] = ratios(found, inside, setting.blocks - 1)
    for name, scores in tried.items():
        row = np.tile(np.arange(len(pool)), setting.targets)
        fold = np.repeat(np.arange(setting.targets), len(pool))
        scored = Scored(scores, inside.reshape(-1), fold, row, row)
        measures = {"auc": area, "tpr": recognised}
        attacks[name] = {key: scored.measured(one, rng)._asdict() for key, one in measures.items()}
    right = float(np.mean([one["right"] for one in models]))
    about = {**setting._asdict(), "targets": setting.targets, "accuracy": right, "attacks": attacks}
    return {**about, "artefact_off": models[0]["off"], "claim": models[0]["claim"]}


def main() -> None:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    kept = "models that are done, from which a run that was ended goes on (default: runs/membership)"
    script.add_argument("--work", type=Path, default=Path("runs/membership"), help=kept)
    asked = script.parse_args()
    readings = mnist.load(target="parity", sensitive="less-than-five")
    u = readings.x.astype(np.float32) / 255
    y = np.asarray(readings.y, np.int64)
    rows = [measured(setting, u, y, asked.work / str(number)) for number, setting in enumerate(SETTINGS)]
    document = {**record.here(), "seed": "the number of the model", "wrong_labels": WRONG, "rows": rows}
    record.write(asked.out, script.made_by(asked), document)


if __name__ == "__main__":
    record.run(main)
