"""Audits of schema 1, of which each kind of fact had a form of its own, read as the findings of schema 2.

Bundles and export folders of older versions have such audits. They are read for ever, and nothing writes them.
"""

import functools
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional

# Of an attack, after the figure: its value, both ends, and what y alone reaches.
ATTACK = (
    ("right", "accuracy", "low", "high", ""),
    ("auc", "auc", "", "", ""),
    ("bits", "bits", "bits_low", "bits_high", ""),
    ("bits-counted", "bits_counted", "bits_counted_low", "bits_counted_high", ""),
    ("balanced", "balanced", "balanced_low", "balanced_high", "balanced_chance"),
    ("recognised", "tpr", "tpr_low", "tpr_high", ""),
    ("worst-class", "worst_class", "worst_class_low", "worst_class_high", "worst_class_chance"),
)
# The rows and the p-value behind a figure.
_ROWS = {"recognised": ("tpr_rows", "tpr_p"), "worst-class": ("worst_class_rows", "")}
_CHOSEN_BY = {"right": "validation_accuracy", "bits-counted": "validation_bits"}
_NULL = {"auc": 0.5, "bits": 0.0, "bits-counted": 0.0, "recognised": 0.01}
_CHOSEN = {"right": "worst_adaptive", "bits-counted": "most_bits"}
_PART = (
    *("target", "chance", "adversaries", "not_run", "worst_adaptive", "most_bits", "learning_curve", "permutation"),
    *("counting", "parts", "what_else", "verdict", "warnings"),
)
_KEPT = (
    *("kind", "created", "artefact", "speaks_of", "pipeline", "backends", "perturber", "data", "intervals", "budget"),
    *("seed", "versions", "machine", "wall_time_s", "limits", "warnings", "not_covered", "histogram", "on_board"),
)


def as_schema_2(document: Mapping[str, Any]) -> Dict[str, Any]:
    """An audit with its ``others`` as one of schema 2; what is of another schema stays as it is.

    Raises ``LookupError``, ``TypeError``, ``ValueError`` or ``AttributeError`` for what is no audit.
    """
    converted = dict(document)
    if document["schema"] == 1:
        converted = {name: document[name] for name in _KEPT if name in document}
        converted.update(schema=2, findings=list(_findings(document)), verdict=_verdict(document.get("verdict")))
    if "others" in document:
        converted["others"] = [as_schema_2(other) for other in document["others"]]
    return converted


