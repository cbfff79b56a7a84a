"""The attack on a whole publication finds planted leaks: over linked frames, in columns, and in both together."""

from dataclasses import replace

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.attacks.families.boosting import GradientBoosting
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.attacks.problem import BUDGETS, Problem
from edgeveil.trainer.attacks.rows import question_of_fresh
from edgeveil.trainer.attacks.run_all import run
from edgeveil.trainer.ext.publish.actions import Attack
from edgeveil.trainer.ext.publish.attack import attack, copies, require, summed
from edgeveil.trainer.ext.publish.attack_units import units
from tests.support.publishing.linked_frames import made

ASKED = Attack(sensitive="z", points=10, bits=0.1)
FAST = (Logistic(),)


def found(asked=ASKED, families=FAST, **leak):
    """The attack on a publication of ``made``."""
    published, z = made(**leak)
    return attack(published, z, asked, families=families)


def over(document):
    """The views in which a limit is exceeded."""
    return {one["view"] for one in document["exceeded"]}


def test_linked_frames_tell_what_single_ones_hide():
    linked, alone = found(shift=0.35, each=16), found(shift=0.35, each=16, linked=False)
    assert linked["unit"] == "person"
    assert over(linked) == {"frames", "both"}
    assert linked["views"]["frames"]["verdict"]["word"] == linked["verdict"] == "leaks"
    assert linked["views"]["frames"]["best"]["accuracy"] > 0.68
    assert linked["views"]["columns"]["best"]["low"] < 0.5
    assert alone["unit"] == "row"
    assert over(alone) == set()
    assert alone["views"]["frames"]["best"]["accuracy"] < 0.62


def test_what_no_mean_shows_is_summed_up_from_single_frames():
    document = found(shape=True, each=3, families=(GradientBoosting(),))
    best = document["views"]["frames"]["best"]
    assert best["name"].endswith("summed up over linked frames")
    assert best["accuracy"] > 0.95
    assert over(document) >= {"frames"}


def test_a_column_tells_alone_and_with_frames():
    document = found(column=True, each=5)
    assert over(document) == {"columns", "both"}
    with pytest.raises(LimitNotMet, match=r'of "z", from the columns alone, attacks may reach .* points.*Drop or gen'):
        require(document)


def test_frames_and_columns_together_are_more_than_either():
    asked = Attack(sensitive="z", points=30, bits=0.4)
    document = found(asked, column=True, shift=0.7, each=2, people=900)
    right = {name: part["best"]["accuracy"] for name, part in document["views"].items()}
    assert right["both"] > max(right["columns"], right["frames"]) + 0.02


def test_nothing_is_found_where_nothing_is():
    document = found(people=1500, each=2)
    assert document["verdict"] == "nothing found"
    assert document["exceeded"] == []
    require(document)
    with pytest.raises(LimitNotMet, match=r"upper end of 95 %.*the plan allows 0.5 \(attack.points\)"):
        require(found(Attack(sensitive="z", points=0.5, bits=0.1), people=100, each=2))


def test_nobody_is_learned_from_and_attacked():
    """Frames that are a person's own, and tell nothing of z but by knowing who it is."""
    published, z = made(people=40, each=25, linked=False)
    own = np.random.default_rng(5).normal(scale=5, size=(40, 4, 4, 1)).astype(np.float32)
    known = replace(published, outputs={"x": published.outputs["x"] + own[published.person]})
    assert attack(known, z, ASKED, families=FAST)["views"]["frames"]["best"]["accuracy"] < 0.7
    strangers = replace(known, whose=list(range(1000)))
    assert attack(strangers, z, ASKED, families=FAST)["views"]["frames"]["best"]["accuracy"] > 0.8


def test_a_person_to_choose_by_in_two_folds_is_summed_up_in_each():
    published, z = made(people=60, each=5, shift=0.5)
    labels = np.array([int(one) for one in z])
    single = units(published, np.zeros(300, np.int64), labels).single
    spec, rows = single
    empty = rows.take(np.empty(0, np.int64))
    counted = np.array([[0.5, 0.5]])
    blank = Problem(spec, counted, counted, empty, empty, empty, empty, BUDGETS["quick"])
    question = question_of_fresh(rows, blank, seed=0)
    found = summed(question, run(question, families=FAST).most_bits)
    each = [len(np.unique(fold.choose.cluster)) for fold in question.settings[0].folds]
    assert len(found.choose) == sum(each) > len(np.unique(question.whole.choose.cluster))
    assert len(found.test) == 60


def test_where_z_changes_from_row_to_row_the_unit_is_a_row():
    document = found(shift=1.5, z_of_rows=True, each=6, people=200)
    assert document["unit"] == "row"
    assert over(document) == {"frames", "both"}
    assert document["views"]["frames"]["units"] == 1200


def test_y_is_what_attackers_know_already():
    published, z = made(people=1500, each=2)
    asked = Attack(sensitive="z", target="y", points=10, bits=0.1)
    document = attack(published, z, asked, y=z, families=FAST)
    assert document["views"]["frames"]["chance"] == 1
    assert over(document) == set()


@pytest.mark.parametrize(
    ("leak", "said"),
    [
        ({"people": 90}, "needs 91 people at least; there are 90"),
        ({"people": 14, "each": 30, "z_of_rows": True}, "needs 16 people at least; there are 14"),
    ],
)
def test_too_few_people_are_refused(leak, said):
    with pytest.raises(BadInput, match=said):
        found(**leak)


def test_rare_values_are_left_out_and_said():
    published, z = made(people=300, each=2, shift=0.1)
    z[0] = z[1] = "rare"
    document = attack(published, z, ASKED, families=FAST)
    assert document["left_out_values"] == 1
    assert document["rows"] == 598
    with pytest.raises(BadInput, match="two values at least were expected"):
        attack(published, ["one"] * 600, ASKED, families=FAST)
    with pytest.raises(BadInput, match="has 600 different values, and an attack takes 50"):
        attack(published, [str(one) for one in range(600)], ASKED, families=FAST)


def test_frames_that_are_records_are_counted_for_whom_they_are_of():
    published, _ = made(people=20, each=2)
    frames = published.outputs["x"]
    records = [
        (99, frames[0].tobytes()),
        (7, frames[14].tobytes()),
        (5, frames[3].tobytes()),
        (99, frames[3].tobytes()),
    ]
    records += [(1, frames[2].tobytes()), (8, frames[2].tobytes())]  # its own person's, and by chance another's
    records += [(who, np.full((4, 4, 1), who, np.float32).tobytes()) for who in range(20)]
    assert copies(published, records) == {"rows": 40, "own": 2, "others": 2, "people": 2}
