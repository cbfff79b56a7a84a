"""Four words, by the ends of intervals: few rows never look better, and an older audit never flatters."""

import copy
import dataclasses

import pytest

from edgeveil.edge_runtime.bundle.audit_figures import BOUNDED, CANNOT_TELL, HIDDEN, LABEL_ONLY, LEAKS, NOTHING_FOUND
from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.trainer.audit.findings import Finding, findings
from edgeveil.trainer.audit.sections.outlets_section import section
from edgeveil.trainer.audit.sections.stream_bound import section as stream_bound_section
from edgeveil.trainer.audit.verdict import DEFAULT, judge, verdict, words
from edgeveil.trainer.measures.composition import epsilon_of_all
from tests.support import audit_documents, bundles
from tests.support.audit_documents import before
from tests.support.promised import held_examples
from tests.support.promised.counting_bundle import counting_example

TRACK = {"hold": "track", "votes": 1, "period_s": None, "acknowledged": None}
ASKED = {"attack_points": None, "bits": None}


def document(*figures: float, **more: float) -> dict:
    """Rows of attacks, which are easier to change than findings."""
    return audit_documents.schema_1(audit_documents.document(*figures, **more))


def judged(made: dict, *further: Finding, **asked: float) -> dict:
    for name in ("worst_adaptive", "most_bits"):
        made[name] = next(row for row in made["adversaries"] if row["name"] == made[name]["name"])
    found = as_schema_2(made)
    found["findings"] += [one.as_json() for one in further]
    return judge(found, {**ASKED, **asked})


@pytest.mark.parametrize(
    ("best", "bits", "p", "expected"),
    [
        (0.61, 0.0, 0.4, NOTHING_FOUND),  # CNN: 62 + 2 - 60 = 4 points at most
        (0.63, 0.0, 0.4, CANNOT_TELL),  # 6 points at most, and none for sure
        (0.68, 0.0, 0.4, LEAKS),  # 68 - 2 - 60 = 6 points at least
        (0.61, 0.039, 0.4, NOTHING_FOUND),  # 0.049 bits at most
        (0.61, 0.05, 0.4, CANNOT_TELL),
        (0.61, 0.061, 0.4, LEAKS),  # 0.051 bits at least
        (0.61, 0.0, 0.001, NOTHING_FOUND),  # sure, but .002 bits
        (0.61, 0.039, 0.001, NOTHING_FOUND),  # sure, but .041 bits
        (0.61, 0.0385, 0.4, NOTHING_FOUND),
    ],
)
def test_the_word_follows_the_ends(best, bits, p, expected):
    assert judged(document(best, bits, p=p))["word"] == expected


def test_the_same_estimates_on_fewer_rows_do_not_look_better():
    made = document(0.60)
    assert judged(made)["word"] == NOTHING_FOUND
    for row in made["adversaries"]:
        row["low"], row["high"] = row["accuracy"] - 0.1, row["accuracy"] + 0.1
    assert judged(made)["word"] == CANNOT_TELL


def gains(made: dict) -> bool:
    """Whether something is surely gained, however little."""
    return any("surely gains" in reason for reason in judged(made)["reasons"])


def test_a_part_of_the_rows_on_which_much_is_surely_gained_leaks():
    made = document(0.61)
    made["parts"][0].update(p=0.01, bits={"mean": 0.2, "low": 0.1, "high": 0.3})
    assert judged(made)["word"] == LEAKS
    assert judged(made)["line"] == (
        "logistic regression surely gains at least 0.100 bits about 30 rows (surest twentieth; permutation test, "
        "corrected p = 0.010)"
    )
    made["parts"][0]["bits"] = {"mean": 0.01, "low": -0.01, "high": 0.3}  # little, though surely
    assert (judged(made)["word"], gains(made)) == (NOTHING_FOUND, True)
    made["parts"][0]["bits"]["mean"] = -0.01  # less worse than where z is shuffled: nothing is gained
    assert (judged(made)["word"], gains(made)) == (NOTHING_FOUND, False)
    made["parts"][0].update(p=0.011, bits={"mean": 0.2, "low": 0.1, "high": 0.3})
    assert judged(made)["word"] == NOTHING_FOUND


