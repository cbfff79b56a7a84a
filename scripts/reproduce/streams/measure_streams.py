"""Measures what a camera's stream tells of who is in front of it, into docs/results/privacy/stream_codes.json.

    EDGEVEIL_DATA=... python -m scripts.reproduce.streams.measure_streams --targets movement action --splits 8

Depth recordings of 8 people, each split into 5 who are calibrated and 3 who are never seen; tracks of 16 frames at 10 a
second. Every way to send codes is attacked by the same families, and so is the same with the true class in place of
y-hat, where nothing is to be had. What is on record is kept: run it again to go on, or with more splits.
"""

import functools
import math
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from edgeveil.trainer.attacks.sequences import Tracks
from edgeveil.trainer.audit.sections import tracks
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.datasets.loaders import depth
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.measures import certificate
from edgeveil.trainer.measures.attack_metrics import counted_prior
from edgeveil.trainer.perturbers.codebook import funnel, stream_codes, training
from edgeveil.trainer.perturbers.codebook.fit import assemble, channel_table
from edgeveil.trainer.perturbers.codebook.targets import fit_kept
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts.reproduce import record
from scripts.reproduce.streams import people

RECORD = Path("docs/results/privacy/stream_codes.json")
MIDDLE, LENGTH, UNSEEN, VOTES = 0.85, 16, 3, 7
EPOCHS, BATCH, TREES = 12, 64, 30
SPEC = InputSpec("image", (40, 32, 1), "uint8", 0.0, 255.0)
SECTION: dict[str, Any] = {
    "kind": "codebook", "keep": ["pixels"], "codes": 8, "copies": 8, "shift": 4, "scale": 0.35, "offset": 0.3,
    "steps": 150, "code_batch": 0, "shrinkage": 8.0, "dropout": 0.3, "weight_decay": 0.1,
}  # fmt: skip
FRAME = {"hold": "frame", "acknowledge": "code-per-frame leaks"}
EVERY_FRAME = {
    "independent": {"channel": "independent", "price": 0.0},
    "lp": {"channel": "lp", "bound": 0.0, "price": 0.0},
    "learned": {"channel": "none", "price": 4.0},
}
# How far copies go, and the target "movement", were chosen with people of the first splits in view.
LOOKED_AT = 14


def main() -> None:
    """Measure the splits that are not on record."""
    script = record.Script(__file__, __doc__, "--splits 8")
    script.add_argument("--targets", nargs="+", choices=list(depth.TARGETS), default=list(depth.TARGETS))
    script.add_argument("--splits", type=int, default=8)
    script.add_argument("--minutes", type=float, default=60.0, help="begin no other split after so many")
    script.add_argument("--processes", type=int, default=2)
    asked = script.parse_args()
    on_record = record.read(RECORD)
    facts = {
        "middle": MIDDLE, "length": LENGTH, "votes": VOTES, "epochs": EPOCHS, "trees": TREES, "looked_at": LOOKED_AT,
        "section": SECTION,
    }  # fmt: skip
    if on_record.get("settings") != facts:
        on_record = {"schema": 2, "settings": facts, "targets": {}}
    chosen = people.splits(len(depth.PEOPLE), unseen=UNSEEN, count=math.comb(len(depth.PEOPLE), UNSEEN))
    keys = ["-".join(str(depth.PEOPLE[one]) for one in unseen) for unseen in chosen]
    found = {target: on_record["targets"].setdefault(target, {"splits": {}})["splits"] for target in asked.targets}
    todo = [
        (target, number)
        for target in asked.targets
        for number, key in enumerate(keys[: asked.splits])
        if key not in found[target]
    ]
    start = time.monotonic()
    with ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn"), initializer=load_tensorflow) as pool:
        running: dict[Future[dict[str, Any]], tuple[str, str]] = {}
        while True:
            while todo and len(running) < asked.processes and time.monotonic() - start < 60 * asked.minutes:
                target, number = todo.pop(0)
                running[pool.submit(measure, target, chosen[number], number)] = target, keys[number]
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                target, key = running.pop(done)
                found[target][key] = done.result()
                on_record["targets"][target]["splits"] = {
                    name: found[target][name] for name in keys if name in found[target]
                }
                record.write(RECORD, script.path, on_record)
                print(target, key, f"after {time.monotonic() - start:.0f} s", flush=True)


