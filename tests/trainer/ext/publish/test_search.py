"""Incognito against brute force over the whole lattice, in plain Python; and what makes its pruning wrong."""

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.publish.frequency import (
    Criteria,
    Frequencies,
    Sensitive,
    closeness,
    combined,
    entropy_l,
    numbered,
)
from edgeveil.trainer.ext.publish.generalise import kept, search
from edgeveil.trainer.ext.publish.levels import Levels, Ranges, Tree, encode

HIERARCHIES = (
    Tree(kind="tree", tree={"left": ["a", "b"], "right": ["c"]}),
    Ranges(kind="ranges", low=0, high=3, widths=[2]),
    Tree(kind="tree", tree=["u", "v"]),
)
VALUES = (("a", "b", "c"), ("0", "1", "2", "3"), ("u", "v"))
ILLNESS = Tree(kind="tree", tree={"lung": ["flu", "cold"], "skin": ["rash"]})


def plain(count):
    """Levels of values without order."""
    codes = np.arange(count)
    return Levels((codes,), (tuple(map(str, codes)),), (np.zeros(count),), None)


@st.composite
def tables(draw, link):
    """(rows of texts, whose they are, the illness of each person)."""
    people = draw(st.integers(3, 6))
    row = st.tuples(*map(st.sampled_from, VALUES))
    most = 1 if link == "rows" else 3
    held = [draw(st.lists(row, min_size=1, max_size=most)) for _ in range(people)]
    illness = draw(st.lists(st.sampled_from(["flu", "cold", "rash"]), min_size=people, max_size=people))
    return [one for rows in held for one in rows], [who for who, rows in enumerate(held) for _ in rows], illness


def classes(table, node, link, people):
    """The sets of people who look alike at a node, of those in ``people``."""
    rows, whose, _ = table
    shown = [tuple(h.rungs(v)[level][0] for h, v, level in zip(HIERARCHIES, row, node, strict=True)) for row in rows]
    found = defaultdict(set)
    for who in people:
        held = [one for one, person in zip(shown, whose, strict=True) if person == who]
        for key in [tuple(sorted(held))] if link == "person" else held:
            found[key].add(who)
    return list(found.values())


def meets(table, node, link, people, asked):
    """Whether some people alone have what is asked."""
    illness = table[2]
    for group in classes(table, node, link, people):
        counts = Counter(illness[who] for who in group)
        if len(group) < asked["k"] or len(counts) < asked.get("distinct", 0):
            return False
        shares = [count / len(group) for count in counts.values()]
        if math.exp(-sum(p * math.log(p) for p in shares)) < asked.get("entropy", 0) - 1e-9:
            return False
        everyone = Counter(illness)
        away = sum(abs(counts[v] / len(group) - everyone[v] / len(illness)) for v in everyone) / 2
        if away > asked.get("t", 1) + 1e-9:
            return False
    return True


def brute_force(table, link, asked, budget):
    """The minimal nodes: every set of at most ``budget`` people is tried as those who are left out."""
    everyone = range(len(table[2]))
    passing = {
        node
        for node in itertools.product(range(3), range(3), range(2))
        if any(
            meets(table, node, link, set(everyone) - set(gone), asked)
            for size in range(min(budget, len(everyone) - 1) + 1)
            for gone in itertools.combinations(everyone, size)
        )
    }
    return {
        node
        for node in passing
        if not any(other != node and all(a <= b for a, b in zip(other, node, strict=True)) for other in passing)
    }


def frequencies_of(table, link):
    """As the publisher has them, and the levels of the illness."""
    rows, whose, illness = table
    encoded = [encode("column", [row[at] for row in rows], h) for at, h in enumerate(HIERARCHIES)]
    codes, levels = encode("illness", illness, ILLNESS)
    columns = [one for _, one in encoded], [one for one, _ in encoded]
    return Frequencies.of(link, *columns, np.array(whose), {"illness": codes}), levels


@pytest.mark.parametrize("link", ["person", "none", "rows"])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_search_finds_what_brute_force_finds(link, data):
    table = data.draw(tables(link))
    frequencies, levels = frequencies_of(table, link)
    kind = data.draw(st.sampled_from(["k", "distinct", "entropy", "t"] if link != "none" else ["k", "distinct"]))
    budget = 0 if kind in ("entropy", "t") else data.draw(st.integers(0, 2))
    asked = {"k": data.draw(st.integers(2, 3))}
    sensitive = {}
    if kind != "k":
        asked[kind] = {"distinct": 2, "entropy": 1.6, "t": data.draw(st.sampled_from([0.1, 0.3]))}[kind]
        key = {"distinct": "distinct_l", "entropy": "entropy_l", "t": "t"}[kind]
        sensitive = {"illness": Sensitive(levels, **{key: asked[kind]})}
    found = search(frequencies, Criteria(asked["k"], sensitive), budget=budget)
    assert set(found.minimal) == brute_force(table, link, asked, budget)


