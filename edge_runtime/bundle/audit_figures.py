"""What readers of a checked audit ask of its findings: boards, the policy, pages, and the verdict on a workstation.

A finding is a record of docs/reference/schemas/audit.schema.json: a question, who answered, one figure with its
interval, and what y alone reaches.
"""

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

WORDS = LEAKS, BOUNDED, NOTHING_FOUND, CANNOT_TELL = "leaks", "bounded", "nothing found", "cannot tell"
SENT, LABEL_ONLY, RAW, DONOR = "sent", "label-only", "raw", "donor"  # whose output a finding is about
ATTACKS = ("adaptive", "fixed", "transfer")  # the kinds of finding that are attacks
KEPT, HIDDEN = "kept attribute", "hidden attribute"  # and those about one attribute of a joint y, of a joint z
MOST = 1e15  # of any number

Figure = NamedTuple("Figure", [("low", float), ("high", float), ("form", str), ("words", str)])
# A kind of figure: the range of its value and of both ends, how it is written, and what it is in words. Bits have a
# wide range: an interval over two units is, and nothing is learned in thousands of bits.
FIGURES: Dict[str, Figure] = {
    "right": Figure(0, 1, ".1%", "rows read right"),
    "balanced": Figure(0, 1, ".1%", "balanced accuracy within y"),
    "auc": Figure(0, 1, ".3f", "area under the ROC curve within y"),
    "eer": Figure(0, 1, ".1%", "equal error rate"),
    "bits": Figure(-1000, 1000, "+.3f", "bits per sample beyond theta_y"),
    "bits-counted": Figure(-1000, 1000, "+.3f", "bits per sample beyond the counted P(z|y)"),
    "recognised": Figure(0, 1, ".1%", "most exposed samples recognised at 1 % false positives"),
    "worst-class": Figure(0, 1, ".1%", "recall of the most exposed class"),
    "correlation": Figure(-1, 1, "+.3f", "correlation within y"),
    "share": Figure(0, 1, ".2%", "share of rows"),
    "difference": Figure(-1, 1, "+.1%", "difference of two shares of rows"),
    "gain": Figure(-1000, 1000, "+.3f", "bits gained, by a permutation test"),
    "epsilon": Figure(0, MOST, ".4g", "privacy loss epsilon"),
    "mu": Figure(0, MOST, ".4g", "Gaussian privacy parameter mu"),
    "factor": Figure(1, MOST, ".2f", "factor by which a chance may rise"),
    "number": Figure(-MOST, MOST, ".4g", "number"),
}


def attacks(part: Mapping[str, Any], of: str = SENT) -> List[Dict[str, Any]]:
    """The findings that are figures of attacks on z, of one output."""
    return [one for one in part["findings"] if of_whom(one) == of and kind_of(one) in ATTACKS and "figure" in one]


def best_attack(part: Mapping[str, Any], of: str = SENT) -> Dict[str, Any]:
    """How often the best attack found, which was chosen on validation rows, reads z right."""
    return next(one for one in attacks(part, of) if one["figure"] == "right" and one["more"].get("chosen"))


def chances(part: Mapping[str, Any], of: str = SENT) -> Dict[str, float]:
    """How often a guess from y alone is right, by the public ``prior`` and by ``majority``."""
    findings = part["findings"]
    return {one["name"]: one["value"] for one in findings if of_whom(one) == of and kind_of(one) == "guess"}


def readers(part: Mapping[str, Any], of: str = SENT) -> List[Dict[str, Any]]:
    """How often each reader of y reads it right."""
    asked = part["data"]["target"], "reader", "right"
    found = [one for one in part["findings"] if of_whom(one) == of]
    return [one for one in found if (one["question"], kind_of(one), one.get("figure")) == asked]


def kept(part: Mapping[str, Any], of: str = SENT) -> Dict[str, Any]:
    """How often y is read right by the reader that was best on validation rows."""
    return max(readers(part, of), key=lambda one: -1.0 if one.get("chosen_by") is None else one["chosen_by"])


def hidden(part: Mapping[str, Any], of: str = SENT) -> List[Dict[str, Any]]:
    """How often the best attack reads each attribute of a joint z right; none where z is one attribute."""
    found = [one for one in part["findings"] if of_whom(one) == of and kind_of(one) == HIDDEN]
    return [one for one in found if one.get("figure") == "right"]


def upper_ends(part: Mapping[str, Any], of: str = SENT) -> Dict[str, Optional[float]]:
    """By how much attacks may beat chance, in points and in bits, by their upper ends; None where one has none.

    Points are also those of the attacks on each attribute of a joint z; bits about it are at most those about z.
    """
    ends: Dict[str, List[Optional[float]]] = {"points": [], "bits": [], "balanced": []}
    for one in attacks(part, of) + hidden(part, of):
        high, null = one.get("interval", (None, None))[1], one.get("null")
        if one["figure"] == "bits-counted":
            ends["bits"].append(high)
        elif one["figure"] in ("right", "balanced"):
            over = None if high is None or null is None else 100 * (high - null)
            ends["points" if one["figure"] == "right" else "balanced"].append(over)
    if not ends["balanced"]:
        del ends["balanced"]
    known = {name: [one for one in highs if one is not None] for name, highs in ends.items()}
    return {name: max(known[name]) if 0 < len(known[name]) == len(ends[name]) else None for name in ends}


def bounds(part: Mapping[str, Any]) -> Dict[str, float]:
    """By how much any attack may beat chance, whatever it does, as ``upper_ends``: of what is sent, by its bounds on z.

    A factor F on every chance of z given y bounds all three: right at most F times the guess, and log2 F bits. A loss
    epsilon is a factor of e to the epsilon. Points hold for each attribute of a joint z too: F bounds the chances of
    each, and a bound on how often z itself is read does not.
    """
    z, of_attributes = part["data"]["sensitive"], [one.get("null") for one in hidden(part)]
    guesses = [max(chances(part).values())] + of_attributes
    least: Dict[str, float] = {}
    for one in part["findings"]:
        if not one.get("bound") or one["question"] != z or of_whom(one) != SENT or one.get("value") is None:
            continue
        value, figure = one["value"], one["figure"]
        these = {}
        if figure in ("factor", "epsilon"):
            factor = value if figure == "factor" else math.exp(min(value, 50.0))
            shares = (("points", guesses), ("balanced", [0.5]))
            these = {name: max(_points(factor, base) for base in of) for name, of in shares}
            these["bits"] = math.log2(factor)
        elif figure == "right" and not of_attributes:
            these = {"points": 100 * (value - guesses[0])}
        elif figure in ("bits", "bits-counted"):
            these = {"bits": value}
        least.update({name: min(most, least.get(name, most)) for name, most in these.items()})
    return least


def _points(factor: float, base: Optional[float]) -> float:
    """By how many points a factor on every chance lets a guess be right more often; at most, where none is known."""
    base = 1.0 / factor if base is None else base
    return 100 * (min(1.0, factor * base) - base)


def kind_of(finding: Mapping[str, Any]) -> str:
    """What kind of finding it is: an attack's, a reader's, a guess, a test, a part, a probe..."""
    return str(finding.get("more", {}).get("kind", ""))


def of_whom(finding: Mapping[str, Any]) -> str:
    """Whose output a finding is about."""
    return str(finding.get("of", SENT))