def test_an_effect_that_is_sure_and_tiny_is_said_with_its_size():
    made = document(0.61, 0.03, p=0.001)
    found = judged(made)
    assert found["word"] == NOTHING_FOUND
    assert found["reasons"][-1] == ("sure but tiny: an attack surely gains at least 0.020 bits per sample (p = 0.001)")
    assert found["line"].endswith(found["reasons"][-1])
    assert len(found["findings"]) == 2
    smaller = judged(document(0.61, 0.0002, p=0.001))["reasons"][-1]
    assert "an attack surely gains something, by estimate less than 0.001 bits per sample (p = 0.001)" in smaller
    made["permutation"]["gain"] = 0.06
    assert judged(made)["word"] == LEAKS


def test_without_tests_of_parts_the_whole_has_all_of_the_level():
    made = document(0.61, p=0.01)
    assert not gains(made)
    for one in made["parts"]:
        one["p"] = None
    assert gains(made)
    del made["parts"]
    assert gains(made)


@pytest.mark.parametrize(
    ("p", "counted", "apart", "expected"),
    [
        (0.4, 0.0025, True, True),  # a quarter of 1 %: another for the attack chosen, and half for the parts
        (0.4, 0.003, True, False),
        (0.0025, 0.4, True, True),
        (0.003, 0.4, True, False),
        (0.4, 0.005, False, True),
        (0.4, 0.006, False, False),
    ],
)
def test_counting_crossed_is_tested_beside_the_attack_that_was_chosen(p, counted, apart, expected):
    made = document(0.61, p=p)
    made["counting"] = {"p": counted, "gain": 0.01, "swapped": "rows"}
    for one in made["parts"]:
        one["p"] = one["p"] if apart else None
    assert gains(made) is expected
    for spoilt in ({"gain": -0.01}, {"swapped": "rows of clusters"}):
        worse = {**made, "counting": {**made["counting"], **spoilt}}
        assert gains(worse) is (p <= 0.0025)


def of_attribute(low: float, high: float, name: str = "digit", null: float = 0.5) -> Finding:
    """How an attribute of a joint z is read."""
    value, more = (low + high) / 2, {"kind": HIDDEN}
    return Finding(name, "an attack", "right", value, (low, high), null, chosen_by=value, more=more)


def test_an_attribute_of_a_joint_z_that_is_read_by_itself_leaks():
    made = document(0.61)
    assert judged(made, of_attribute(0.50, 0.54))["word"] == NOTHING_FOUND
    found = judged(made, of_attribute(0.52, 0.58))
    assert (found["word"], found["upper"]["points"]) == (CANNOT_TELL, 8.0)
    assert found["needed"]["more"] > 0
    found = judged(made, of_attribute(0.56, 0.60))
    assert found["word"] == LEAKS
    assert found["reasons"][0].startswith("an attack reads digit right at least 6.0 points more often than parity")
    two = of_attribute(0.552, 0.592), of_attribute(0.5, 0.54, "size")  # two share the error
    assert judged(made, two[0])["word"] == LEAKS
    assert judged(made, *two)["word"] == CANNOT_TELL


