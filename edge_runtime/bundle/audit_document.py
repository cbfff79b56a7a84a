"""Whether an audit can be what an audit measures: figures in range, of this attribute, of these artefacts.

A signature says who sealed an audit, not that its numbers are numbers of anything: a chance of 2 or an accuracy of
-1e308 would meet every limit. Sealing, the policy, the preview and ``verify`` all read audits through here. An audit
that is refused is of no use to anyone, so the bundle is refused with it.

An audit is a list of findings (schema 2; one of schema 1 is read as such a list, ``audit_schema_1``). What an attack is
over chance decides, so chance is held to what else the audit says. ``data.counts`` are the test rows of each y by z,
most frequent first: no guess from y alone is right more often than the first of each, and neither chance may be above
that. (One below it makes an audit look worse, never better.) An older audit has no counts. There the guess from y by
counting is wrong on as many rows of the attack's worst class as its null says. In both, some attack's interval reaches
chance less 5 points, because each knows y; and balanced chance is from 1 / classes of z to 1 / 2, being the mean of
1 / values of z over those y that have two or more. An audit whose figures are all invented passes: a
countersignature is against that.
"""

import math
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional, Tuple

from edgeveil.edge_runtime.bundle.audit_figures import (
    BOUNDED,
    CANNOT_TELL,
    DONOR,
    FIGURES,
    LABEL_ONLY,
    LEAKS,
    MOST,
    NOTHING_FOUND,
    RAW,
    SENT,
    attacks,
    bounds,
    chances,
    kind_of,
    of_whom,
    readers,
    upper_ends,
)
from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.validate import ANY, Field, check, each, one_of, real, record, show, truth, whole

SCHEMA, KIND, CARD_KIND = 2, "edgeveil-audit", "edgeveil-privacy-card"
COUNTED = "counts of people"  # whose guarantee is not of the audit but of the manifest
_MOST_OTHERS = 64
_MOST_FINDINGS = 2**14
_MOST_CODES = 2**16
_MOST_LETTERS = 4000
_ROUNDED = 1e-3  # points: figures are written with six digits as shares, and taken times 100
_ROUNDED_SHARE = 1e-5
_BELOW = 0.05  # attacks that learned from few people may be worse than a guess from y


def _in_range(finding: Any, _owner: Any, _document: Any) -> Iterator[Tuple[str, str, str]]:
    """The rule of a finding: value and ends within the range of its figure, the value inside them."""
    value, name = finding.get("value"), finding.get("figure", "")
    ends = finding.get("interval", [None, None])
    if value is None:  # not measured
        if ends != [None, None]:
            yield "bad-audit", "value", "expected a number, got nothing"
        return
    if not name:
        yield "bad-audit", "figure", "a value is there and no figure is named"
        return
    figure = FIGURES[name]
    low, high = (value if end is None else end for end in ends)
    for one in (value, low, high):
        if not figure.low <= one <= figure.high:
            yield "bad-audit", "value", "expected {:g} to {:g}, got {}".format(figure.low, figure.high, show(one))
    if not low <= value <= high:
        yield "bad-audit", "value", "expected it inside its interval, got {} in [{}, {}]".format(value, low, high)
    of_null = finding.get("null")
    if of_null is not None and not figure.low <= of_null <= figure.high:
        yield "bad-audit", "null", "expected {:g} to {:g}, got {}".format(figure.low, figure.high, show(of_null))