def measure(target: str, unseen: tuple[int, ...], seed: int) -> dict[str, Any]:
    """One split in a worker."""
    begun = time.monotonic()
    return {**data(target).split(unseen, seed=seed), "wall_time_s": round(time.monotonic() - begun, 1)}


@functools.cache
def data(target: str) -> "Data":
    """Of a worker, loaded once."""
    return Data(target)


class Data:
    """Frames of all 8 people, and which rows are the 16 middle ones of a recording."""

    def __init__(self, target: str) -> None:
        found = depth.load(target=target, sensitive="person", people=depth.PEOPLE, middle=MIDDLE)
        self.y_names = found.y_names
        self.classes = len(found.y_names)
        self.codes = self.classes * SECTION["codes"] + 1  # one more: not voted yet
        self.x, self.y, self.person, self.recording = found.x, found.y, found.z, found.session
        pieces = []
        for number in np.unique(self.recording):
            rows = np.flatnonzero(self.recording == number)
            if len(rows) >= LENGTH:
                at = (len(rows) - LENGTH) // 2
                pieces.append(rows[at : at + LENGTH])
        self.pieces = np.stack(pieces)  # (tracks, LENGTH)

    def split(self, unseen: tuple[int, ...], *, seed: int) -> dict[str, Any]:
        """One choice of who is never seen: train on half of the others' recordings, attack on the rest."""
        import keras

        keras.utils.set_random_seed(seed)
        rng = np.random.default_rng(seed)
        fit, calibrated = self._halves(~np.isin(self.person, unseen), rng)
        who = self.person[self.pieces[:, 0]]
        populations = {
            "calibrated": self.pieces[np.isin(self.recording[self.pieces[:, 0]], calibrated)],
            "unseen": self.pieces[np.isin(who, unseen)],
        }
        # Every second frame of a recording: the next is almost the same.
        ways, share, label_of = self._codebook(np.flatnonzero(np.isin(self.recording, fit))[::2], rng)
        found: dict[str, Any] = {"unseen_people": [depth.PEOPLE[one] for one in unseen], "populations": {}}
        left = {
            name: {way: self._tracks(pieces, fitted) for way, fitted in ways.items()}
            for name, pieces in populations.items()
        }
        for name, pieces in populations.items():
            found["populations"][name] = self._attacked(pieces, left[name], share, label_of, rng, seed=seed)
        found["linkage"] = {way: self._link(left["calibrated"][way], left["unseen"][way]) for way in ways}
        return found

    def _halves(self, mine: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Recordings in two halves, alike in person and class."""
        recording, first = np.unique(np.where(mine, self.recording, -1), return_index=True)
        recording, first = recording[recording >= 0], first[recording >= 0]
        order = rng.permutation(len(first))
        order = order[np.argsort((self.person[first] * self.classes + self.y[first])[order], kind="stable")]
        return recording[order[::2]], recording[order[1::2]]

    def _codebook(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray, Any]:
        """Ways to send codes, by name, P(c | y) of their codes, and y-hat; all on one trunk."""
        import keras

        from edgeveil.models import encoders

        section = Codebook(**SECTION)
        u = self.x[rows].astype(np.float32) / 255
        y, z = self.y[rows], np.unique(self.person[rows], return_inverse=True)[1]
        kept = fit_kept(section.keep, u, rows, y=y)
        copies, of = training.augmented(u, section, rng)
        t = kept(copies, rows[of])
        shown = funnel.Rows(copies, t, y[of], z[of])
        trunk, label_head, *_ = training.trunk(SPEC, shown, section, classes=self.classes, epochs=EPOCHS, batch=BATCH)
        model = keras.Model(trunk.inputs, label_head(trunk.output))
        learned_from = funnel.Rows(predict(trunk, copies), t, y[of], z[of], of)
        heads: dict[float, Any] = {}
        ways: dict[str, Any] = {}
        for name, changes in EVERY_FRAME.items():
            mine = Codebook(**SECTION, **FRAME, **changes)
            if mine.price not in heads:
                classes = self.classes, int(z.max()) + 1
                head = training.code_head(learned_from, mine, classes=classes, rng=rng, report=lambda *_: None)
                heads[mine.price] = encoders.encoder(trunk, label_head, head)
            encoder = heads[mine.price]
            logits = dict(zip(encoder.output_names, predict(encoder, u), strict=True))
            _, code = funnel.global_codes(logits["label_logits"], logits["code_logits"])
            table = channel_table(code, z, t[: len(u)], mine, y_names=self.y_names, z_classes=int(z.max()) + 1)
            ways[name] = self._every_frame(encoder, table, mine)
            if name == "independent":
                share = np.zeros((self.classes, self.codes - 1))
                np.add.at(share, (code // section.codes, code), 1.0)
        pictures = np.zeros((self.codes - 1, *SPEC.shape), np.float32)
        stream = stream_codes.stream(f"track:{VOTES}")
        ways["held"] = stream_codes.assemble(
            SPEC, encoders.encoder(trunk, label_head), share, pictures, stream or {}, substituted=False
        )
        return ways, share / share.sum(axis=1, keepdims=True), model

    def _tracks(self, pieces: np.ndarray, way: FittedPerturber) -> Tracks:
        """What leaves of these recordings, through the runtime's own stages."""
        number = np.repeat(np.arange(len(pieces)), LENGTH)
        code = way.perturb(self.x[pieces.reshape(-1)], number)["code"].reshape(pieces.shape)
        z = np.unique(self.person[pieces[:, 0]], return_inverse=True)[1]
        return Tracks(code, self.y[pieces[:, 0]], z)

    def _attacked(
        self,
        pieces: np.ndarray,
        left: dict[str, Tracks],
        share: np.ndarray,
        model: Any,
        rng: np.random.Generator,
        seed: int,
    ) -> dict[str, Any]:
        made = dict(left)
        y, z = made["held"].y, made["held"].z
        # Where y-hat is right what leaves is what would leave of the true class, draw and all; elsewhere it is drawn.
        each = made["independent"].code
        drawn = draw(share, np.repeat(y[:, None], LENGTH, axis=1), rng)
        made["independent, true class"] = Tracks(np.where(each // SECTION["codes"] == y[:, None], each, drawn), y, z)
        once = made["held"].code.copy()
        once[:, VOTES - 1 :] = np.where(
            (once[:, -1] // SECTION["codes"] == y)[:, None], once[:, -1:], draw(share, y[:, None], rng)
        )
        made["held, true class"] = Tracks(once, y, z)
        made["learned, people permuted"] = tracks.permuted(made["learned"], rng)
        classes = self.classes, int(z.max()) + 1
        frames = self.x[pieces.reshape(-1)].astype(np.float32) / 255
        label = predict(model, frames).argmax(axis=1).reshape(pieces.shape)
        held = made["held"].code[:, -1] // SECTION["codes"]
        counted = counted_prior(y, z, classes)
        certified = certificate.certify(
            y, held, z, channel=np.eye(self.classes), classes=classes, tried=1, rng=rng,
            chance=float(counted.max(axis=1)[y].mean()),
        )  # fmt: skip
        worst, mean = people.by_person(held == y, z)
        return {
            "tracks": len(y),
            "frames_right": float((label == y[:, None]).mean()),
            "held_right": {"worst_person": worst, "people": mean},
            "chance": {"prior": 1 / classes[1], "majority": float(counted.max(axis=1)[y].mean())},
            "certificate": asdict(certified),
            "ways": {
                name: tracks.accuracies(one, classes=classes, codes=self.codes, seed=seed, trees=TREES)
                for name, one in made.items()
            },
        }

    def _every_frame(self, encoder: Any, table: np.ndarray | None, section: Codebook) -> FittedPerturber:
        """A code for every frame; the pictures of the codes do not matter here."""
        dataset: Any = SimpleNamespace(input=SPEC, y_names=self.y_names)
        return assemble(dataset, encoder, table, np.zeros((self.codes - 1, *SPEC.shape), np.float32), section)

    def _link(self, known: Tracks, new: Tracks) -> dict[str, float]:
        """Are two tracks of people never seen one person's? By each family that learned on the calibrated."""
        classes = self.classes, int(known.z.max()) + 1
        prior = counted_prior(known.y, known.z, classes)
        said = tracks.posteriors(known, new, classes=classes, codes=self.codes, trees=TREES)
        return {name: people.linkage(p, prior, new.y, new.z).eer for name, p in said.items()}


def draw(share: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A code from P(c | y) for each y: what leaves where y-hat is never wrong."""
    return (share.cumsum(axis=1)[y] <= rng.random(y.shape)[..., None]).sum(axis=-1)


if __name__ == "__main__":
    record.run(main)