def test_a_bound_on_the_joint_z_is_one_on_each_attribute_by_its_own_chance():
    z, made = "less-than-five", document(0.60, 0.0)
    law = Finding(z, "law", "factor", 1.05, bound=True, text="counted")
    assert judged(made, law)["word"] == BOUNDED  # .6 by 1.05: 3 points
    assert judged(made, law, of_attribute(0.50, 0.53))["word"] == BOUNDED
    other = Finding(z, "law", "factor", 1.08, bound=True, text="counted")
    assert judged(made, other, of_attribute(0.50, 0.53))["word"] == BOUNDED
    assert judged(made, other, of_attribute(0.70, 0.73, null=0.7))["word"] == NOTHING_FOUND  # .7 by 1.08: 5.6 points
    right = Finding(z, "law", "right", 0.62, bound=True, text="counted")
    assert judged(made, right)["word"] == BOUNDED
    assert judged(made, right, of_attribute(0.50, 0.53))["word"] == NOTHING_FOUND


def test_counting_crossed_is_judged_by_its_own_interval():
    made = document(0.60)
    made["adversaries"][4].update(name="code counts", learned_on="crossed", accuracy=0.675, low=0.655, high=0.695)
    assert judged(made)["word"] == CANNOT_TELL  # no code was counted, so it is one attack of five
    made["counting"] = {"p": 0.4, "gain": 0.01, "swapped": "rows"}
    assert judged(made)["word"] == LEAKS
    assert judged(made)["reasons"] == [
        "code counts on crossed rows reads less-than-five right at least 5.5 points more often than parity alone "
        "(5 allowed)"
    ]


def test_the_limits_of_the_recipe_decide():
    made = document(0.61)
    assert judged(made)["limit"] == {"points": DEFAULT.points, "bits": DEFAULT.bits}
    assert judged(made, attack_points=3.9)["word"] == CANNOT_TELL
    assert judged(made, attack_points=4.1)["word"] == NOTHING_FOUND
    assert judged(made, bits=0.005)["word"] == CANNOT_TELL
    assert judged(document(0.68), attack_points=11.5)["word"] == NOTHING_FOUND


def test_balanced_accuracy_counts_too():
    made = document(0.60)
    made["adversaries"][3].update(balanced=0.56, balanced_low=0.54, balanced_high=0.58)
    assert judged(made)["word"] == CANNOT_TELL
    assert judged(made)["upper"]["balanced"] == pytest.approx(8)
    for row in made["adversaries"]:
        row.update(balanced=None, balanced_low=None, balanced_high=None, balanced_chance=None)
    assert judged(made)["word"] == NOTHING_FOUND  # z never varies within y: there is nothing to balance
    assert "balanced" not in judged(made)["upper"]


def test_an_attack_that_surely_recognises_the_most_exposed_leaks():
    """The chosen attacks, two of the five, share half of the error; the others the other half."""
    made = document(0.60)
    made["adversaries"][3].update(tpr=0.06, tpr_p=0.006)
    assert judged(made)["word"] == LEAKS
    assert judged(made)["reasons"] == [
        "BatchNorm MLP on fresh rows recognises 6.0 % of the most exposed samples at 1 % false positives, surely more "
        "than 3 times as many as others that it takes for them (p = 0.0060)"
    ]
    made["adversaries"][3].update(tpr_p=0.0064)
    assert judged(made)["word"] == NOTHING_FOUND


def test_the_luckiest_recognition_of_the_attacks_that_were_not_chosen_does_not_decide():
    made = document(0.60)
    chosen = {made[name]["name"] for name in ("worst_adaptive", "most_bits")}
    others = [row for row in made["adversaries"] if row["name"] not in chosen]
    others[0].update(tpr_p=0.0126 / len(others))
    assert judged(made)["word"] == NOTHING_FOUND
    others[0].update(tpr_p=0.0124 / len(others))
    assert judged(made)["word"] == LEAKS


def test_a_high_share_whose_threshold_may_be_luck_is_no_evidence():
    """As audits of before recorded it: an interval that takes the threshold as given."""
    made = document(0.60)
    for row in (made["worst_adaptive"], made["adversaries"][3]):
        row.update(tpr=0.06, tpr_low=0.031, tpr_high=0.1)
        del row["tpr_p"]
    assert judged(made)["word"] == NOTHING_FOUND


