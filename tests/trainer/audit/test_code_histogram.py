"""How often each code leaves, counted on the test rows alone, of what stays comparable elsewhere."""

import numpy as np
import pytest

from edgeveil.trainer import datasets
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit.sections.histogram import section
from edgeveil.trainer.recipe.schema import Recipe

CODE = {"name": "code", "kind": "code"}
LABEL = {"name": "label", "kind": "label"}
FRAME = {"name": "frame", "kind": "frame"}


@pytest.fixture(scope="module")
def dataset():
    return datasets.load(Recipe.find("digits-codebook"))


def counted(dataset, outputs, *, crops=False, blank=lambda n: np.full(n, 3)):
    """The section of a perturber whose code is 3 y + z and whose label is y."""
    rows = dataset.slices.rows()
    values = {"frame": dataset.x[rows], "label": dataset.y[rows], "code": 3 * dataset.y[rows] + dataset.z[rows]}
    capture = {"crop": {"size": [8, 8]}} if crops else None

    def perturb(x):
        assert (x == dataset.input.low).all()
        return {"frame": x, "label": np.zeros(len(x), np.int64), "code": blank(len(x))}

    return section({"outputs": outputs, "capture": capture}, values, dataset, perturb), values


def test_codes_of_the_test_rows_are_counted(dataset):
    found, values = counted(dataset, [FRAME, LABEL, CODE])
    test = values["code"][places(dataset).test]
    assert found["output"] == "code"
    assert sum(found["counts"]) == len(test)
    assert found["counts"][4] == (test == 4).sum() > 0
    assert found["effective"] == len(test)
    assert found["blank"] == 3


def test_rows_of_one_person_are_worth_less(dataset):
    clustered = dataset.__class__(**{**vars(dataset), "cluster": dataset.y * 2 + dataset.z, "cluster_kind": "subject"})
    found, _ = counted(clustered, [CODE])
    assert found["effective"] < 10


def test_of_codes_drawn_at_random_the_class_is_counted_where_places_may_be_empty(dataset):
    drawn = {"blank": lambda n: np.arange(n) % 5}
    assert counted(dataset, [LABEL, CODE], **drawn)[0]["blank"] is None
    assert counted(dataset, [LABEL, CODE], **drawn)[0]["output"] == "code"
    crops = counted(dataset, [LABEL, CODE], crops=True, **drawn)[0]
    assert (crops["output"], crops["blank"]) == ("label", 0)


def test_where_frames_alone_leave_there_is_nothing_to_count(dataset):
    assert counted(dataset, [FRAME])[0] is None