_NUMBER = real(-MOST, MOST)
_WORDS = Field((str,), "text", wrong=lambda value: "" if len(value) <= _MOST_LETTERS else "expected less text")
_FINDING = record(
    {
        "question": _WORDS,
        "name": _WORDS,
        "figure?": one_of(FIGURES),
        "value?": real(-MOST, MOST, null=True),
        "interval?": each(real(-MOST, MOST, null=True), 2, 2),
        "null?": _NUMBER,
        "rows?": whole(),
        "learned_on?": _WORDS,
        "of?": one_of((SENT, LABEL_ONLY, RAW, DONOR)),
        "seed?": whole(),
        "chosen_by?": _NUMBER,
        "p?": real(0, 1),
        "bound?": truth(),
        "text?": _WORDS,
        "not_run?": _WORDS,
        "more?": ANY._replace(wrong=lambda value: "" if type(value) is dict else "expected an object"),
    },
    rule=_in_range,
)
_VERDICT = record(
    {
        "word": one_of((LEAKS, BOUNDED, NOTHING_FOUND, CANNOT_TELL)),
        "line": _WORDS,
        "findings": each(whole(0, _MOST_FINDINGS - 1), 0, 3),
        "reasons": each(_WORDS),
        "limit": record({"points": real(0, 100), "bits": real(0, 1000)}),
        "upper": record(
            {
                "points": real(-100, 100, null=True),
                "bits": real(-1000, 1000, null=True),
                "balanced?": real(-100, 100, null=True),
            }
        ),
        "needed": record({"unit": _WORDS, "total": whole(), "more": whole()}, null=True),
    }
)
# What the privacy card repeats of each audit, by the card's schema.
_ON_CARD = {
    1: ("artefact", "speaks_of", "pipeline", "target", "chance", "adversaries", "worst_adaptive", "most_bits"),
    2: ("artefact", "speaks_of", "pipeline", "findings", "verdict"),
}
# What these names mean wherever they stand in the document, as numbers.
_SHARES = {
    *("accuracy", "auc", "balanced_chance", "confidence", "majority", "p", "prior", "share", "tpr", "tpr_p"),
    *("validation_accuracy", "worst_class", "worst_class_chance"),
}
_COUNTS = {
    *("classes", "differ", "n", "questions", "releases", "rows", "shuffles", "tpr_rows", "tracks", "train_samples"),
    *("worst_class_rows", "y_classes", "z_classes"),
}
_CLASSES = (("y_classes", 1), ("z_classes", 2))
_ESTIMATES = ("accuracy", "mean", "share", "value", "correlation")


def read_audit(manifest: Manifest, members: Mapping[str, bytes]) -> Optional[Dict[str, Any]]:
    """The audit document of a verified bundle, checked and as schema 2; None where the bundle was not audited.

    Raises ``BundleRefused`` (``bad-audit``) for one that no audit can have made.
    """
    privacy = manifest.privacy
    if privacy.file is None:
        return None
    return check_audit(
        _parsed(members[privacy.file], "the document"),
        target=manifest.perturber.target,
        sensitive=manifest.perturber.sensitive,
        speaks_of=privacy.speaks_of,
        pipeline=privacy.pipeline,
    )