def _verdict(verdict: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """None where the audit was made before there was a verdict."""
    if verdict is None:
        return None
    word = "nothing found" if verdict["word"] == "holds" else verdict["word"]
    reasons = list(verdict.get("reasons", []))
    limit = verdict.get("limit", {})
    more = {"line": "; ".join(reasons), "findings": [], "reasons": reasons, "needed": verdict.get("needed")}
    return dict(
        more, word=word, limit={name: limit.get(name, 0.0) for name in ("points", "bits")}, upper=verdict["upper"]
    )


def _findings(document: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
    y, z = document["data"]["target"], document["data"]["sensitive"]
    sides = [("sent", document)] + ([("label-only", document["label_only"])] if document.get("label_only") else [])
    for of, part in sides:
        for one in _part(part, y, z):
            yield one if of == "sent" else dict(one, of=of)
    for one in _read("probes", document, _probes):
        yield one
    for name, of in (("target", y), ("sensitive", z)):
        if name in document.get("raw", {}):
            facts = _rate(of, "D_y" if name == "target" else "D_z", document["raw"][name], {"kind": "reader"})
            yield dict(facts, of="raw")
    for name in sorted(set(document) - set(_KEPT) - set(_PART) - {"schema", "label_only", "raw", "probes", "others"}):
        if isinstance(document[name], dict):
            for one in _read(name, document, functools.partial(_section, name, z=z)):
                yield one


def _part(part: Mapping[str, Any], y: str, z: str) -> Iterator[Dict[str, Any]]:
    """What was found about one perturber."""
    yield _rate(y, "D_y", part["target"], {"kind": "reader"})
    chance = part["chance"]
    if sorted(chance) != ["majority", "prior"]:
        raise ValueError("chance: expected prior and majority, and nothing else")
    for name in ("prior", "majority"):
        yield {"question": z, "name": name, "figure": "right", "value": chance[name], "more": {"kind": "guess"}}
    chosen = {figure: _without(part[name], "chosen_on") for figure, name in _CHOSEN.items()}
    for figure, row in chosen.items():
        if row["kind"] != "adaptive" or row not in part["adversaries"]:
            raise ValueError("{}: expected one of the adaptive attacks listed".format(_CHOSEN[figure]))
    best = {figure: part["adversaries"].index(row) for figure, row in chosen.items()}
    for place, row in enumerate(part["adversaries"]):
        for one in _attack(row, z, max(chance.values()), [name for name in best if best[name] == place]):
            yield one
    most = _question(z, chosen["bits-counted"])
    counted = _question(z, {"name": "code counts", "learned_on": "crossed"})
    for name, convert in (
        ("not_run", lambda found: [_not_run(left, z) for left in found]),
        ("permutation", lambda found: [_test(found, "test", most)]),
        ("counting", lambda found: [_test(found, "counting", counted)]),
        ("parts", lambda found: [finding for one in found for finding in _rows(one, most)]),
        ("learning_curve", lambda found: _curve(found, z)),
        ("what_else", _labels),
    ):
        for one in _read(name, part, convert):
            yield one
    for name in sorted(set(part) & {"collateral"} if "data" not in part else ()):
        yield {"question": name, "name": name, "more": dict(part[name], kind=name)}


def _read(
    name: str, part: Mapping[str, Any], convert: Callable[[Any], Iterable[Dict[str, Any]]]
) -> List[Dict[str, Any]]:
    """The findings of one field, by which nothing is decided: one of an older form is one finding with all of it."""
    content = part.get(name)
    if not content:
        return []
    try:
        return list(convert(content))
    except (LookupError, TypeError, ValueError, AttributeError):
        return [{"question": name, "name": name, "more": {"kind": "schema 1", "found": content}}]


def _not_run(left: Mapping[str, Any], z: str) -> Dict[str, Any]:
    kind = left.get("kind", "adaptive")
    return {"question": z, "name": left["name"], "not_run": left["reason"], "more": {"kind": kind}}


def _test(test: Mapping[str, Any], kind: str, facts: Mapping[str, Any]) -> Dict[str, Any]:
    more = dict(kind=kind, **_without(test, "gain", "p"))
    return dict(facts, figure="gain", value=test["gain"], p=test["p"], more=more)


def _question(z: str, row: Mapping[str, Any]) -> Dict[str, Any]:
    facts = {"question": z, "name": row["name"], "learned_on": row.get("learned_on", "old")}
    return dict(facts, seed=row["seed"]) if "seed" in row else facts


def _attack(row: Mapping[str, Any], z: str, chance: float, chosen: List[str]) -> Iterator[Dict[str, Any]]:
    for figure, value, low, high, base in ATTACK:
        ends = [row.get(end) for end in (low, high)]
        rows, p = _ROWS.get(figure, ("", ""))
        facts = [row.get(value), *ends, row.get(base), row.get(rows) or None]
        if facts == [None] * 5 and figure not in _CHOSEN:
            continue
        finding = dict(_question(z, row), figure=figure, value=row.get(value), more={"kind": row["kind"]})
        if ends != [None, None]:
            finding["interval"] = ends
        null = chance if figure == "right" else row.get(base) if base else _NULL.get(figure)
        if null is not None:
            finding["null"] = null
        if row.get(_CHOSEN_BY.get(figure, "")) is not None:
            finding["chosen_by"] = row[_CHOSEN_BY[figure]]
        if figure == "right":
            finding["more"].update(
                {name: row[name] for name in ("train_samples", "seconds", "members") if row.get(name)}
            )
        finding.update({to: row[of] for to, of in (("rows", rows), ("p", p)) if row.get(of) is not None})
        if figure in chosen:
            finding["more"]["chosen"] = True
        yield finding


def _rate(question: str, name: str, value: Mapping[str, Any], more: Dict[str, Any]) -> Dict[str, Any]:
    finding = {"question": question, "name": name, "figure": "right", "value": value["accuracy"], "more": more}
    return dict(finding, interval=[value["low"], value["high"]])


def _spread(figure: str, value: Mapping[str, Any]) -> Dict[str, Any]:
    return {"figure": figure, "value": value["mean"], "interval": [value["low"], value["high"]]}


def _rows(one: Mapping[str, Any], facts: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """A part of the rows."""
    more = {"kind": "part", "about": one["name"], "cut": one["kind"], "units": one["units"]}
    facts = dict(facts, rows=one["rows"], more=more)
    if one["right"] is not None:
        yield dict(facts, null=one["chance"], **_without(_rate("", "", one["right"], {}), "question", "name", "more"))
    if one["bits"]["mean"] is None:
        yield dict(facts, not_run="{} rows are too few for a figure".format(one["rows"]))
    else:
        known = {} if one["p"] is None else {"p": one["p"]}
        yield dict(facts, null=0.0, **dict(known, **_spread("bits-counted", one["bits"])))


def _curve(curve: Mapping[str, Any], z: str) -> Iterator[Dict[str, Any]]:
    about = {"question": z, "name": curve["name"], "seed": curve["seed"]}
    for point in curve["points"]:
        more = {"kind": "curve", "about": "{} rows".format(point["rows"]), "train_samples": point["rows"]}
        yield dict(_rate(z, curve["name"], point, more), seed=curve["seed"])
    ends = [curve["gain_low"], curve["gain_high"]]
    more = {"kind": "curve", "rising": curve["rising"]}
    yield dict(about, figure="difference", value=curve["gain"], interval=ends, more=more)


def _labels(labels: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
    worst = labels["worst"]
    for label in labels["labels"]:
        facts = {"question": label["name"], "name": label["attack"], "learned_on": label["learned_on"]}
        more = dict(kind="label", **{name: label[name] for name in ("classes", "ordered", "questions")})
        yield dict(_rate(label["name"], label["attack"], label["right"], more), null=label["chance"], **facts)
        yield dict(facts, null=0.0, more={"kind": "label"}, **_spread("bits-counted", label["bits"]))
        for name in ("worst_grouping", "worst_threshold"):
            one = label[name]
            if one is None:
                continue
            more = {"kind": "side", "about": one["question"], "threshold": name == "worst_threshold"}
            more["read"] = one["read"]
            if worst is not None and (worst["label"], worst["question"]) == (label["name"], one["question"]):
                more["worst"] = True
            known = {} if one["p"] is None else {"p": one["p"]}
            yield dict(facts, null=0.5, more=more, **dict(known, **_spread("auc", one["auc"])))
            yield dict(facts, null=0.0, more=more, **dict(known, **_spread("bits-counted", one["bits"])))
    for left in labels["skipped"]:
        yield {"question": left["name"], "name": "", "not_run": left["reason"], "more": {"kind": "label"}}


def _probes(probes: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
    for asks, rows in probes.items():
        for row in rows:
            yield _probe(asks, row)


def _probe(asks: str, row: Mapping[str, Any]) -> Dict[str, Any]:
    finding = {"question": asks, "name": row["name"], "more": {"kind": "probe"}}
    if "not_run" in row:
        return dict(finding, not_run=row["not_run"])
    figure = "auc" if "AUC" in row["name"] else "share" if 0 <= row["value"] <= 1 else "number"
    finding.update(figure=figure, value=row["value"], interval=[row["low"], row["high"]], rows=row["n"])
    finding["text"] = row["meaning"]
    return finding if row["chance"] is None else dict(finding, null=row["chance"])


def _section(name: str, section: Mapping[str, Any], z: str) -> Iterator[Dict[str, Any]]:
    """A section of its own form: the two bounds that there were, and one finding with all that it says, which is a
    promise where it was given."""
    sentence = str(section.get("sentence", ""))
    given = name == "spending" or section.get("given") or (section.get("certificate") or {}).get("given")
    if name == "certificate":
        one = section.get("per_code") or {}
        bounds = (
            (z, "counted channel", "right", section, section.get("bound"), "plug_in"),
            ("channel", "worst code", "factor", one, one.get("factor"), "estimate"),
        )
        for question, law, figure, part, value, estimate in bounds:
            if part.get("given") and value is not None:
                more = {"kind": name, "tried": part["tried"]}
                facts = {"question": question, "name": law, "figure": figure, "value": value, "bound": True}
                yield dict(facts, interval=[part[estimate], value], text=str(part.get("sentence", "")), more=more)
    if isinstance(section.get("population_free"), str):
        yield {"question": name, "name": "channel", "text": section["population_free"], "bound": True}
    promise = {"bound": True} if given and name != "certificate" else {}
    yield dict(promise, question=name, name=name, text=sentence, more=dict(section, kind=name))


def _without(record: Mapping[str, Any], *names: str) -> Dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}