def test_the_luckiest_of_the_attacks_that_were_not_chosen_does_not_decide():
    """Of five attacks an interval of 99 % counts: 2.58 / 1.96 times as wide."""
    made = document(0.60)
    made["adversaries"][4].update(accuracy=0.675, low=0.655, high=0.695)  # half is .02, widened .0263
    assert judged(made)["word"] == CANNOT_TELL
    made["adversaries"][4].update(accuracy=0.677, low=0.657, high=0.697)
    assert judged(made)["word"] == LEAKS
    made["adversaries"][4].update(accuracy=0.675, low=0.655, high=0.695)
    made["worst_adaptive"] = copy.deepcopy(made["adversaries"][4])
    assert judged(made)["word"] == LEAKS


def test_a_permutation_test_of_dependent_rows_is_no_evidence():
    made = document(0.60, p=0.001)
    assert gains(made)
    made["permutation"]["swapped"] = "rows of clusters"
    assert not gains(made)


def test_an_attack_worse_than_counting_gains_nothing_for_sure():
    made = document(0.60, p=0.001)
    assert gains(made)
    made["permutation"]["gain"] = -0.02
    assert not gains(made)


def bound(figure: str, value: float, question: str = "less-than-five", **more: object) -> Finding:
    return Finding(question, "a law", figure, value, bound=True, text="under an assumption", **more)


@pytest.mark.parametrize(
    ("made", "bounds", "expected"),
    [
        (document(0.61), [bound("right", 0.64)], BOUNDED),
        (document(0.61), [bound("right", 0.66)], NOTHING_FOUND),
        (document(0.61), [bound("factor", 1.03)], BOUNDED),  # log2 of 1.03 is .043 bits, 1.03 times 60 % is 61.8 %
        (document(0.61), [bound("epsilon", 0.03)], BOUNDED),
        (document(0.61), [bound("epsilon", 1.0)], NOTHING_FOUND),
        (document(0.63), [bound("right", 0.64)], CANNOT_TELL),  # 6 points at most; none bounds balanced accuracy
        (document(0.63), [bound("factor", 1.03)], BOUNDED),
        (document(0.61), [bound("bits", 0.01)], NOTHING_FOUND),  # how often z is right has no bound
        (document(0.61), [bound("factor", 1.03, "channel")], NOTHING_FOUND),  # of something else
        (document(0.61), [bound("factor", 1.03, of=LABEL_ONLY)], NOTHING_FOUND),
        (document(0.68), [bound("factor", 1.03)], LEAKS),
    ],
)
def test_bounded_is_only_what_has_a_bound_within_the_limits(made, bounds, expected):
    assert judged(made, *bounds)["word"] == expected


def test_what_leaves_and_was_not_attacked_is_named_and_nothing_is_bounded_then():
    made, counts = document(0.61), section(counting_example()[0])
    assert (judged(made, bound("right", 0.64))["word"], len(counts)) == (BOUNDED, 1)
    found = judged(made, bound("right", 0.64), *counts)
    assert found["word"] == NOTHING_FOUND
    assert found["line"].endswith("; not of the counts, which leave as well and were not attacked")


def test_nothing_is_bounded_of_a_stream_of_which_one_frame_is():
    made, manifest = document(0.61), bundles.held_example()[0]
    held = judged(made, bound("right", 0.64), *stream_bound_section(manifest))
    assert held["word"] == BOUNDED
    assert held["line"].endswith("; for any number of frames of one track")
    (none,) = stream_bound_section({**manifest, "stages": bundles.numpy_example()[0]["stages"], "stream": None})
    found = judged(made, bound("right", 0.64), none)
    assert found["word"] == NOTHING_FOUND
    assert found["line"].endswith("; no bound for more than one frame of a stream")


