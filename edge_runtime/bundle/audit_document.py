"""Whether an audit can be what an audit measures: figures in range, of this attribute, of these artefacts.

A signature says who sealed an audit, not that its numbers are numbers of anything: a chance of 2 or an accuracy of
-1e308 would meet every limit. Sealing, the policy, the preview and ``verify`` all read audits through here. An audit
that is refused is of no use to anyone, so the bundle is refused with it.

What an attack is over chance decides, so chance is held to what else the audit says. ``data.counts`` are the test rows
of each y by z, most frequent first: no guess from y alone is right more often than the first of each, and neither
chance may be above that. (One below it makes an audit look worse, never better.) An older audit has no counts.
There the guess from y by counting is wrong on as many rows of the attack's worst class as its ``worst_class_chance``
says. In both, some attack's interval reaches chance less 5 points, because each knows y; and balanced chance is from
1 / classes of z to 1 / 2, being the mean of 1 / values of z over those y that have two or more. Whoever invents all
figures anew passes: that is what a countersignature is for.
"""

import math
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional, Tuple

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.util import strict_json
from edgeveil.edge_runtime.util.validate import show

SCHEMA, KIND, CARD_KIND = 1, "edgeveil-audit", "edgeveil-privacy-card"
WORDS = ("holds", "leaks", "cannot tell")
_MOST_OTHERS = 64
_MOST_CODES = 2**16
_MOST_BITS = 1000.0  # wide: an interval over two units is, and nothing is learned in thousands of bits
_MOST = 1e15  # of any other number
_ROUNDED = 1e-3  # points: figures are written with six digits as shares, and taken times 100
_ROUNDED_SHARE = 1e-5
_BELOW = 0.05  # attacks that learned from few people may be worse than a guess from y

# Of one attack: an estimate and the ends of its interval, and the range of all three.
_SHARE, _BITS = (0.0, 1.0), (-_MOST_BITS, _MOST_BITS)
_FIGURES = (
    ("accuracy", "low", "high", _SHARE),
    ("bits", "bits_low", "bits_high", _BITS),
    ("bits_counted", "bits_counted_low", "bits_counted_high", _BITS),
    ("balanced", "balanced_low", "balanced_high", _SHARE),
    ("tpr", "tpr_low", "tpr_high", _SHARE),
    ("worst_class", "worst_class_low", "worst_class_high", _SHARE),
)
# What the privacy card repeats of each audit.
_ON_CARD = ("artefact", "speaks_of", "pipeline", "target", "chance", "adversaries", "worst_adaptive", "most_bits")
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
    """The audit document of a verified bundle, checked; None where the bundle was not audited.

    Raises ``BundleRefused`` (``bad-audit``) for one that no audit can have made.
    """
    privacy = manifest.privacy
    if privacy.file is None:
        return None
    try:
        document = strict_json.loads(members[privacy.file])
    except strict_json.BadJson as error:
        _untrue("the document", str(error))
    check_audit(
        document,
        target=manifest.perturber.target,
        sensitive=manifest.perturber.sensitive,
        speaks_of=privacy.speaks_of,
        pipeline=privacy.pipeline,
    )
    return dict(document)


def check_audit(
    document: Any, *, target: str, sensitive: str, speaks_of: Mapping[str, Any], pipeline: Mapping[str, Any]
) -> None:
    """Raise ``BundleRefused`` (``bad-audit``) for a parsed document that is no audit of this bundle.

    ``target`` and ``sensitive`` are the attributes of the bundle, ``speaks_of`` and ``pipeline`` the hashes of its
    audited artefacts as its manifest has them. The document and each of its ``others`` are held to the same.
    """
    others = _object(document, "the document").get("others", [])
    if type(others) is not list or len(others) > _MOST_OTHERS:
        _untrue("others", "expected a list of at most {} audits".format(_MOST_OTHERS))
    spoken: Dict[str, Any] = {}
    for at, part in [("", document)] + [("others[{}].".format(n), one) for n, one in enumerate(others)]:
        if at and "others" in _object(part, at[:-1]):
            _untrue(at + "others", "expected none inside another")
        _check_part(part, at, target, sensitive)
        spoken.update(_check_hashes(part, at, speaks_of, pipeline))
    for artefact in speaks_of:
        if artefact not in spoken:
            _untrue("speaks_of", "no audit in it is of {}, which the manifest says is audited".format(artefact))