def check_audit(
    document: Any, *, target: str, sensitive: str, speaks_of: Mapping[str, Any], pipeline: Mapping[str, Any]
) -> Dict[str, Any]:
    """A parsed audit document as schema 2. Raise ``BundleRefused`` (``bad-audit``) for what is no audit of this bundle.

    ``target`` and ``sensitive`` are the attributes of the bundle, ``speaks_of`` and ``pipeline`` the hashes of its
    audited artefacts as its manifest has them. The document and each of its ``others`` are held to the same.
    """
    others = _object(document, "the document").get("others", [])
    if type(others) is not list or len(others) > _MOST_OTHERS:
        _untrue("others", "expected a list of at most {} audits".format(_MOST_OTHERS))
    spoken: Dict[str, Any] = {}
    parts = [("", document)] + [("others[{}].".format(n), one) for n, one in enumerate(others)]
    for at, part in parts:
        if at and "others" in _object(part, at[:-1]):
            _untrue(at + "others", "expected none inside another")
        if type(_value(part, "schema", at)) is not int or part["schema"] not in (1, SCHEMA):
            _untrue(at + "schema", "expected 1 or {}, got {}".format(SCHEMA, show(part["schema"])))
        if _value(part, "kind", at) != KIND:
            _untrue(at + "kind", "expected '{}', got {}".format(KIND, show(part["kind"])))
        if part["schema"] == SCHEMA and part.get("verdict") is None:
            _untrue(at + "verdict", "it is missing")
        _check_names(part, at)
    try:
        whole_document = as_schema_2(document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        _untrue("the document", "it lacks something, or has it in another form ({})".format(error))
    for at, part in [("", whole_document)] + list(zip((at for at, _ in parts[1:]), whole_document.get("others", []))):
        _check_part(part, at, target, sensitive)
        spoken.update(_check_hashes(part, at, speaks_of, pipeline))
    for artefact in speaks_of:
        if artefact not in spoken:
            _untrue("speaks_of", "no audit in it is of {}, which the manifest says is audited".format(artefact))
    return whole_document


def check_card(manifest: Manifest, members: Mapping[str, bytes], audit: Mapping[str, Any]) -> None:
    """Raise ``BundleRefused`` (``bad-audit``) where the privacy card of a bundle does not say what its audit says."""
    card = _parsed(members[str(manifest.privacy.card)], "the privacy card")
    document = audit
    if type(card) is dict and card.get("schema") == 1:  # it repeats the fields of an audit of that schema
        document = _parsed(members[str(manifest.privacy.file)], "the document")
    every = [one for part in [audit] + audit.get("others", []) for one in part["findings"]]
    promised = [one["text"] for one in every if one.get("bound") and one.get("text")]
    counted = manifest.counts is not None and manifest.counts.noise is not None
    try:
        known = card["kind"] == CARD_KIND
        names = _ON_CARD[card["schema"]]
        hidden = card["sensitive"]["name"]
        columns = [{name: one[name] for name in names} for one in card["artefacts"]]
        parts = [part for part in [document] + document.get("others", []) if part["speaks_of"]]
        same = columns == [{name: part[name] for name in names} for part in parts]
        if card["schema"] == 1:  # its verdict begins with the audit's word
            words = [(part.get("verdict") or {}).get("word", "") for part in parts]
            told = [str(one.get("verdict", "")) for one in card["artefacts"]]
            same = same and all(one.startswith(word) for one, word in zip(told, words) if one)
        sentences = [one["sentence"] for one in card.get("guarantees", []) if not counted or one["artefact"] != COUNTED]
        same = same and all(sentence in promised for sentence in sentences)
    except (LookupError, TypeError, AttributeError):
        _untrue("the privacy card", "it is empty, or lacks what a card says")
    if not known or hidden != manifest.perturber.sensitive or not same:
        _untrue("the privacy card", "it says something else than the audit next to it")


def _check_part(part: Dict[str, Any], at: str, target: str, sensitive: str) -> None:
    """One audit, of one artefact."""
    data = _object(_value(part, "data", at), at + "data")
    for name, wanted in (("target", target), ("sensitive", sensitive)):
        if _value(data, name, at + "data.") != wanted:
            words = "its audit is of {}, not of {}"
            _untrue("{}data.{}".format(at, name), words.format(show(data[name]), show(wanted)))
    rows = _object(_value(data, "rows", at + "data."), at + "data.rows")
    for name in sorted(rows):
        _count(rows[name], "{}data.rows.{}".format(at, show(name)), 0 if name == "attack" else 1)
    tested = _count(_value(rows, "test", at + "data.rows."), at + "data.rows.test", 1)
    classes = {name: _count(_value(data, name, at + "data."), at + "data." + name, least) for name, least in _CLASSES}
    clusters = data.get("clusters")
    if clusters is not None:
        place = at + "data.clusters"
        _count(_value(_object(clusters, place), "test", place + "."), place + ".test", 1, tested)
    most = 1.0
    if "counts" in data:
        most = _best_guess(data["counts"], at + "data.counts", classes, tested)
    if part.get("histogram") is not None:
        _check_histogram(_object(part["histogram"], at + "histogram"), at + "histogram.", tested)
    _held(_value(part, "findings", at), at + "findings", each(_FINDING, 1, _MOST_FINDINGS))
    if not any(one["name"] == "D_y" for one in readers(part)):
        _untrue(at + "findings", "none says how well {} is kept".format(show(target)))
    sides = {of_whom(one) for one in part["findings"]} & {SENT, LABEL_ONLY}
    for of in sorted(sides | {SENT}):
        _check_attacks(part, of, at + "findings: " + of, sensitive, tested, classes["z_classes"], most)
    if _value(part, "verdict", at) is not None:
        _check_verdict(part, at + "verdict.")


def _check_attacks(part: Mapping[str, Any], of: str, at: str, z: str, tested: int, classes: int, most: float) -> None:
    """The attacks on one output, and that neither chance is above what the rest allows; ``most`` is what counts do."""
    chance, findings = chances(part, of), attacks(part, of)
    if sorted(chance) != ["majority", "prior"]:
        _untrue(at, "expected prior and majority as guesses from y, and nothing else")
    for name in sorted(chance):
        _number(chance[name], at + ": " + name, 0.0, 1.0)
        if not 0 <= chance[name] <= most + _ROUNDED_SHARE:
            words = "{} is {:g}, and the best guess from y alone is right on {:g} of the test rows"
            _untrue(at, words.format(name, chance[name], most))
    right = [one for one in findings if one["figure"] == "right"]
    if not right:
        _untrue(at, "expected at least one attack on z, got none")
    for figure in ("right", "bits-counted"):
        mine = [one for one in findings if one["figure"] == figure]
        chosen = [one for one in mine if one["more"].get("chosen")]
        if len(mine) != len(right) or any(one.get("value") is None for one in mine):
            _untrue(at, "expected {} of every attack".format(figure))
        if len(chosen) != 1 or kind_of(chosen[0]) != "adaptive":
            _untrue(at, "expected one adaptive attack chosen by {}".format(figure))
    guess = max(chance.values())
    reached = max(_check_attack(one, at, z, guess, classes) for one in findings)
    if guess > reached + _BELOW:
        words = "a guess from y is right on {:g}, and no attack reaches more than {:g}, although each knows y"
        _untrue(at, words.format(guess, reached))
    for one in findings:
        # Rows that were tested crosswise are more than the test rows.
        if one["figure"] == "worst-class" and one.get("learned_on") != "crossed" and one.get("null") is not None:
            wrong = one.get("rows", 0) * (1.0 - one["null"])
            if chance["majority"] > 1.0 - wrong / tested + _ROUNDED_SHARE:
                words = "majority is {:g}, and the guess from y is wrong on {:.0f} of {} rows"
                _untrue(at, words.format(chance["majority"], wrong, tested))


def _check_attack(one: Mapping[str, Any], at: str, z: str, guess: float, classes: int) -> float:
    """One figure of an attack; returns the upper end of how often it is right, 0 for another figure."""
    if one["question"] != z:
        _untrue(at, "expected attacks on {}, got one on {}".format(show(z), show(one["question"])))
    null, figure = one.get("null"), one["figure"]
    if figure == "right":
        if null is None or abs(null - guess) > _ROUNDED_SHARE:
            _untrue(
                at, "expected the better guess {:g} as null of {}, got {}".format(guess, show(one["name"]), show(null))
            )
        if None in one.get("interval", [None]):
            _untrue(at, "expected both ends of how often {} is right".format(show(one["name"])))
        return float(one["interval"][1])
    if figure == "balanced" and null is not None:
        _number(null, at, 1.0 / classes - _ROUNDED_SHARE, 0.5 + _ROUNDED_SHARE)
    elif figure == "bits-counted" and null != 0:
        _untrue(at, "expected 0 as null of bits, got {}".format(show(null)))
    return 0.0


def _check_verdict(part: Mapping[str, Any], at: str) -> None:
    """Its upper ends are not below those of the attacks it is of, and its word is what they and the bounds show."""
    verdict = part["verdict"]
    _held(verdict, at[:-1], _VERDICT)
    if any(place >= len(part["findings"]) for place in verdict["findings"]):
        _untrue(at + "findings", "one of them is not there")
    bound = bounds(part) if verdict["word"] == BOUNDED else {}
    for name, end in upper_ends(part).items():
        place = "{}upper.{}".format(at, name)
        stated = _value(verdict["upper"], name, at + "upper.")
        if stated is not None and (end is None or stated < end - _ROUNDED):
            told = "is not known" if end is None else "reaches {:g}".format(end)
            _untrue(place, "got {:g}, and the upper end of an attack {}".format(stated, told))
        known = [one for one in (stated, bound.get(name)) if one is not None]
        allowed = verdict["limit"]["bits" if name == "bits" else "points"]
        if verdict["word"] in (NOTHING_FOUND, BOUNDED) and (not known or min(known) > allowed + _ROUNDED_SHARE):
            _untrue(at + "word", "'{}' within {:g} is not what upper.{} shows".format(verdict["word"], allowed, name))
    if verdict["word"] == BOUNDED and not bound.get("points", math.inf) <= verdict["limit"]["points"] + _ROUNDED_SHARE:
        _untrue(at + "word", "'bounded' needs a bound on z, and no finding has one within the limit")


def _held(value: Any, at: str, field: Field) -> None:
    """Hold a value to its table."""
    try:
        check(value, at, field, document={}, file="", cure="")
    except BundleRefused as refused:
        place, _, problem = str(refused).partition(" is not one to follow: ")[2].partition(": ")
        _untrue(place, problem.strip(" ."))


def _parsed(data: bytes, what: str) -> Any:
    try:
        return strict_json.loads(data)
    except strict_json.BadJson as error:
        _untrue(what, str(error))


def _best_guess(counts: Any, at: str, classes: Mapping[str, int], tested: int) -> float:
    """The share of test rows on which the best guess from y alone is right."""
    if type(counts) is not list or len(counts) != classes["y_classes"]:
        _untrue(at, "expected a list for each y, got {}".format(show(counts)))
    every: List[int] = []
    for number, row in enumerate(counts):
        place = "{}[{}]".format(at, number)
        if type(row) is not list or len(row) > classes["z_classes"]:
            _untrue(place, "expected at most {} counts, got {}".format(classes["z_classes"], show(row)))
        every += [_count(one, place, 1) for one in row]
    if sum(every) != tested:
        _untrue(at, "expected {} test rows, got {}".format(tested, sum(every)))
    return sum(max(row) for row in counts if row) / float(tested)


def _check_histogram(histogram: Dict[str, Any], at: str, tested: int) -> None:
    """How often each code left on the test rows: what a stream is compared with."""
    counts = _value(histogram, "counts", at)
    if type(counts) is not list or not 0 < len(counts) <= _MOST_CODES:
        _untrue(at + "counts", "expected 1 to {} counts, got {}".format(_MOST_CODES, show(counts)))
    every = [_count(one, "{}counts[{}]".format(at, code)) for code, one in enumerate(counts)]
    if sum(every) != tested:
        _untrue(at + "counts", "expected {} test rows, got {}".format(tested, sum(every)))
    _number(_value(histogram, "effective", at), at + "effective", 1.0, float(tested))
    if _value(histogram, "blank", at) is not None:
        _count(histogram["blank"], at + "blank", 0, len(counts) - 1)
    if type(_value(histogram, "output", at)) is not str:
        _untrue(at + "output", "expected the name of an output, got {}".format(show(histogram["output"])))


def _check_hashes(
    part: Dict[str, Any], at: str, speaks_of: Mapping[str, Any], pipeline: Mapping[str, Any]
) -> Dict[str, Any]:
    """What this audit speaks of; nothing, where it is of networks that never ship."""
    spoken = _object(_value(part, "speaks_of", at), at + "speaks_of")
    pipelines = _object(_value(part, "pipeline", at), at + "pipeline")
    artefact = _value(part, "artefact", at)
    if spoken and list(spoken) != [artefact]:
        _untrue(at + "speaks_of", "expected {} alone, which was attacked".format(show(artefact)))
    for name in spoken:
        if name not in speaks_of or spoken[name] != speaks_of[name]:
            _untrue("{}speaks_of.{}".format(at, show(name)), "it is of another artefact than the bundle's")
        if pipelines.get(name) != pipeline.get(name):
            _untrue("{}pipeline.{}".format(at, show(name)), "it is of other stages or tables than the bundle's")
    return spoken


def _check_names(value: Any, at: str) -> None:
    """Every number of the document by what its name means: finite, a share, a count, an interval the right way up."""
    if type(value) is list:
        for number, one in enumerate(value):
            _check_names(one, "{}[{}].".format(at[:-1], number))
    elif type(value) is dict:
        for name, one in value.items():
            place = at + ascii(name)[1:-1][:40]
            if type(one) in (int, float):
                if name in _COUNTS:
                    _count(one, place)
                else:
                    _number(one, place, *((0.0, 1.0) if name in _SHARES else (-MOST, MOST)))
            elif name != "others":  # each is checked as a document
                _check_names(one, place + ".")
        low, high = value.get("low"), value.get("high")
        if type(low) in (int, float) and type(high) in (int, float):
            middle = [value[name] for name in _ESTIMATES if type(value.get(name)) in (int, float)]
            if not all(low <= one <= high for one in middle or [low]):
                _untrue(at[:-1], "expected an interval around its estimate, got [{}, {}]".format(low, high))
    elif type(value) in (int, float):
        _number(value, at[:-1], -MOST, MOST)


def _object(value: Any, at: str) -> Dict[str, Any]:
    if type(value) is not dict:
        _untrue(at, "expected an object, got {}".format(show(value)))
    return value


def _value(owner: Mapping[str, Any], name: str, at: str) -> Any:
    if name not in owner:
        _untrue(at + name, "it is missing")
    return owner[name]


def _number(value: Any, at: str, low: float, high: float) -> float:
    if type(value) not in (int, float) or not (math.isfinite(value) and low <= value <= high):
        _untrue(at, "expected {:g} to {:g}, got {}".format(low, high, show(value)))
    return value


def _count(value: Any, at: str, low: int = 0, high: int = 2**53) -> int:
    if type(value) is not int or not low <= value <= high:
        _untrue(at, "expected a whole number from {} to {}, got {}".format(low, high, show(value)))
    return value


def _untrue(at: str, problem: str) -> NoReturn:
    raise BundleRefused(
        "bad-audit",
        "The audit is not one that can be true: {}: {}. Audit the artefacts again (edgeveil audit) and seal them "
        "again; a bundle that came like this is not to be used.".format(at[-120:], problem[:120]),
    )