def test_answers_of_a_promise_are_added_up_in_the_finding():
    manifest, _ = held_examples.parts("k-rr", "track")
    manifest["stream"]["draws"] = 40
    manifest["spending"] = {
        "micro_epsilon": 10**5, "unit": "release", "most_micro_epsilon": 10**7, "period_s": None,
    }  # fmt: skip
    (found,) = stream_bound_section(manifest)
    assert (found.bound, found.value, found.question) == (True, pytest.approx(4.0), "tracks")
    assert found.more["epsilon_at_delta"] == pytest.approx(epsilon_of_all(0.1, 40, 1e-6))
    assert found.more["epsilon_at_delta"] < 3.2
    assert "labels are part of the answers" in found.text
    one = judged(document(0.61), bound("right", 0.64), *stream_bound_section({**manifest, "stream": TRACK}))
    assert (one["word"], one["line"].endswith("; for any number of frames of one track")) == (BOUNDED, True)
    many = judged(document(0.61), bound("right", 0.64), found)  # the bound within the limit is of one answer
    assert (many["word"], many["line"].endswith("of one track, epsilon 4 in all")) == (NOTHING_FOUND, True)
    assert "1e-06)-differentially private as well." in found.text


def test_a_bound_is_named_with_its_upper_end_and_its_assumptions():
    others = bound("bits", 0.01), bound("right", 0.7)
    found = judged(document(0.61), *others, bound("right", 0.64))
    assert found["line"] == (
        "no attack reads less-than-five more than 4.0 points above a guess from parity alone, if what its bound "
        "assumes is true"
    )
    assert found["findings"] == [len(as_schema_2(document(0.61))["findings"]) + 2]
    tiny = judged(document(0.61, 0.03, p=0.001), dataclasses.replace(bound("right", 0.64), text="By a law."))
    assert "what its bound assumes is true; sure but tiny: " in tiny["line"]


def test_without_fresh_rows_nothing_holds():
    made = document(0.60)
    for row in made["adversaries"]:
        row["learned_on"] = "old" if row["kind"] == "adaptive" else "clean"
    found = judged(made)
    assert (found["word"], found["needed"]) == (CANNOT_TELL, None)
    assert found["reasons"] == ["no attack learned on rows that the perturber never saw"]


def test_how_many_more_rows_would_be_needed():
    """599 rows, the CNN at 64 to 60 with a half-width of 2: 1 point below its limit, so four times as many rows."""
    found = judged(document(0.63))
    assert found["word"] == CANNOT_TELL
    assert found["needed"] == {"unit": "rows", "total": 2396, "more": 1797}
    people = {**document(0.63), "data": {**document()["data"], "clusters": {"kind": "subject", "test": 30}}}
    assert judged(people)["needed"] == {"unit": "subjects", "total": 120, "more": 90}
    assert "about 90 more test subjects would be needed" in judged(people)["line"]


def test_an_end_that_is_not_known_is_no_small_one():
    made = document(0.60)
    made["adversaries"][3]["bits_counted_high"] = None
    found = judged(made)
    assert (found["word"], found["needed"]) == (CANNOT_TELL, None)
    assert found["upper"]["bits"] is None


def test_an_audit_of_before_is_judged_by_its_old_rows():
    old = as_schema_2(before(audit_documents.document(0.60)))
    assert old["verdict"] is None
    assert verdict(old)["word"] == CANNOT_TELL
    assert words(old).startswith("cannot tell: no attack learned on rows that the perturber never saw")
    assert verdict(as_schema_2(before(audit_documents.document(0.95))))["word"] == LEAKS
    assert judge(old, {}, of=LABEL_ONLY)["word"] == CANNOT_TELL


def test_the_verdict_names_the_findings_that_it_rests_on():
    made = audit_documents.document(0.95)
    found = [findings(made)[place] for place in made["verdict"]["findings"]]
    assert [(one.name, one.figure) for one in found] == [("CNN", "right"), ("CNN", "balanced")]
    assert words(made).startswith("leaks: CNN on fresh rows reads less-than-five right at least")