def check_card(data: bytes, document: Mapping[str, Any], sensitive: str) -> None:
    """Raise ``BundleRefused`` (``bad-audit``) where the privacy card in ``data`` does not say what the audit says."""
    try:
        card = strict_json.loads(data)
    except strict_json.BadJson as error:
        _untrue("the privacy card", str(error))
    try:
        known = card["schema"] == 1 and card["kind"] == CARD_KIND
        hidden, shown = card["sensitive"]["name"], card["artefacts"]
        columns = [{name: one[name] for name in _ON_CARD} for one in shown]
    except (LookupError, TypeError):
        _untrue("the privacy card", "it is empty, or lacks what a card says")
    parts = [part for part in [document] + document.get("others", []) if part["speaks_of"]]
    if not known or hidden != sensitive or columns != [{name: part[name] for name in _ON_CARD} for part in parts]:
        _untrue("the privacy card", "it says something else than the audit beside it")


def _check_part(part: Dict[str, Any], at: str, target: str, sensitive: str) -> None:
    """One audit, of one artefact."""
    if type(_value(part, "schema", at)) is not int or part["schema"] != SCHEMA:
        _untrue(at + "schema", "expected {}, got {}".format(SCHEMA, show(part["schema"])))
    if _value(part, "kind", at) != KIND:
        _untrue(at + "kind", "expected '{}', got {}".format(KIND, show(part["kind"])))
    data = _object(_value(part, "data", at), at + "data")
    for name, wanted in (("target", target), ("sensitive", sensitive)):
        if _value(data, name, at + "data.") != wanted:
            text = "its audit is of {}, not of {}"
            _untrue("{}data.{}".format(at, name), text.format(show(data[name]), show(wanted)))
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
    _check_found(part, at)
    _check_chance(part, at, tested, classes["z_classes"], most)
    if "label_only" in part:
        _check_found(_object(part["label_only"], at + "label_only"), at + "label_only.")
        _check_chance(part["label_only"], at + "label_only.", tested, classes["z_classes"], most)
    _check_names(part, at)


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


def _check_histogram(found: Dict[str, Any], at: str, tested: int) -> None:
    """How often each code left on the test rows: what a stream is compared with."""
    counts = _value(found, "counts", at)
    if type(counts) is not list or not 0 < len(counts) <= _MOST_CODES:
        _untrue(at + "counts", "expected 1 to {} counts, got {}".format(_MOST_CODES, show(counts)))
    every = [_count(one, "{}counts[{}]".format(at, code)) for code, one in enumerate(counts)]
    if sum(every) != tested:
        _untrue(at + "counts", "expected {} test rows, got {}".format(tested, sum(every)))
    _number(_value(found, "effective", at), at + "effective", 1.0, float(tested))
    if _value(found, "blank", at) is not None:
        _count(found["blank"], at + "blank", 0, len(counts) - 1)
    if type(_value(found, "output", at)) is not str:
        _untrue(at + "output", "expected the name of an output, got {}".format(show(found["output"])))


def _check_chance(part: Mapping[str, Any], at: str, tested: int, classes: int, most: float) -> None:
    """Neither chance is above what the rest of the audit allows; ``most`` is what the counts do."""
    chance, rows = part["chance"], part["adversaries"]
    for name in ("majority", "prior"):
        if chance[name] > most + _ROUNDED_SHARE:
            text = "got {:g}, and the best guess from y alone is right on {:g} of the test rows"
            _untrue("{}chance.{}".format(at, name), text.format(chance[name], most))
    reached = max(row["high"] for row in rows)
    if max(chance.values()) > reached + _BELOW:
        text = "got {:g}, and no attack reaches more than {:g}, although each knows y"
        _untrue(at + "chance", text.format(max(chance.values()), reached))
    for number, row in enumerate(rows):
        place = "{}adversaries[{}].".format(at, number)
        base = row.get("balanced_chance")
        if base is not None:
            _number(base, place + "balanced_chance", 1.0 / classes - _ROUNDED_SHARE, 0.5 + _ROUNDED_SHARE)
        # Rows that were tested crosswise are more than the test rows.
        wrong = (row.get("worst_class_rows") or 0) * (1.0 - (row.get("worst_class_chance") or 0.0))
        if row.get("learned_on") != "crossed" and row.get("worst_class_chance") is not None:
            least = 1.0 - wrong / tested
            if chance["majority"] > least + _ROUNDED_SHARE:
                text = "got {:g}, and the guess from y is wrong on {:.0f} of {} rows"
                _untrue(at + "chance.majority", text.format(chance["majority"], wrong, tested))


