"""Audits that no audit can have made, in bundles that are truly signed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from edgeveil.edge_runtime.manifest.schema import CARD_MEMBER, PRIVACY_MEMBER
from tests.hostile_bundles.museum import exhibit, exhibits
from tests.support import bundles


def _audited(change: Callable[[dict[str, Any]], object], *, card: bytes | None = None) -> bytes:
    """A signed bundle with a changed audit. Its card is ``card``, else it says what the audit says."""
    manifest, members = bundles.artefact_example()
    document = json.loads(members[PRIVACY_MEMBER])
    change(document)
    members[PRIVACY_MEMBER] = json.dumps(document).encode()
    members[CARD_MEMBER] = card or (bundles.card_of(document) if document else b"{}")
    return bundles.sealed(bundles.with_members(manifest, members), members)


def _attack(**figures: Any) -> Callable[[dict[str, Any]], None]:
    """The best attack with other figures, wherever it stands."""

    def change(document: dict[str, Any]) -> None:
        for row in (document["adversaries"][-1], document["worst_adaptive"], document["most_bits"]):
            row.update(figures)

    return change


def _other(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    """An audit of a further device beside the first, changed."""

    def add(document: dict[str, Any]) -> None:
        other = copy.deepcopy(document)
        other["on_board"] = {"board": "Pi", "architecture": "aarch64", "device": "cpu"}
        change(other)
        document["others"] = [other]

    return add


exhibits(
    _audited,
    ("bad-audit", "chance_of_two", lambda audit: audit["chance"].update(prior=2)),
    ("bad-audit", "chance_beyond_numbers", lambda audit: audit["chance"].update(majority=1e300)),
    ("bad-audit", "a_third_chance", lambda audit: audit["chance"].update(best=0.99)),
    ("bad-audit", "chance_that_no_attack_reaches", lambda audit: audit["chance"].update(prior=0.99)),
)


@exhibit("bad-audit")
def chance_above_its_own_counts() -> bytes:
    """One value of z is not that frequent with any y."""

    def change(audit: dict[str, Any]) -> None:
        audit["data"]["counts"] = [[150, 149], [160, 140]]
        audit["chance"].update(majority=0.6)

    return _audited(change)


@exhibit("bad-audit")
def counts_of_other_rows() -> bytes:
    return _audited(lambda audit: audit["data"].update(counts=[[200, 99], [200, 99]]))


@exhibit("bad-audit")
def chance_above_what_its_worst_class_says() -> bytes:
    """290 of 599 rows are of a class that the guess from y is never right on."""

    def change(audit: dict[str, Any]) -> None:
        _attack(worst_class_rows=290, worst_class_chance=0.0)(audit)
        audit["chance"].update(majority=0.6)

    return _audited(change)


exhibits(
    None,
    ("bad-audit", "balanced_chance_above_one_half", lambda: _audited(_attack(balanced_chance=0.9))),
    ("bad-audit", "attack_worse_than_any", lambda: _audited(_attack(accuracy=-1e308, low=-1e308, high=-1e308))),
    ("bad-audit", "attack_that_is_text", lambda: _audited(_attack(high="low"))),
    ("bad-audit", "attack_that_is_true", lambda: _audited(_attack(low=False))),
    ("bad-audit", "interval_beside_its_estimate", lambda: _audited(_attack(accuracy=0.9, low=0.4, high=0.5))),
    (
        "bad-audit",
        "interval_upside_down",
        lambda: _audited(_attack(bits_counted=0.1, bits_counted_low=0.2, bits_counted_high=0.0)),
    ),
    ("bad-audit", "recognised_more_often_than_always", lambda: _audited(_attack(tpr=1.5, tpr_low=1.0, tpr_high=2.0))),
)
exhibits(
    _audited,
    (
        "bad-audit",
        "best_attack_of_another_list",
        lambda audit: audit["worst_adaptive"].update(accuracy=0.5, low=0.5, high=0.5),
    ),
    (
        "bad-audit",
        "best_attack_that_is_not_adaptive",
        lambda audit: audit.update(worst_adaptive=audit["adversaries"][0]),
    ),
    ("bad-audit", "no_attack_at_all", lambda audit: audit.update(adversaries=[])),
)


@exhibit("bad-audit")
def verdict_below_its_attacks() -> bytes:
    upper = {"points": -50.0, "bits": None}
    return _audited(lambda audit: audit.update(verdict={"word": "cannot tell", "upper": upper}))


@exhibit("bad-audit")
def verdict_without_its_attacks() -> bytes:
    return _audited(lambda audit: audit.update(verdict={"word": "cannot tell", "upper": {}}))


@exhibit("bad-audit")
def verdict_that_holds_nothing() -> bytes:
    verdict = {"word": "holds", "upper": {"points": 15.0, "bits": None}, "limit": {"points": 5.0, "bits": 0.05}}
    return _audited(lambda audit: audit.update(verdict=verdict))


exhibits(
    _audited,
    ("bad-audit", "half_a_test_row", lambda audit: audit["data"]["rows"].update(test=0.5)),
    ("bad-audit", "no_test_rows", lambda audit: audit["data"]["rows"].update(test=0)),
    (
        "bad-audit",
        "more_people_than_rows",
        lambda audit: audit["data"].update(clusters={"kind": "subject", "test": 10**6}),
    ),
    ("bad-audit", "audit_of_another_attribute", lambda audit: audit["data"].update(sensitive="height")),
    ("bad-audit", "audit_of_another_target", lambda audit: audit["data"].update(target="height")),
    ("bad-audit", "audit_of_another_schema", lambda audit: audit.update(schema=2)),
    ("bad-audit", "audit_of_another_kind", lambda audit: audit.update(kind="edgeveil-pairs")),
    (
        "bad-audit",
        "audit_of_other_bytes_than_signed",
        lambda audit: audit.update(speaks_of={"tflite-int8": {"generator": "0" * 64}}),
    ),
    ("bad-audit", "audit_of_other_stages_than_signed", lambda audit: audit.update(pipeline={"tflite-int8": "0" * 64})),
    ("bad-audit", "audit_that_speaks_of_nothing", lambda audit: audit.update(speaks_of={}, pipeline={})),
)
exhibits(
    None,
    (
        "bad-audit",
        "another_attribute_among_the_others",
        lambda: _audited(_other(lambda other: other["data"].update(sensitive="height"))),
    ),
    (
        "bad-audit",
        "another_artefact_among_the_others",
        lambda: _audited(_other(lambda other: other["speaks_of"]["tflite-int8"].update(generator="0" * 64))),
    ),
    (
        "bad-audit",
        "chance_among_the_others",
        lambda: _audited(_other(lambda other: other["chance"].update(prior=1e300))),
    ),
    ("bad-audit", "others_among_the_others", lambda: _audited(_other(lambda other: other.update(others=[])))),
)
exhibits(
    _audited,
    ("bad-audit", "a_floor_out_of_range", lambda audit: audit["label_only"]["chance"].update(prior=2)),
)


@exhibit("bad-audit")
def a_section_out_of_range() -> bytes:
    section = {"questions": 3, "labels": [{"auc": {"mean": 0.9, "low": 0.1, "high": 0.2}}]}
    return _audited(lambda audit: audit.update(what_else=section))


exhibits(
    _audited,
    ("bad-audit", "a_number_beyond_all_measure", lambda audit: audit.update(wall_time_s=-1e308)),
)
exhibits(
    None,
    ("bad-audit", "a_count_of_a_fraction", lambda: _audited(_attack(train_samples=-0.5))),
)
exhibits(
    _audited,
    ("bad-audit", "audit_that_is_empty", lambda audit: audit.clear()),
)
exhibits(
    None,
    ("bad-audit", "card_that_is_empty", lambda: _audited(lambda _: None, card=b"{}")),
)


@exhibit("bad-audit")
def card_that_says_something_else() -> bytes:
    _, members = bundles.artefact_example()
    card = json.loads(members[CARD_MEMBER])
    card["artefacts"][0]["worst_adaptive"].update(accuracy=0.5, low=0.5, high=0.5)
    return _audited(lambda _: None, card=json.dumps(card).encode())


@exhibit("bad-audit")
def card_of_another_attribute() -> bytes:
    _, members = bundles.artefact_example()
    card = json.loads(members[CARD_MEMBER])
    card["sensitive"]["name"] = "height"
    return _audited(lambda _: None, card=json.dumps(card).encode())
