"""Splits first: three equal stratified slices, and nobody in two of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import PARTS, Part, Slices


def rng(seed=0):
    return np.random.default_rng(seed)


def parts(slices):
    """The slices that have rows."""
    return [part for part in (getattr(slices, name) for name in PARTS) if len(part)]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(30, 400), st.integers(1, 4), st.integers(1, 4))
def test_rows_are_dealt_evenly_and_each_once(seed, n, ys, zs):
    y, z = rng(seed).integers(0, ys, n), rng(seed + 1).integers(0, zs, n)
    cut = parts(slicing.cut(y, z, cluster=None, rng=rng(seed)))
    assert sorted(np.concatenate(cut)) == list(range(n))
    sizes = [len(part) for part in cut]
    assert max(sizes) - min(sizes) <= 1
    for a in range(ys):
        for b in range(zs):
            counts = [int(((y[part] == a) & (z[part] == b)).sum()) for part in cut]
            assert max(counts) - min(counts) <= 1


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31))
def test_no_subject_is_in_two_slices(seed):
    subject = rng(seed).integers(0, 32, 900)
    z, y = subject % 2, rng(seed + 1).integers(0, 2, 900)
    cluster, kind = slicing.clusters(z, subject=subject, session=None)
    assert kind == "subject"
    cut = parts(slicing.cut(y, z, cluster=cluster, rng=rng(seed)))
    people = [set(subject[part]) for part in cut]
    assert len(cut) == 4
    assert sum(len(each) for each in people) == len(set().union(*people))
    assert sorted(np.concatenate(cut)) == list(range(900))
    sizes = [len(part) for part in cut]
    assert max(sizes) < 1.2 * min(sizes)


def test_slices_are_by_session_where_z_is_the_subject():
    person = np.repeat(np.arange(5), 120)
    session = np.tile(np.repeat(np.arange(12), 10), 5)  # numbered anew for each person
    cluster, kind = slicing.clusters(person, subject=person, session=session)
    assert kind == "session"
    assert len(np.unique(cluster)) == 60
    cut = parts(slicing.cut(np.zeros(600, int), person, cluster=cluster, rng=rng()))
    for part in cut:
        assert np.bincount(person[part]).tolist() == [40] * 5
    recordings = [set(cluster[part]) for part in cut]
    assert not recordings[0] & recordings[1] | recordings[0] & recordings[2] | recordings[1] & recordings[2]


def test_z_that_is_the_subject_needs_sessions():
    person = np.repeat(np.arange(5), 20)
    with pytest.raises(BadInput, match=r"only 1 subject, .* add an array `session`"):
        slicing.clusters(person, subject=person, session=None)


def test_sessions_alone_are_kept_whole():
    session = np.array(["b", "a", "b", "c"])
    cluster, kind = slicing.clusters(np.zeros(4, int), subject=None, session=session)
    assert kind == "session"
    assert cluster.tolist() == [1, 0, 1, 2]


def test_too_few_rows_names_the_class_and_the_number_needed():
    y = np.array([0] * 60 + [1] * 14)
    slices = slicing.cut(y, y, cluster=None, rng=rng())
    with pytest.raises(BadInput, match=r'y "rare" has 14 rows; at least 15 are needed'):
        slicing.check_classes(y, ("common", "rare"), of="y", slices=slices, cluster=None)


def test_too_few_subjects_names_the_number_needed():
    subject = np.repeat(np.arange(20), 20)
    z = (subject >= 16).astype(int)
    slices = slicing.cut(z, z, cluster=subject, rng=rng())
    with pytest.raises(BadInput, match=r'z "1" has 80 rows of 4 subjects or sessions; at least 6 of them'):
        slicing.check_classes(z, ("0", "1"), of="z", slices=slices, cluster=subject)


def test_one_class_is_nothing_to_tell_apart():
    rows = np.arange(3)
    with pytest.raises(BadInput, match="z must have at least 2 classes; got 1"):
        slicing.check_classes(np.zeros(9, int), ("0",), of="z", slices=Slices(rows, rows, rows), cluster=None)


def part(n, cluster=None):
    return Part(np.zeros((n, 1)), rng(1).integers(0, 2, n), rng(2).integers(0, 3, n), cluster, np.arange(n))


def test_a_hold_out_is_stratified_and_always_the_same():
    whole = part(300)
    fit, held = slicing.hold_out(whole, share=0.2, seed=0)
    assert sorted([*fit, *held]) == list(range(300))
    assert abs(len(held) - 60) <= 1
    for y in range(2):
        for z in range(3):
            of = (whole.y == y) & (whole.z == z)
            assert abs(of[held].sum() - 0.2 * of.sum()) <= 1
    again = slicing.hold_out(whole, share=0.2, seed=0)
    np.testing.assert_array_equal(held, again[1])
    assert not np.array_equal(held, slicing.hold_out(whole, share=0.2, seed=1)[1])


def test_a_hold_out_takes_whole_clusters():
    cluster = rng(3).integers(0, 40, 300)
    fit, held = slicing.hold_out(part(300, cluster), share=0.2, seed=0)
    assert not set(cluster[fit]) & set(cluster[held])
    assert 4 <= len(set(cluster[held])) <= 12


def test_thinning_keeps_the_shares_and_whole_clusters():
    stratum = np.repeat([0, 1, 2], [600, 300, 100])
    keep = slicing.thin(stratum, rows=100, cluster=None, rng=rng())
    assert np.bincount(stratum[keep]).tolist() == [60, 30, 10]
    cluster = np.arange(1000) // 10
    keep = slicing.thin(stratum, rows=200, cluster=cluster, rng=rng())
    assert len(keep) == 200
    assert len(np.unique(cluster[keep])) == 20


def test_few_rows_give_three_slices_and_none_to_attack():
    y = z = np.arange(4 * slicing.ATTACK_ROWS) % 2
    assert len(slicing.cut(y, z, cluster=None, rng=rng(0)).attack) == slicing.ATTACK_ROWS
    few = slicing.cut(y[1:], z[1:], cluster=None, rng=rng(0))
    assert len(few.attack) == 0
    assert len(few.rows()) == len(y) - 1


def test_few_subjects_of_a_class_give_three_slices():
    for subjects, slices in ((16, 4), (14, 3)):  # half of them of each z
        subject = np.arange(1600) % subjects
        cut = slicing.cut(np.arange(1600) // subjects % 2, subject % 2, cluster=subject, rng=rng(0))
        assert len(parts(cut)) == slices


def test_places_are_those_of_rows():
    cut = slicing.cut(np.arange(1000) % 2, np.arange(1000) % 3, cluster=None, rng=rng(0))
    for name in PARTS:
        np.testing.assert_array_equal(cut.rows()[cut.places(name)], getattr(cut, name))


def test_a_few_recordings_of_each_pair_reach_every_slice():
    """Dealt by stratum alone, the first two of each would always go to the first two slices, and none to the test."""
    session = np.repeat(np.arange(140), 6)
    y, z = session // 2 % 7, session // 14
    slices = slicing.cut(y, z, cluster=session, rng=rng())
    sizes = [len(part) for part in parts(slices)]
    assert len(sizes) >= 3
    assert min(sizes) > 0.8 * max(sizes)


def test_an_empty_test_slice_is_refused():
    y = np.arange(60) % 2
    empty = Slices(np.arange(30), np.arange(30, 60), np.empty(0, np.int64))
    with pytest.raises(BadInput, match="in each of 3 slices"):
        slicing.check_classes(y, ("0", "1"), of="y", slices=empty, cluster=np.arange(60))