def _check_found(part: Dict[str, Any], at: str) -> None:
    """What was found about one perturber: the part that a policy decides by and that a card shows."""
    _check_figure(_object(_value(part, "target", at), at + "target"), at + "target.", _FIGURES[0])
    chance = _object(_value(part, "chance", at), at + "chance")
    if sorted(chance) != ["majority", "prior"]:
        _untrue(at + "chance", "expected prior and majority, and nothing else")
    best = max(_number(chance[name], "{}chance.{}".format(at, name), *_SHARE) for name in ("majority", "prior"))
    rows = _value(part, "adversaries", at)
    if type(rows) is not list or not rows:
        _untrue(at + "adversaries", "expected at least one attack, got {}".format(show(rows)))
    for number, row in enumerate(rows):
        _check_attack(row, "{}adversaries[{}].".format(at, number))
    for name in ("worst_adaptive", "most_bits"):
        chosen = _object(_value(part, name, at), at + name)
        _check_attack(chosen, at + name + ".")
        same = {key: value for key, value in chosen.items() if key != "chosen_on"}
        if chosen["kind"] != "adaptive" or same not in rows:
            _untrue(at + name, "expected one of the adaptive attacks listed, with its figures")
    if part.get("verdict") is not None:
        _check_verdict(_object(part["verdict"], at + "verdict"), at + "verdict.", rows, best)


def _check_attack(row: Any, at: str) -> None:
    record = _object(row, at[:-1])
    for name in ("name", "kind"):
        if type(_value(record, name, at)) is not str:
            _untrue(at + name, "expected text, got {}".format(show(record[name])))
    for figure in _FIGURES:
        _check_figure(record, at, figure, needed=figure[0] in ("accuracy", "bits_counted"))


def _check_figure(
    owner: Dict[str, Any], at: str, figure: Tuple[str, str, str, Tuple[float, float]], needed: bool = True
) -> None:
    """An estimate inside its interval. A rate has both ends; bits may lack one, which then counts as not known."""
    name, low, high, limits = figure
    if owner.get(name) is None:
        if needed or owner.get(low) is not None or owner.get(high) is not None:
            _untrue(at + name, "expected a number, got nothing")
        return
    estimate = _number(owner[name], at + name, *limits)
    ends = []
    for end in (low, high):
        if owner.get(end) is None:
            if name == "accuracy":
                _untrue(at + end, "expected a number, got nothing")
            ends.append(estimate)
        else:
            ends.append(_number(owner[end], at + end, *limits))
    if not ends[0] <= estimate <= ends[1]:
        _untrue(at + name, "expected it inside its interval, got {} in [{}, {}]".format(estimate, *ends))


def _check_verdict(verdict: Dict[str, Any], at: str, rows: List[Dict[str, Any]], chance: float) -> None:
    """Its upper ends are not below those of the attacks it is of, and "holds" is what they show."""
    word = _value(verdict, "word", at)
    if word not in WORDS:
        _untrue(at + "word", "expected one of {}, got {}".format(", ".join(WORDS), show(word)))
    upper = _object(_value(verdict, "upper", at), at + "upper")
    limit = _object(verdict.get("limit", {}), at + "limit")
    for name, found in _upper_ends(rows, chance):
        place = "{}upper.{}".format(at, name)
        said = _value(upper, name, at + "upper.")
        if said is not None:
            bound = _MOST_BITS if name == "bits" else 100.0
            _number(said, place, -bound, bound)
            if found is None or said < found - _ROUNDED:
                told = "is not known" if found is None else "reaches {:g}".format(found)
                _untrue(place, "got {:g}, and the upper end of an attack {}".format(said, told))
        if word == "holds":
            allowed = _number(
                _value(limit, "bits" if name == "bits" else "points", at + "limit."), at + "limit", 0, 100
            )
            if said is None or said > allowed:
                _untrue(at + "word", "'holds' within {:g} is not what upper.{} shows".format(allowed, name))


def _upper_ends(rows: List[Dict[str, Any]], chance: float) -> Iterator[Tuple[str, Optional[float]]]:
    """By how much attacks may beat chance, in points and in bits; None where an attack has no upper end."""
    yield "points", max(100 * (row["high"] - chance) for row in rows)
    yield "bits", _largest([row.get("bits_counted_high") for row in rows])
    balanced = [row for row in rows if row.get("balanced") is not None]
    if balanced:
        yield "balanced", _largest([_over(row.get("balanced_high"), row.get("balanced_chance")) for row in balanced])


def _over(high: Optional[float], base: Optional[float]) -> Optional[float]:
    return None if high is None or base is None else 100 * (high - base)


def _largest(ends: List[Any]) -> Optional[float]:
    return None if None in ends else max(ends)


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
                    _number(one, place, *(_SHARE if name in _SHARES else (-_MOST, _MOST)))
            elif name != "others":  # each is checked as a document
                _check_names(one, place + ".")
        low, high = value.get("low"), value.get("high")
        if type(low) in (int, float) and type(high) in (int, float):
            middle = [value[name] for name in _ESTIMATES if type(value.get(name)) in (int, float)]
            if not all(low <= one <= high for one in middle or [low]):
                _untrue(at[:-1], "expected an interval around its estimate, got [{}, {}]".format(low, high))
    elif type(value) in (int, float):
        _number(value, at[:-1], -_MOST, _MOST)


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
