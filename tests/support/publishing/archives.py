"""A small archive: recordings, the table of visits beside them, a plan, a bundle, and all keys."""

import csv
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeveil.trainer.ext.publish.frames import Wanted
from edgeveil.trainer.ext.publish.master_key import keygen, open_key
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.publishing import publish_archive
from edgeveil.trainer.ext.publish.vault import Vault
from edgeveil.trainer.sealing import keys
from tests.support import bundles
from tests.support.publishing import visit_tables

FRAMES = '\n[frames]\nkey = "recording"\nmost_dropped = 0.1\n\n[columns.recording]\naction = "drop"\n'


@dataclass
class Archive:
    """A folder with ``bundle``, ``trust`` (its maker's key too), ``x.npz``, ``visits.csv`` and ``plan.toml``."""

    folder: Path
    made: bundles.Made
    rows: list
    plan: str
    chunk_rows: int = 64

    def __getitem__(self, name) -> Path:
        return self.folder / name

    def wanted(self, out="out", **changes) -> Wanted:
        """What ``publish`` is given."""
        self["plan.toml"].write_text(self.plan)
        plain = {
            "bundle": self.made.path,
            "trust": self.made.trust,
            "recordings": f"npz:{self['x.npz']}",
            "table": self["visits.csv"],
            "plan": Plan.read(self["plan.toml"]),
            "key": self["pseudonyms.key"],
            "recipient": "university",
            "out": self[out],
            "unaudited": True,
            "chunk_rows": self.chunk_rows,
        }
        return Wanted(**{**plain, **changes})

    def published(self, out="out", vault="vault", **changes):
        """The document of a publication, in this process but for its workers."""
        key = open_key(self["pseudonyms.key"])
        with Vault(self[vault], key) as opened:
            signer = keys.Signer.open(self["keys/signing.key"])
            return publish_archive(self.wanted(out, **changes), key, signer, opened)

    def command(self, out="out", *options):
        """The same as words of a command line."""
        self["plan.toml"].write_text(self.plan)
        words = ["publish", "archive", self.made.path, "--trust", self.made.trust, "--in", f"npz:{self['x.npz']}"]
        words += ["--table", self["visits.csv"], "--plan", self["plan.toml"], "--key", self["pseudonyms.key"]]
        words += ["--vault", self["vault"], "--sign", self["keys/signing.key"], "--recipient", "university"]
        words += ["--chunk-rows", self.chunk_rows]
        return list(map(str, [*words, "--out", self[out], "--accept", "unaudited", *options]))

    def parts(self, out="out"):
        """The parts' bytes by name."""
        return {path.name: path.read_bytes() for path in sorted(self[out].glob("part-*.parquet"))}


FEATURES = 64


def picture_example():
    """The same of pictures uint8 (8, 8, 1)."""
    manifest, members = example()
    shape = [8, 8, 1]
    for name in ("tables/means.npy", "golden/input.npy", "golden/numpy.frame.npy"):
        array = np.load(io.BytesIO(members[name]))
        members[name] = bundles.npy(array.reshape(len(array), *shape))
    manifest["input"] |= {"kind": "image", "shape": shape}
    manifest["outputs"][0]["shape"] = shape
    manifest["tables"]["means"]["shape"] = [FEATURES, *shape]
    return manifest, members


