"""Spend, then release: whenever the power goes, the disk says at least what had left; and every step is needed."""

import random
import shutil
from collections.abc import Callable

import numpy as np
import pytest

from edgeveil.edge_runtime.ext.ledger.allowance import Payer
from edgeveil.edge_runtime.ext.ledger.book import decode
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame, RawFrame
from edgeveil.edge_runtime.pipeline import batch
from edgeveil.edge_runtime.sources.base import Source
from tests.support import seeds
from tests.support.boards.power_cut import Volume, WrittenDown, write_out
from tests.support.promised.counted_bundles import COST, Board, price

RELEASES, BLOCK, LEAST_STATES = 200, 4, 2000


class Lines(Source):
    """A source in blocks."""

    blocks = True

    def __init__(self):
        self.given = 0

    def next_block(self):
        if self.given == RELEASES:
            return None
        self.given += BLOCK
        return [RawFrame(np.zeros(1), index) for index in range(self.given - BLOCK, self.given)]

    def refused(self):
        return []


class Perturber:
    promises = False

    def perturb_batch(self, frames, on_drop):
        return [PerturbedFrame(frame.index, {"code": np.int64(0)}, _PIPELINE) for frame in frames]


@pytest.fixture
def run(tmp_path):
    """What 200 releases do to the disk, with a mark where each leaves, and the disk before."""
    (tmp_path / "board").mkdir()
    board = Board(tmp_path / "board")
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "board", before)
    disk = WrittenDown()
    paying = Payer(board.ledger(filesystem=disk), price(RELEASES), by_subject=False, clock=board.clock)
    batch.perturb_all(Lines(), Perturber(), lambda _: disk.log.append(("released",)), pay=paying.pay)
    here, there = str(tmp_path / "board"), str(before)
    log = [tuple(part.replace(here, there) if isinstance(part, str) else part for part in one) for one in disk.log]
    return before, log


def states(before, log, place) -> Callable:
    """(how many had left, the folder) for each state that a power cut at any point may leave."""
    volume, rng, released = Volume(before), random.Random(seeds.seed(0)), 0  # noqa: S311 - states to try, not secrets
    for operation in log:
        if operation[0] == "released":
            released += 1
            continue
        volume.apply(operation)
        for tree in volume.states(rng, 6):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            write_out(tree, place)
            yield released, place
    yield released, place


def wrong(before, log, place, *, most=None):
    """The number of states, and those in which more had left than the disk says, or nobody knows how much."""
    count, found = 0, 0
    for released, tree in states(before, log, place):
        count += 1
        try:
            found += decode((tree / "ledger").read_bytes()).lifetime < released * COST
        except (OSError, ValueError):
            found += 1
        if most is not None and found >= most:
            break
    return count, found


def test_in_every_state_what_was_spent_is_at_least_what_had_left(run, tmp_path):
    before, log = run
    assert [one[0] for one in log].count("released") == RELEASES
    count, found = wrong(before, log, tmp_path / "cut")
    assert found == 0
    assert count >= LEAST_STATES


def without(name):
    return lambda log: [one for one in log if one[0] != name]


def in_place(log):
    """As if the file were written over, not replaced."""
    kept = [one for one in log if one[0] != "rename"]
    return [(one[0], one[1].replace(".tmp", ""), *one[2:]) if len(one) > 1 else one for one in kept]


def charge_last(log):
    """As if each block left first and were paid for then."""
    out, held = [], []
    for one in log:
        if one[0] == "write":
            out += held
            held = []
        if one[0] == "released":
            out.append(one)
        else:
            held.append(one)
    return out + held


MUTANTS = {
    "the file is not synced": without("sync"),
    "the folder is not synced": without("sync_folder"),
    "the file is written over": in_place,
    "the charge comes after the release": charge_last,
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_step_before_the_release_is_needed(run, tmp_path, mutant):
    before, log = run
    _, found = wrong(before, MUTANTS[mutant](log), tmp_path / "cut", most=1)
    assert found, f"{mutant}, and nobody would notice"
