"""Devices that take part in a training, each a service of two processes with a ledger of its own, and its collector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.ledger.book import Book
from edgeveil.edge_runtime.ledger.book_json import decode
from edgeveil.edge_runtime.ledger.ledger_file import create
from tests.support import bundles
from tests.support.checkout import PACKAGES
from tests.support.promised import gradient_examples

ALONE = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGES)}


class Device:
    """Number ``turn``: its people in ``folder``, and what it does at the broker of ``port`` for the topic tally."""

    def __init__(self, folder: Path, bundle: bundles.Made, port: int, turn: int, people: np.ndarray) -> None:
        self.name, self._folder = f"device{turn}", folder
        gradient_examples.write_people(folder / f"{self.name}.csv", people, first=turn * len(people))
        create(str(folder / f"{self.name}.ledger"))
        self._words = ["run", bundle.path, "--trust", bundle.trust, "--source", f"csv:{folder}/{self.name}.csv"]
        self._words += ["--subject-column", 1, "--ledger", folder / f"{self.name}.ledger", "--turn", turn]
        self._words += ["--sink", f"mqtt://127.0.0.1:{port}/tally/{self.name}"]
        self._words += ["--model", f"mqtt://127.0.0.1:{port}/tally", "--health", "off", "--json"]
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = [sys.executable, "-m", "edgeveil.edge_runtime", *map(str, self._words)]
        with (self._folder / f"{self.name}.log").open("a") as log:
            self.process = subprocess.Popen(words, env=ALONE, stdout=subprocess.PIPE, stderr=log, text=True)

    def kill(self) -> None:
        """Without a word, as a power cut; its inside ends with it."""
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self) -> dict:
        """The document of its run."""
        assert self.process is not None
        self.process.terminate()
        out, _ = self.process.communicate(timeout=60)
        return json.loads(out) if out else {}

    def ledger(self) -> Book:
        """What it spent."""
        return decode((self._folder / f"{self.name}.ledger").read_bytes())


def federate(bundle: bundles.Made, port: int, journal: Path, *words: object) -> subprocess.Popen[str]:
    """The collector's command, which ends with its document on stdout."""
    command = [sys.executable, "-m", "edgeveil.trainer.cli.main", "federate", bundle.path, "--trust", bundle.trust]
    command += ["--to", f"mqtt://127.0.0.1:{port}/tally", "--state", journal, *words, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(list(map(str, command)), env=ALONE, text=True, **pipes)


def lines(journal: Path) -> list[dict]:
    """The whole lines of a journal after its head."""
    return [json.loads(line) for line in journal.read_text().split("\n")[1:-1]]


def replayed(found: Sequence[dict], table: np.ndarray, step: float, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """theta and the mean of its later half, of the reports in a journal alone."""
    theta, later, reports, done = np.zeros(table.shape[1]), [], [], 0
    for line in found:
        if "report" in line:
            reports.append(np.append(line["report"], 1.0) @ table)
            continue
        done += 1
        if reports:
            theta = theta - step / np.sqrt(done) * np.mean(reports, axis=0)
        reports = []
        if done > rounds // 2:
            later.append(theta)
    assert done == rounds
    return theta, np.mean(later, axis=0)
