"""A made-up file of the form of the data set wrist, where its own is not at hand."""

import hashlib

import numpy as np

from edgeveil.trainer.datasets import downloads
from edgeveil.trainer.datasets.series import wrist


def watch(folder, monkeypatch):
    """In ``folder``, where data sets are then looked for: 10 people do 7 exercises with either arm, 450 steps each."""
    rng = np.random.default_rng(3)
    of = np.array([(y, person, arm) for y in range(7) for person in range(1, 11) for arm in (0.0, 1.0)])
    recordings = [rng.normal(one[0], 1, (450, 6)) for one in of]
    stored = {"X": recordings, "y": of[:, 0].astype(int), "subject": of[:, 1].astype(int), "side": of[:, 2]}
    path = folder / wrist.FILE
    path.parent.mkdir()
    np.save(path, np.array(stored, dtype=object), allow_pickle=True)
    monkeypatch.setenv(downloads.VARIABLE, str(folder))
    monkeypatch.setattr(wrist, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return of
