"""The picture of several perturbers, and the words that say which one is recommended: by what audits found alone."""

import io

import numpy as np
import pytest
from matplotlib import image

from edgeveil.trainer.audit.findings import RAW
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.report import pictures
from tests.support.audit_documents import document

SPEC = InputSpec("image", (8, 8, 1), "uint8", 0.0, 16.0)


def test_the_picture_has_a_row_for_each_and_marks_what_does_not_hide():
    x = np.full((5, 8, 8, 1), 9, np.uint8)
    held, broken = document(best=0.60), document(best=0.95)

    def drawn(part):
        rows = [pictures.Row("x", x, part, RAW), pictures.Row("x'", x, part, kept=pictures.kept(part))]
        return pictures.draw(SPEC, rows, target="parity", sensitive="less-than-five")

    good, bad = (np.asarray(image.imread(io.BytesIO(drawn(part)))) for part in (held, broken))
    assert good.ndim == 3

    def inked(picture, ink):
        wanted = [int(ink[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        lower = picture[picture.shape[0] // 2 :, :, :3]  # the first row is x itself, which nothing hides
        return int((np.abs(lower - wanted).max(axis=2) < 0.02).sum())

    assert inked(good, pictures.GOOD) > inked(bad, pictures.GOOD)
    assert inked(bad, pictures.BAD) > inked(good, pictures.BAD)


@pytest.mark.parametrize(
    ("best", "words"),
    [
        (0.60, "So the codebook is recommended."),
        (0.63, "It hides more; whether it hides enough, too few test rows can tell."),
        (0.75, "It hides more, but not all"),
        (0.97, "neither is recommended"),
    ],
)
def test_what_is_recommended_follows_from_the_audits(best, words):
    paper, codebook = document(best=0.95), {**document(best=best), "perturber": "codebook"}
    lines = pictures.why(paper, codebook)
    assert len(lines) == 5
    assert words in lines[-1]
    text = "\n".join(lines)
    assert "fools the adversary that it was trained against: right 55.0 % [53.0 %, 57.0 %]." in text
    assert ": right 95.0 % [93.0 %, 97.0 %], leaks." in text
    assert "ink 0.82" in text


def test_a_generator_that_fools_nobody_is_not_said_to():
    paper, codebook = document(best=0.95, fixed=0.96), {**document(best=0.6), "perturber": "codebook"}
    assert "does not fool the adversary that it was trained against: right 96.0 %" in pictures.why(paper, codebook)[1]
