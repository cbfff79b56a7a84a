"""No centroid of fewer people than promised, no donor without consent."""

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.perturbers.codebook import synthesis


def readings(n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes of two codes; code 1 has a single reading, code 2 none."""
    code = np.where(np.arange(n) < n // 2, 0, 3)
    code[0] = 1
    kept = np.arange(n, dtype=float)[:, None]
    u = np.zeros((n, 3), np.float32) + np.arange(n, dtype=np.float32)[:, None] / n
    return u, code, kept


def test_a_centroid_takes_in_its_nearest_until_it_has_enough():
    u, code, kept = readings()
    table = synthesis.centroids(u, code, kept, code // 2, codes=4, per_class=2, subject=None, fewest=5)
    assert table.dtype == np.float32
    assert table[0] == pytest.approx(u[1:20].mean(axis=0))  # has enough of its own
    assert table[1] == pytest.approx(u[0:5].mean(axis=0))  # the single one and its four nearest
    assert table[2, 0] > 0.5  # a code without readings stays within its class


def test_subjects_count_once_however_often_they_were_seen():
    u, code, kept = readings()
    subject = np.repeat(np.arange(10), 4)
    table = synthesis.centroids(u, code, kept, code // 2, codes=4, per_class=2, subject=subject, fewest=3)
    assert table[1] == pytest.approx(u[0:9].mean(axis=0))  # people 0, 1 and the first reading of person 2
    with pytest.raises(BadInput, match="at least 6 different subjects, and a class of y has 5"):
        synthesis.centroids(u, code, kept, code // 2, codes=4, per_class=2, subject=subject, fewest=6)


def test_a_class_that_is_never_predicted_is_pictured_by_those_that_are_of_it():
    u, code, kept = readings()
    y = np.arange(40) // 20
    table = synthesis.centroids(u, code % 2, kept, y, codes=4, per_class=2, subject=None, fewest=5)
    assert table[2:] == pytest.approx(np.stack([u[y == 1][:].mean(axis=0)] * 2), abs=0.25)
    assert table[2:].min() >= 0.5  # of no sample of the other class


def test_too_few_people_of_a_class_are_named_with_what_to_do():
    people = synthesis.fewest_people(np.array([0, 0, 0, 1, 1]), np.array([1, 1, 2, 3, 3]), classes=2)
    assert people.tolist() == [2, 1]
    synthesis.check_people(people, ("sit", "walk"), fewest=1)
    with pytest.raises(BadInput, match=r'y "walk" has 1 in the slices .*: add people, or take `kind = "label-only"`'):
        synthesis.check_people(people, ("sit", "walk"), fewest=2)


def test_donors_are_the_sure_and_typical_readings_of_their_code():
    _, code, kept = readings()
    sure = np.ones(40)
    sure[10] = 0.5
    rows = synthesis.donors(code, kept, sure, np.zeros(40, int), codes=4, per_class=2, copies=4).reshape(4, 4)
    assert set(rows[0]) == {8, 9, 11, 12}  # nearest to the mean of 1 to 19, and not the unsure one
    assert rows[1].tolist() == [0, 0, 0, 0]
    assert set(rows[2]) <= set(range(20, 40))  # borrowed from its class
    assert len(set(rows[3])) == 4


def test_every_z_gives_its_share_of_the_donors_its_nearest_first():
    far = np.concatenate([np.arange(30), 100 + np.arange(10)])  # a z of ten that is far from typical
    z = np.repeat([0, 1], [30, 10])
    kept = (far - far.mean())[:, None] * 1.0
    rows = synthesis.donors(np.zeros(40, int), kept, np.ones(40), z, codes=1, per_class=1, copies=8)
    assert np.bincount(z[rows]).tolist() == [6, 2]
    assert set(rows[z[rows] == 1]) == {30, 31}
    alone = synthesis.donors(np.zeros(40, int), kept, np.ones(40), np.arange(40), codes=1, per_class=1, copies=8)
    assert set(alone) == set(np.argsort(np.abs(kept[:, 0]))[:8])  # no z has a share of one: the most typical


def test_nobody_who_did_not_agree_is_a_donor():
    _, code, kept = readings()
    allowed = np.arange(40) % 3 == 0
    rows = synthesis.donors(code, kept, np.ones(40), np.zeros(40, int), codes=4, per_class=2, copies=4, allowed=allowed)
    assert allowed[rows].all()


def test_a_class_without_readings_has_no_donors():
    with pytest.raises(BadInput, match="class 1 of y"):
        synthesis.donors(
            np.zeros(5, int), np.ones((5, 1)), np.ones(5), np.zeros(5, int), codes=4, per_class=2, copies=1
        )


def test_a_donor_needs_consent_or_public_data():
    with pytest.raises(BadInput, match="real person's record"):
        synthesis.check_consent(None, public=False)
    assert synthesis.check_consent(None, public=True) is None
    assert synthesis.check_consent(np.array([0, 1]), public=False).tolist() == [False, True]
    with pytest.raises(BadInput, match="No row"):
        synthesis.check_consent(np.zeros(3), public=True)
