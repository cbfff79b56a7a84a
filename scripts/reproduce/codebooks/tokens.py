"""How much of the pixels one token, several, or numbers under Gaussian noise keep, for what they tell of z.

    EDGEVEIL_DATA=... python -m scripts.reproduce.codebooks.tokens mnist-codebook

* *Tokens*: residual vector quantisation. Each token is learned by the funnel on what the tokens before left of the
  pixels' principal components, at a price on what it tells of the priced class (the digit) by itself. One token is a
  codebook.
* *Joint*: the same with the price on all tokens together. A further token is learned within each class and code of
  those before, so that by the chain rule the prices of all tokens are that of their joint information.
* *Gaussian*: the residual r under noise of standard deviation sigma. r are principal components relative to what is
  usual for their digit, in expectation over the trunk's P(digit | x), each with variance 1: mean and variance of r are
  nearly the same for every digit.

*Kept* is the share of the pixels' variance within y that a linear receiver explains from what is sent. *Bits* is what a
network learns from what is sent and y, about the digit and about z: by how much its cross-entropy is below that of the
best guess from y, on rows that it did not learn on. That cross-entropy is an upper end of H(digit | sent), the residual
uncertainty of Residual-PAC, so bits are a lower end. The network learns on the slice ``attack`` and is judged on
validation rows of the training slices; the test slice has no part. *Capacity* is that of the Gaussian channel,
1/2 sum log2(1 + 1 / sigma^2): what it tells at most, about anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import Dataset, SliceName
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.perturbers.codebook import fit, funnel, residual, training
from edgeveil.trainer.perturbers.codebook.group_means import group_means
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.codebooks.choosing import fold

RECORD = Path("docs/results/privacy/tokens.json")
CODES = 32
JOINT_CODES = 8  # of each token: rows for each class, digit and code of the tokens before get few
TOKENS = 3
PRICES = (0.5, 2.0)
JOINT_PRICES = (2.0, 4.0)
COMPONENTS = (8, 16)
SIGMAS = (1.0, 2.0, 4.0)
# Where codes are learned, where the network learns, and where all is judged.
PARTS: tuple[SliceName, ...] = ("perturber", "attack", "test")
Sent = Mapping[SliceName, np.ndarray]  # numbers (n, d) for each row of a slice


class Bench:
    """Data of one fold with ``priced`` classes as z, a trunk trained on the first slice, and T of the pixels."""

    def __init__(self, recipe: Recipe) -> None:
        import keras

        data = datasets.load(recipe)
        self.data = replace(data, slices=replace(fold(data, 0).slices, attack=data.slices.attack))
        self.priced, self.y_classes = self.data.as_priced(), len(data.y_names)
        ways = {"keep": ["pixels"], "weights": None, "codes": CODES, "evenness": 0.02}
        self.section = recipe.perturber.model_copy(update=ways)
        keras.utils.set_random_seed(0)
        rng = np.random.default_rng(0)
        first = self.priced.part("classifiers")
        prepared = fit.prepare(self.priced, first, self.section, rng, recipe.budget)
        self.rows = {name: self.priced.part(name) for name in PARTS}
        u = {name: self.priced.unit(rows.x) for name, rows in self.rows.items()}
        self.pixels = {name: value.reshape(len(value), -1).astype(np.float64) for name, value in u.items()}
        self.t = {name: prepared.kept(u[name], self.rows[name].index).astype(np.float64) for name in PARTS}
        trunk = prepared.trunk
        self.features = {name: predict(trunk.below, u[name]) for name in PARTS}
        cells = keras.Model(trunk.below.inputs, keras.layers.Softmax()(trunk.cells(trunk.below.output)))
        self.posterior = {name: predict(cells, u[name]).astype(np.float64) for name in PARTS}

    def joint(self, price: float) -> list[Sent]:
        """What is sent with 1, 2, ... tokens that are priced together, as columns of 0 and 1 for all their codes."""
        section = self.section.model_copy(update={"price": price, "codes": JOINT_CODES})
        left, group, found = dict(self.t), {name: self.rows[name].y for name in PARTS}, []
        groups = self.y_classes
        for token in range(TOKENS):
            second, rng = self.rows["perturber"], np.random.default_rng(token)
            spread = np.sqrt((left["perturber"] ** 2).sum(axis=1).mean())
            rows = funnel.Rows(self.features["perturber"], left["perturber"] / spread, group["perturber"], second.z)
            classes = groups, len(self.priced.z_names)
            head = training.code_head(rows, section, classes=classes, rng=rng, report=lambda *_: None)
            for name in PARTS:
                logits = predict(head, self.features[name]).reshape(-1, groups, JOINT_CODES)
                within = logits[np.arange(len(logits)), group[name]].argmax(axis=1)
                group[name] = group[name] * JOINT_CODES + within
            groups *= JOINT_CODES
            centres = group_means(left["perturber"], group["perturber"], groups)
            left = {name: left[name] - centres[group[name]] for name in PARTS}
            found.append({name: np.eye(groups)[group[name]] for name in PARTS})
        return found

    def tokens(self, price: float) -> list[Sent]:
        """What is sent with 1, 2, ... tokens, as columns of 0 and 1 for each class and code."""
        classes = self.y_classes, len(self.priced.z_names)
        section = self.section.model_copy(update={"price": price})
        left, columns, found = dict(self.t), {name: [] for name in PARTS}, []
        for token in range(TOKENS):
            second, rng = self.rows["perturber"], np.random.default_rng(token)
            spread = np.sqrt((left["perturber"] ** 2).sum(axis=1).mean())
            rows = funnel.Rows(self.features["perturber"], left["perturber"] / spread, second.y, second.z)
            head = training.code_head(rows, section, classes=classes, rng=rng, report=lambda *_: None)
            code = {}
            for name in PARTS:
                logits = predict(head, self.features[name]).reshape(-1, self.y_classes, CODES)
                y = self.rows[name].y
                code[name] = y * CODES + logits[np.arange(len(y)), y].argmax(axis=1)
            centres = group_means(left["perturber"], code["perturber"], self.y_classes * CODES)
            left = {name: left[name] - centres[code[name]] for name in PARTS}
            for name in PARTS:
                columns[name].append(np.eye(self.y_classes * CODES)[code[name]])
            found.append({name: np.concatenate(columns[name], axis=1) for name in PARTS})
        return found

    def residual(self, components: int) -> Sent:
        """r (n, components), of variance 1 in the second slice."""
        second = self.rows["perturber"]
        t = {name: value[:, :components] for name, value in self.t.items()}
        normal = residual.usual(t["perturber"], second.y, second.z, shrinkage=self.section.shrinkage)
        r = {}
        for name in PARTS:
            p = self.posterior[name] * (normal.of_y == self.rows[name].y[:, None])
            p /= np.maximum(p.sum(axis=1, keepdims=True), 1e-9)
            r[name] = t[name] * (p @ (1 / normal.scale)) - p @ (normal.mean / normal.scale)
        spread = r["perturber"].std(axis=0)
        return {name: value / spread for name, value in r.items()}

    def figures(self, sent: Sent) -> dict[str, float]:
        """Kept, and bits about the priced class and about z."""
        return {"kept": self.kept(sent), "priced_bits": bits(self.priced, sent), "bits": bits(self.data, sent)}

    def kept(self, sent: Sent) -> float:
        """The share of the pixels' variance within y that is linear in what is sent; learned on the second slice."""
        y = {name: self.rows[name].y for name in PARTS}
        return share_kept(self.pixels, sent, y, "perturber", classes=self.y_classes)


