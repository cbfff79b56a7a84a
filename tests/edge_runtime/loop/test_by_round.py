"""One line for each round: used once, in order, whatever comes of it."""

import os

import numpy as np
import pytest

from edgeveil.edge_runtime.ipc.counters import Counters, drops
from edgeveil.edge_runtime.ipc.rounds import RoundReader
from edgeveil.edge_runtime.loop import by_round
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sources import open_source
from tests.support.promised import gradient_examples as gradients


class Inside:
    """An inside without its process: ``ask`` gives the reports of the rounds so far."""

    def __init__(self, folder, text, **source):
        made = gradients.made(folder / "bundle")
        (folder / "people.csv").write_text(text)
        self.perturber = Perturber.open(str(made.path), trust=str(made.trust))
        self.source = open_source(f"csv:{folder}/people.csv", self.perturber.manifest.input, **source)
        self.counters, self.made, self.sent = Counters(), [], []

    def run(self, rounds, may_make=lambda _subject: True):
        """Each round comes once the report of the one before is there; the pipe ends after the last."""
        end, ours = os.pipe()
        rounds = iter(rounds)
        reader = RoundReader(end, gradients.FORM, self.sent.append)

        def ask():
            one = next(rounds, None)
            if one is None:
                os.close(ours)
            else:
                os.write(ours, one)

        def emit(report, subject):
            self.made.append((report.index, subject, self.perturber.pipeline.parameters["theta"].tolist()))
            ask()

        ask()
        by_round.answer(
            self.source,
            self.perturber,
            reader,
            emit,
            counters=self.counters,
            may_make=may_make,
            stopped=lambda: False,
            beat=lambda: None,
        )
        return self.made


LINES = "p1,1,1,1\np2,nan,1,1\np3,1,1,0\np4,2,2,9\np5,1,1,0\n"


def test_a_line_a_round_with_its_subject_at_its_parameters(tmp_path):
    inside = Inside(tmp_path, LINES, subject_column=1)
    made = inside.run([gradients.asked(number, (number, -number)) for number in (1, 2, 4, 7)])
    assert [index - 7 * 2**32 for index, _, _ in made] == [1, 2, 4, 7]
    assert [theta for _, _, theta in made] == [[1, -1], [2, -2], [4, -4], [7, -7]]
    assert len({subject for _, subject, _ in made}) == 4
    # A label beyond its bounds is clipped, and what is no number has no report.
    assert drops(inside.counters.all()) == {"unreadable": 1}
    assert inside.counters.get("frames-in") == 5


def test_the_end_of_the_lines_is_the_end(tmp_path):
    inside = Inside(tmp_path, LINES, subject_column=1)
    assert len(inside.run([gradients.asked(number) for number in range(1, 9)])) == 4


def test_a_subject_without_a_budget_is_followed_by_the_next(tmp_path):
    inside = Inside(tmp_path, "p1,1,1,1\np1,2,2,1\np2,1,1,1\n", subject_column=1)
    seen = set()

    def once(subject):
        return subject not in seen and not seen.add(subject)

    assert len(inside.run([gradients.asked(number) for number in (1, 2, 3)], once)) == 2
    assert drops(inside.counters.all()) == {"budget-spent": 1}


@pytest.mark.parametrize("kind", ["npz"])
def test_a_source_without_blocks(tmp_path, kind):
    inside = Inside(tmp_path, LINES, subject_column=1)
    x = np.array([[1, 1, 1], [2, 2, 0]], np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    inside.source = open_source(f"{kind}:{tmp_path}/x.npz", inside.perturber.manifest.input)
    assert len(inside.run([gradients.asked(number) for number in (1, 2, 3)])) == 2