def counter_example():
    """Two classes of people: ten with each value, and twelve with one alone."""
    tree = Tree(kind="tree", tree=["first", "second"])
    cells = ["first"] * 20 + ["second"] * 12
    codes, levels = encode("column", cells, tree)
    values = np.array([0] * 10 + [1] * 10 + [0] * 12)
    return Frequencies.of("rows", [levels], [codes], np.arange(32), {"illness": values})


@pytest.mark.parametrize("asked", [{"entropy_l": 2.0}, {"t": 0.2}])
def test_entropy_l_and_t_are_refused_with_a_budget_for_they_are_not_monotone(asked):
    frequencies = counter_example()
    criteria = Criteria(2, {"illness": Sensitive(plain(2), **asked)})
    apart = kept(frequencies, frequencies.classes((0,)), criteria, budget=32)
    if "entropy_l" in asked:  # 12 people apart, all 32 together: one step up is worse
        assert apart.sum() == 20
        assert kept(frequencies, frequencies.classes((1,)), criteria, budget=31) is None
    with pytest.raises(BadInput, match="not monotone under suppression"):
        search(frequencies, criteria, budget=12)
    assert search(frequencies, criteria).minimal == (((1,),) if "t" in asked else ())


def test_entropy_l_and_t_are_refused_where_people_of_several_rows_are_counted_once():
    tree = Tree(kind="tree", tree=["first", "second"])
    codes, levels = encode("column", ["first", "first", "second", "second"], tree)
    illness = np.array([0, 1, 0])  # the second person has a row in both classes
    frequencies = Frequencies.of("none", [levels], [codes], np.array([0, 1, 1, 2]), {"illness": illness})
    criteria = Criteria(2, {"illness": Sensitive(plain(2), entropy_l=2.0)})
    assert not criteria.failing(frequencies, frequencies.classes((0,))).any()
    assert criteria.failing(frequencies, frequencies.classes((1,))).any()
    with pytest.raises(BadInput, match="counted once and not linked"):
        search(frequencies, criteria)


def test_people_of_equal_rows_in_another_order_are_alike_and_of_one_more_are_not():
    tree = Tree(kind="tree", tree=["a", "b"])
    codes, levels = encode("column", ["a", "b", "b", "a", "a", "b", "b"], tree)
    person = np.array([0, 0, 1, 1, 2, 2, 2])
    frequencies = Frequencies.of("person", [levels], [codes], person, {})
    number = frequencies.classes((0,)).number
    assert number[0] == number[1] != number[2]
    assert len(set(frequencies.classes((1,)).number.tolist())) == 2  # two rows, and three


def test_keys_of_many_columns_stay_apart():
    columns = [np.array([0, 1, 2**20 - 1, 1])] * 5
    key, size = combined(columns, [2**20] * 5)
    assert numbered(key, size).tolist() == [0, 1, 2, 1]


def test_distances_by_hand():
    assert entropy_l(np.array([[5, 5], [10, 0]])).tolist() == pytest.approx([2, 1])
    _, levels = encode("illness", ["flu", "cold", "rash"], ILLNESS)
    cells, everyone = np.array([[1.0, 0, 0]]), np.array([1.0, 1, 1])
    assert closeness(cells, everyone, "equal", levels) == pytest.approx(2 / 3)
    # Of the extra 2/3, 1/3 goes to the cold at half the height of the tree, and 1/3 to the rash at all of it.
    assert closeness(cells, everyone, "hierarchical", levels) == pytest.approx(1 / 3 * 1 / 2 + 1 / 3)
    _, line = encode("count", ["0", "1", "2"], Ranges(kind="ranges", low=0, high=2, widths=[]))
    assert closeness(cells, everyone, "ordered", line) == pytest.approx((2 / 3 + 1 / 3) / 2)


def test_what_is_above_a_node_that_will_do_is_not_checked():
    table = ([("a", "0", "u")] * 4, [0, 1, 2, 3], ["flu"] * 4)
    frequencies, _ = frequencies_of(table, "rows")
    found = search(frequencies, Criteria(2))
    assert (found.minimal, found.checked, found.nodes) == (((0, 0, 0),), 7, 18)  # the lowest node of each subset