def share_kept(x: Sent, sent: Sent, y: Sent, learn: SliceName, *, classes: int) -> float:
    """The share of the variance of ``x`` (n, p) within ``y`` (n,) in the test slice that is linear in ``sent`` (n, d).

    The weights are learned on the slice ``learn``.
    """

    def centred(values: Sent) -> tuple[np.ndarray, np.ndarray]:
        means = group_means(values[learn], y[learn], classes)
        return values[learn] - means[y[learn]], values["test"] - means[y["test"]]

    (x_learn, clean), (s, judged) = centred(x), centred(sent)
    weights = np.linalg.solve(s.T @ s + np.eye(s.shape[1]), s.T @ x_learn)
    return float(1 - ((clean - judged @ weights) ** 2).sum() / (clean**2).sum())


def bits(data: Dataset, sent: Sent) -> float:
    """What a network learns of z from what is sent and y, beyond y, in bits; at least 0."""
    import keras

    keras.utils.set_random_seed(0)
    learn, judge = data.part("attack"), data.part("test")
    y = np.eye(len(data.y_names))
    x, x_judged = (np.concatenate([sent[n], y[data.part(n).y]], axis=1).astype(np.float32) for n in PARTS[1:])
    model = keras.Sequential(
        [
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(len(data.z_names)),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    stop = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
    model.fit(x, learn.z, epochs=40, batch_size=256, validation_split=0.15, verbose=0, callbacks=[stop])
    counts = np.full((len(data.y_names), len(data.z_names)), 1e-3)
    np.add.at(counts, (learn.y, learn.z), 1.0)
    from_y = np.log(counts / counts.sum(axis=1, keepdims=True))[judge.y, judge.z]
    logits = predict(model, x_judged).astype(np.float64)
    told = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return float(max((told[np.arange(len(judge)), judge.z] - from_y).mean() / np.log(2), 0.0))


def main() -> None:
    """Measure every point."""
    script = record.Script(__file__, __doc__, "mnist-codebook")
    script.add_argument("recipe")
    script.add_argument("--record", type=Path, default=RECORD)
    asked = script.parse_args()
    load_tensorflow()
    bench, points = Bench(Recipe.find(asked.recipe)), []

    def add(about: dict[str, Any], sent: Sent) -> None:
        points.append({**about, **bench.figures(sent)})
        say(str(points[-1]))

    for price in PRICES:
        for number, sent in enumerate(bench.tokens(price), start=1):
            add({"way": "tokens", "tokens": number, "price": price}, sent)
    for price in JOINT_PRICES:
        for number, sent in enumerate(bench.joint(price), start=1):
            add({"way": "joint", "tokens": number, "price": price}, sent)
    noise = np.random.default_rng(0)
    for components in COMPONENTS:
        r = bench.residual(components)
        for sigma in SIGMAS:
            noisy = {name: value + sigma * noise.normal(size=value.shape) for name, value in r.items()}
            capacity = components / 2 * float(np.log2(1 + sigma**-2))
            add({"way": "gaussian", "components": components, "sigma": sigma, "capacity": capacity}, noisy)
    rows = {name: len(bench.rows[name]) for name in PARTS}
    text = {"kind": "edgeveil-tokens-record", "recipe": asked.recipe, "codes": CODES, "joint_codes": JOINT_CODES}
    record.write(asked.record, script.made_by(asked), {**text, "rows": rows, "points": points, **record.here()})


if __name__ == "__main__":
    record.run(main)