def example(features=FEATURES, high=16, *, drawn=False):
    """Vector uint8 (features,) in 0..high -> which feature is largest -> the mean reading of that class; ``drawn``: of
    the class that a noisy channel makes of it."""
    manifest, members = bundles.numpy_example()
    rng = np.random.default_rng(0)
    means, x = rng.random((features, features), np.float32), rng.integers(0, high + 1, (4, features), np.uint8)
    label = x.argmax(axis=1)
    members |= {
        "tables/means.npy": bundles.npy(means),
        "golden/input.npy": bundles.npy(x),
        "golden/numpy.frame.npy": bundles.npy(np.rint(means[label] * high).astype(np.uint8)),
        "golden/numpy.label.npy": bundles.npy(label.astype(np.int64)),
    }
    manifest["input"] |= {"shape": [features], "high": float(high)}
    for stage in (manifest["stages"][0], manifest["stages"][-1]):
        stage["high"] = float(high)
    manifest["outputs"][0]["shape"] = [features]
    manifest["tables"]["means"]["shape"] = [features, features]
    if drawn:
        channel = {"stage": "draw", "distribution": "channel", "input": "label", "table": "q", "output": "code"}
        manifest["stages"].insert(2, channel)
        manifest["stages"][3]["input"] = manifest["outputs"][1]["tensor"] = "code"
        manifest["tables"]["q"] = {"file": "tables/q.npy", "shape": [features, features], "dtype": "uint32"}
        rest = 2 ** (features - 1).bit_length() - features  # a row sums to a power of two
        members["tables/q.npy"] = bundles.npy(
            np.ones((features, features), np.uint32) + np.diag(np.full(features, rest, np.uint32))
        )
        members["golden/draws.code.npy"] = members["golden/numpy.label.npy"]
        manifest["golden"]["draws"] = {"code": "golden/draws.code.npy"}
    return manifest, members


@contextmanager
def here(engine, at_once):
    """An engine that runs the jobs in this process."""
    yield lambda jobs: ((job, job.run()) for job in jobs)


def make(folder: Path, *, bundle=None, people=120, seed=1) -> Archive:
    """One frame a visit, as ``bundle`` (an example) takes it; the table is in another order than the frames."""
    manifest, members = bundle or example()
    rows = write_table(folder / "visits.csv", people=people, seed=seed)
    np.savez(folder / "x.npz", x=recordings(len(rows), manifest["input"], seed))
    return with_keys(folder, bundles.make_bundle(folder, example=(manifest, members)), visit_tables.PLAN + FRAMES, rows)


def recordings(count, spec, seed=1):
    """Made-up frames as a bundle takes them."""
    rng = np.random.default_rng(seed)
    if spec["dtype"] == "uint8":
        return rng.integers(0, 17, (count, *spec["shape"]), np.uint8)
    return rng.random((count, *spec["shape"]), np.float32)


def write_table(path: Path, *, people=120, seed=1):
    """The table of visits with the number of each row's frame; returns its rows."""
    rows = visit_tables.write(path, people=people)
    numbers = np.random.default_rng(seed).permutation(len(rows))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [*rows[0], "recording"])
        table.writeheader()
        for row, number in zip(rows, numbers, strict=True):
            row["recording"] = str(number)
            table.writerow(row)
    return rows


def with_keys(folder: Path, made: bundles.Made, plan: str, rows=(), *, chunk_rows=64) -> Archive:
    """The archive of a folder that has a bundle, recordings and a table."""
    keygen(folder / "pseudonyms.key")
    public = keys.keygen(folder / "keys")
    (made.trust / "maker.pub").write_bytes(public.read_bytes())
    (folder / "plan.toml").write_text(plan)
    return Archive(folder, made, rows, plan, chunk_rows)


def again(folder: Path, *, chunk_rows) -> Archive:
    """The archive that another process made there, without its rows."""
    made = bundles.Made(folder / "test.veil", folder / "trust", {}, {})
    return Archive(folder, made, [], (folder / "plan.toml").read_text(), chunk_rows)


def name_in_remarks(archive: Archive):
    """A column of free text that names people, which the plan lets pass."""
    text, names = archive["visits.csv"].read_text(), iter(row["visitor"].strip() for row in archive.rows)
    archive["visits.csv"].write_text(
        re.sub("a remark of many words about this visit", lambda _: f"we saw {next(names)} again in the hall", text)
    )
    archive.plan = archive.plan.replace('[columns.remark]\naction = "drop"', '[columns.remark]\naction = "target"')
