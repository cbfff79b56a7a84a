"""Audits that no audit can have made, in bundles that are truly signed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
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
    ("bad-audit", "audit_of_another_schema", lambda audit: audit.update(schema=3)),
    ("bad-audit", "audit_of_schema_2_without_findings", lambda audit: audit.update(schema=2)),
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
exhibits(_audited, ("bad-audit", "a_floor_out_of_range", lambda audit: audit["label_only"]["chance"].update(prior=2)))


@exhibit("bad-audit")
def a_section_out_of_range() -> bytes:
    section = {"questions": 3, "labels": [{"auc": {"mean": 0.9, "low": 0.1, "high": 0.2}}]}
    return _audited(lambda audit: audit.update(what_else=section))


exhibits(_audited, ("bad-audit", "a_number_beyond_all_measure", lambda audit: audit.update(wall_time_s=-1e308)))
exhibits(None, ("bad-audit", "a_count_of_a_fraction", lambda: _audited(_attack(train_samples=-0.5))))
exhibits(_audited, ("bad-audit", "audit_that_is_empty", lambda audit: audit.clear()))
exhibits(None, ("bad-audit", "card_that_is_empty", lambda: _audited(lambda _: None, card=b"{}")))


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


# Audits of schema 2: findings.


def _found(change: Callable[[dict[str, Any]], object], **settings: Any) -> bytes:
    """A signed bundle whose audit is one of schema 2, changed."""

    def renewed(document: dict[str, Any]) -> None:
        made = as_schema_2({**document, "verdict": VERDICT})
        change(made)
        document.clear()
        document.update(made)

    return _audited(renewed, **settings)


VERDICT = {"word": "cannot tell", "limit": {"points": 5.0, "bits": 0.05}, "upper": {"points": 15.0, "bits": None}}


def _of(name: str, figure: str, /, **facts: Any) -> Callable[[dict[str, Any]], None]:
    """The figures of one attack or reader with other facts."""

    def change(document: dict[str, Any]) -> None:
        for one in document["findings"]:
            if (one["name"], one.get("figure")) == (name, figure):
                one.update(facts)

    return change


def _without(name: str, figure: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        every = document["findings"]
        document["findings"] = [one for one in every if (one["name"], one.get("figure")) != (name, figure)]

    return change


def _bounded(value: float, figure: str = "right", **facts: Any) -> Callable[[dict[str, Any]], None]:
    """A verdict that is "bounded", and a bound on z."""

    def change(document: dict[str, Any]) -> None:
        z = document["data"]["sensitive"]
        bound = {"question": z, "name": "a law", "figure": figure, "value": value, "bound": True}
        document["findings"].append({**bound, **facts})
        for one in document["findings"]:
            if one.get("figure") == "bits-counted":
                one.update(value=0.01, interval=[-0.02, 0.04])
        document["verdict"].update(word="bounded", upper={"points": 15.0, "bits": 0.04})

    return change


def _wide(document: dict[str, Any]) -> None:
    """A verdict that is "bounded" where attacks alone stay within the limit."""
    _bounded(0.6, bound=False)(document)
    document["verdict"].update(limit={"points": 20.0, "bits": 0.1})


def _verdict(**facts: Any) -> Callable[[dict[str, Any]], None]:
    return lambda audit: audit["verdict"].update(facts)


exhibits(
    _found,
    ("bad-audit", "found_a_value_of_two", _of("forest", "right", value=2.0, interval=[0.5, 2.0])),
    ("bad-audit", "found_a_value_outside_its_interval", _of("forest", "right", interval=[0.7, 0.8])),
    ("bad-audit", "found_an_area_of_two", _of("forest", "auc", value=2.0)),
    ("bad-audit", "found_an_area_outside_its_interval", _of("forest", "auc", interval=[0.7, 0.8])),
    ("bad-audit", "found_an_interval_without_a_value", _of("forest", "auc", value=None, interval=[0.4, 0.6])),
    ("bad-audit", "found_an_attack_without_an_upper_end", _of("forest", "right", interval=[0.6, None])),
    ("bad-audit", "found_a_figure_that_there_is_not", _of("forest", "auc", figure="trust")),
    ("bad-audit", "found_a_value_of_no_figure", _of("forest", "auc", figure="")),
    ("bad-audit", "found_a_key_that_there_is_not", _of("forest", "auc", vouched=True)),
    ("bad-audit", "found_half_a_row", _of("forest", "right", rows=0.5)),
    ("bad-audit", "found_another_null_than_the_guess", _of("forest", "right", null=0.63)),
    ("bad-audit", "found_bits_over_another_null", _of("forest", "bits-counted", null=0.05)),
    ("bad-audit", "found_a_guess_above_every_attack", _of("majority", "right", value=0.9)),
    ("bad-audit", "found_no_guess", _without("prior", "right")),
    ("bad-audit", "found_no_bits_of_an_attack", _without("fixed", "bits-counted")),
    ("bad-audit", "found_nothing_kept", _without("D_y", "right")),
    ("bad-audit", "found_no_chosen_attack", _of("forest", "right", more={"kind": "adaptive"})),
    ("bad-audit", "found_a_fixed_attack_chosen", _of("fixed", "right", more={"kind": "fixed", "chosen": True})),
    ("bad-audit", "found_an_attack_on_something_else", _of("forest", "right", question="height")),
    ("bad-audit", "found_nothing", lambda audit: audit.update(findings=[])),
    ("bad-audit", "verdict_that_is_missing", lambda audit: audit.update(verdict=None)),
    ("bad-audit", "verdict_in_another_word", _verdict(word="holds")),
    ("bad-audit", "verdict_of_no_finding", _verdict(findings=[2000])),
    ("bad-audit", "verdict_below_its_findings", _verdict(upper={"points": 14.0, "bits": None})),
    (
        "bad-audit",
        "verdict_that_nothing_was_found",
        _verdict(word="nothing found", upper={"points": 15.0, "bits": None}),
    ),
    ("bad-audit", "verdict_bounded_beyond_its_limit", _bounded(0.6)),
    ("bad-audit", "verdict_bounded_by_a_bound_on_raw_samples", _bounded(0.52, of="raw")),
    ("bad-audit", "verdict_bounded_by_a_bound_on_bits", _bounded(0.01, "bits")),
    ("bad-audit", "verdict_bounded_without_a_bound", _bounded(0.52, bound=False)),
    ("bad-audit", "verdict_bounded_by_attacks_alone", _wide),
)


@exhibit("bad-audit")
def card_that_lists_other_findings() -> bytes:
    """The card is of schema 2 too."""

    def change(document: dict[str, Any]) -> None:
        _of("forest", "auc", value=0.7)(document)

    _, members = bundles.artefact_example()
    honest = as_schema_2({**json.loads(members[PRIVACY_MEMBER]), "verdict": VERDICT})
    return _found(change, card=bundles.card_of(honest))
