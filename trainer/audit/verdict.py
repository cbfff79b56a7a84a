"""The column of an audit that a board adds, as text: the board, and where its output differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.device import CPU
from edgeveil.trainer.attacks.exposure import TIMES
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.run_all import LEARNED_ON
from edgeveil.trainer.audit.findings import FIXED
from edgeveil.trainer.measures.intervals import wider

WORDS = {"frame": "other frames", "label": "labels flipped", "code": "codes flipped"}


def column_title(document: Mapping[str, Any]) -> str:
    """The title of a column of the card: the artefact, and the board where it ran on one."""
    there = document.get("on_board")
    return document["artefact"] if there is None else f"{document['artefact']} on {board_name(there)}"


def board_name(there: Mapping[str, Any]) -> str:
    """A board by its model, else by its processor and system; and its accelerator, where that ran the artefact."""
    name = there["board"] or f"{there['architecture']}, {there['system'] or 'an unknown system'}"
    return name if _device(there) == CPU else f"{name}, its {_device(there)}"


def board_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The section for people."""
    there = document.get("on_board")
    if there is None:
        return
    backends = ", ".join(f"{b['backend']} {b['version']}" for b in document["backends"].values()) or "numpy"
    where = "By a simulator, on no board" if there.get("simulated") else "On the board"
    yield f"{where} ({board_name(there)}; {backends}), {there['rows']:,} test rows beside the workstation's:"
    for row in there["compared"]:
        apart = "" if row["max_abs"] is None else f", by {row['max_abs']:g} at most"
        ends = f"[{100 * row['low']:.2f}, {100 * row['high']:.2f}]"
        yield f"  {row['what']:24} {row['differ']:6,} {WORDS[row['kind']]}: {100 * row['share']:.2f} % {ends}{apart}"
    yield f"  {there['meaning']}"


def joined(document: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The boards' columns of an export with a new one, which replaces an older one of the same board."""
    return [*(dict(one) for one in columns if _which(one) != _which(document)), dict(document)]


def _which(document: Mapping[str, Any]) -> tuple[Any, ...]:
    there = document["on_board"]
    place = (there[key] for key in ("board", "architecture", "system", "python"))
    return (document["artefact"], _device(there), *place)


def _device(there: Mapping[str, Any]) -> str:
    """The device that ran the artefact there; older audits do not name it, and ran on the processor."""
    return there.get("device", CPU)


# The verdict of an audit, by the upper ends of intervals: the same in every command, page, card, policy and sweep.
#
# *leaks*: an attack surely learns more than the limit, or the chosen attack surely learns something. *holds*: with 95 %
# confidence no attack found learns as much as the limit. *cannot tell*: neither, so more test rows are needed. Few rows
# make intervals wide, so they never make an audit look better.

# Attacks and probes of an audit as text for a terminal.


HEAD = (
    f"  {'adversary':26} {'learned on':14} {'right':>7}  {'95 % interval':15} {'AUC':>5} {'bits':>7} {'1% FPR':>7} "
    f"{'worst z':>7}  {'rows':>6}"
)


def attack_line(row: Mapping[str, Any], *, best: bool) -> str:
    """One attack; what could not be measured is a dash."""
    kind = f"{row.get('learned_on', 'old')} rows" if row["kind"] == "adaptive" else "non-adaptive"
    auc = "    -" if row["auc"] is None else f"{row['auc']:5.3f}"
    left = f"  {row['name']:26} {kind:14} {percent(row['accuracy']):>7}  [{percent(row['low'])}, "
    left += f"{percent(row['high'])}]"
    exposed = " ".join(f"{percent(row.get(name)):>7}" for name in ("tpr", "worst_class"))
    mark = "  <- best attack found" if best else ""
    return f"{left:71} {auc} {row['bits']:+7.3f} {exposed}  {row['train_samples']:6d}{mark}"


def notes(part: Mapping[str, Any]) -> Iterator[str]:
    """Families that did not run and why, the most exposed z, whether more data would help, and warnings."""
    for left in part["not_run"]:
        yield f"  {left['name']:26} not run: {left['reason']}"
    worst = part["worst_adaptive"]
    if worst.get("worst_class") is not None:
        yield (
            f"  The best attack recalls the most exposed z in {percent(worst['worst_class'])} of its "
            f"{worst['worst_class_rows']} test rows [{percent(worst['worst_class_low'])}, "
            f"{percent(worst['worst_class_high'])}]; from y alone {percent(worst['worst_class_chance'])}."
        )
    if worst.get("members"):
        yield f"  The {worst['name']} is of {worst['members']}."
    curve = part.get("learning_curve")
    if curve:
        steps = ", ".join(f"{percent(point['accuracy'])} of {point['rows']:,}" for point in curve["points"])
        rising = "still rising: more rows will do better" if curve["rising"] else "not surely rising any more"
        yield f"  {curve['name']} by its training rows: {steps}; {rising}."
    yield from part_lines(part)
    for warning in part.get("warnings", ()):
        yield f"  Too little: {warning}"


def part_lines(part: Mapping[str, Any]) -> Iterator[str]:
    """The parts of the test rows on which the attack with most bits was tested apart."""
    if part.get("parts"):
        yield f"  {part['most_bits']['name']}, on parts of the test rows (right; y alone; bits beyond y; corrected p):"
    for one in part.get("parts", ()):
        right, sure = one["right"], "-" if one["p"] is None else f"{one['p']:.3f}"
        figures = "too few" if right is None else f"{percent(right['accuracy'])}; {percent(one['chance'])}"
        yield f"    {one['name']:44} {figures}; {span(one['bits'], '+.3f')}; {sure} ({one['rows']:,} rows)"


def what_else_lines(part: Mapping[str, Any]) -> Iterator[str]:
    """The sentence on what else can be read, and each label."""
    found = part.get("what_else")
    if not found:
        return
    yield what_else_sentence(part)
    for row in worst_first(found["labels"]):
        yield (
            f"  {row['name']:26} {row['classes']} classes: {span(row['bits'], '+.3f')} bits, right "
            f"{percent(row['right']['accuracy'])}; y alone {percent(row['chance'])} ({row['attack']})"
        )
        for one in (row["worst_threshold"], row["worst_grouping"]):
            if one is not None:
                yield f"    {one['question']:40} AUC {span(one['auc'], '.3f')}, {span(one['bits'], '+.3f')} bits"
    for left in found["skipped"]:
        yield f"  {left['name']:26} not asked: {left['reason']}"


def worst_first(labels: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Labels in the order of the bits of their worst question, or of their own where there is none."""

    def bits(row: Mapping[str, Any]) -> float:
        asked = [one["bits"]["mean"] for one in (row["worst_grouping"], row["worst_threshold"]) if one is not None]
        return max(asked, default=row["bits"]["mean"])

    return sorted(labels, key=bits, reverse=True)


def what_else_sentence(part: Mapping[str, Any]) -> str:
    """The worst question in words, next to z itself."""
    found = part["what_else"]
    if len(found["labels"]) < 2:
        return "What else can be read: not known, for the data name no label beyond y and z."
    asked = f"of {found['questions']:,} questions about labels that the data know"
    worst = found["worst"]
    if worst is None:
        most = max(found["labels"][1:], key=lambda row: row["bits"]["mean"])
        return f"What else can be read: {most['name']}, {span(most['bits'], '+.3f')} bits per sample beyond y."
    if not worst["read"]:
        return f"What else can be read: nothing for sure beyond y, {asked}."
    itself = found["labels"][0]["worst_grouping"]
    beside = "" if itself is None else f"; {itself['question']}, which is to be hidden, {span(itself['auc'], '.2f')}"
    return (
        f"What else can be read: {worst['question']}, AUC {span(worst['auc'], '.2f')} and {span(worst['bits'], '.3f')} "
        f"bits beyond y, the worst {asked}{beside}."
    )


def span(value: Mapping[str, Any], form: str) -> str:
    """A mean with its interval, where there are these."""
    if value["mean"] is None:
        return "-"
    ends = "" if value["low"] is None or value["high"] is None else f" [{value['low']:{form}}, {value['high']:{form}}]"
    return f"{value['mean']:{form}}{ends}"


def probe_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The other questions, one a line."""
    for title, rows in document.get("probes", {}).items():
        yield f"{title}:"
        for row in rows:
            if "not_run" in row:
                yield f"  {row['name']:44} not run: {row['not_run']}"
                continue
            chance = "" if row["chance"] is None else f"; y alone {row['chance']:.3f}"
            ends = "" if row["low"] is None else f" [{row['low']:.3f}, {row['high']:.3f}]"
            yield f"  {row['name']:44} {row['value']:.3f}{ends}{chance} ({row['n']:,})"


def percent(share: float | None) -> str:
    """0.5 as ``50.0 %``; what was not measured is a dash."""
    return "-" if share is None else f"{100 * share:.1f} %"


LEAKS, HOLDS, CANNOT_TELL = "leaks", "holds", "cannot tell"
SIGNIFICANT = 0.01  # of the permutation tests, on all rows and on parts of them, together
TPR_ERROR = 0.025  # of the tests that no attack recognises the most exposed more than three times too often, together
COUNTED = f"{CodeCounts.name} on {LEARNED_ON} rows"
FRESH = ("fresh", "both", "crossed", "several")  # an ensemble of several settings has one of the others in it
EARLIER = (
    "This audit was made before upper ends and fresh rows were recorded, so it cannot show that anything holds. Audit "
    "again for a verdict of today."
)


class Limit(NamedTuple):
    """What attacks may learn: ``points`` over chance, also of balanced accuracy, and ``bits`` per sample beyond y."""

    points: float
    bits: float


# Where the recipe asks for nothing. 5 points: half the width of the 95 % interval of 385 rows at 50 %, so about what a
# small test slice can show at all. 0.05 bits: at a skewed prior, or where few rows leak much, an attack can gain that
# and be right no more often; it is what guessing a fair coin right 63 % of the time gains.
DEFAULT = Limit(5.0, 0.05)


class _Figure(NamedTuple):
    """One figure of one attack, over its chance, with its interval; an end is None where it is not known."""

    name: str
    attack: str
    estimate: float
    low: float | None
    high: float | None


def judge(part: Mapping[str, Any], limits: Mapping[str, Any], data: Mapping[str, Any] | None) -> dict[str, Any]:
    """The ``verdict`` of a document's part (the perturber, or its ``label_only``), as the schema describes it.

    ``limits`` are the recipe's (``attack_points``, ``bits``; None: the default), ``data`` the document's, None where
    the number of test rows is not known. Attacks that were chosen on validation, and codes counted crossed, which need
    no choice, are judged by their own intervals. Any other leaks only beyond one widened for the number of attacks
    (Bonferroni), or the luckiest of them would decide. That all upper ends are below a limit needs no such correction.
    """
    limit = Limit(
        *(
            default if limits.get(name) is None else float(limits[name])
            for name, default in (("attack_points", DEFAULT.points), ("bits", DEFAULT.bits))
        )
    )
    figures = [figure for row in part["adversaries"] for figure in _figures(row, guess(part))]
    fresh = any(row["kind"] == "adaptive" and row.get("learned_on") in FRESH for row in part["adversaries"])
    reasons = list(_leaks(part, limit))
    names = dict.fromkeys(one.name for one in figures)
    upper = {name: _largest([one.high for one in figures if one.name == name]) for name in names}
    below = all(high is not None and high <= _allowed(limit, name) for name, high in upper.items())
    word = LEAKS if reasons else HOLDS if fresh and below and "bits" in upper else CANNOT_TELL
    needed = _needed(figures, limit, data, wider(len(part["adversaries"]))) if word == CANNOT_TELL and fresh else None
    if word == CANNOT_TELL:
        reasons = list(_open(upper, limit, fresh=fresh))
    return {
        "word": word,
        "limit": {"points": limit.points, "bits": limit.bits},
        "reasons": reasons,
        "upper": {name: None if high is None else round(high, 6) for name, high in upper.items()},
        "fresh": fresh,
        "needed": needed,
    }


def verdict(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict that a document's part has; formed from the old rows where it was made before there was one."""
    found = part.get("verdict")
    return found if found is not None else judge(part, part.get("limits", {}).get("asked", {}), part.get("data"))


def words(part: Mapping[str, Any]) -> str:
    """The verdict in a few words."""
    found = verdict(part)
    if found["word"] != HOLDS:
        return str(found["word"])
    return f"holds to within {_to_within(found)}"


def by_reader(part: Mapping[str, Any]) -> str:
    """Which reader of y the figure kept is of, and what the fixed one reads; "" for an audit of D_y alone."""
    by, fixed = part["target"].get("by"), part.get("fixed_reader")
    if by is None:
        return ""
    named = "" if fixed is None or by == FIXED else f"; the fixed reader {FIXED} {percent(fixed['accuracy'])}"
    return f" by {by}{named}"


def guess(part: Mapping[str, Any]) -> float:
    """The better of both chances: the accuracy of the best guess from y alone."""
    return max(part["chance"].values())


def sentence(document: Mapping[str, Any]) -> str:
    """What is kept, the verdict and its reasons, and what the best attack found reads."""
    data, worst, target, found = document["data"], document["worst_adaptive"], document["target"], verdict(document)
    where = f" on {board_name(document['on_board'])}" if "on_board" in document else ""
    kept = f"The {document['artefact']} artefact{where} keeps {data['target']} at {percent(target['accuracy'])}"
    z = data["sensitive"]
    attack = (
        f"the best attack found ({worst['name']}, retrained on {worst['train_samples']:,} perturbed samples) reads "
        f"{z} right {percent(worst['accuracy'])} of the time (95 % interval {100 * worst['low']:.1f} to "
        f"{percent(worst['high'])}) where guessing from {data['target']} alone is right {percent(guess(document))}"
    )
    why = "; ".join(found["reasons"])
    earlier = "" if "verdict" in document else f" {EARLIER}"
    if found["word"] == HOLDS:
        return (
            f"{kept} and hides {z} to within {_to_within(found)} from every attack tried: {attack}, a lower bound on "
            "what leaks and not a guarantee."
        )
    if found["word"] == CANNOT_TELL:
        return (
            f"{kept}, but this audit cannot tell whether it hides {z} to within {_to_within(found)}: {attack}; "
            f"{why}{_wanted(found)}.{earlier}"
        )
    fixed = [row["accuracy"] for row in document["adversaries"] if row["kind"] == "fixed"]
    fooled = ""
    if fixed and fixed[0] < worst["low"]:
        fooled = f", although the adversary it was trained against gets only {percent(fixed[0])} (non-adaptive)"
    return f"{kept}, but it leaks {z}: {attack}{fooled}; {why}.{earlier}"


def _to_within(found: Mapping[str, Any]) -> str:
    return f"{found['limit']['points']:g} points and {found['limit']['bits']:g} bits"


def _wanted(found: Mapping[str, Any]) -> str:
    needed = found["needed"]
    if needed is None:
        return ""
    return f"; about {needed['more']:,} more test {needed['unit']} would be needed, if the figures stay as they are"


def _figures(row: Mapping[str, Any], chance: float) -> Iterator[_Figure]:
    """What can be judged of one attack: points and balanced points in percent, bits."""
    label = _label(row)

    def points(share: float | None, base: float) -> float | None:
        return None if share is None else 100 * (share - base)

    yield _Figure(
        "points", label, 100 * (row["accuracy"] - chance), points(row["low"], chance), points(row["high"], chance)
    )
    yield _Figure("bits", label, row["bits_counted"], row.get("bits_counted_low"), row.get("bits_counted_high"))
    if row.get("balanced") is not None:
        base = row["balanced_chance"]
        ends = (points(row.get(end), base) for end in ("balanced_low", "balanced_high"))
        yield _Figure("balanced", label, 100 * (row["balanced"] - base), *ends)


def _label(row: Mapping[str, Any]) -> str:
    return row["name"] if row["kind"] != "adaptive" else f"{row['name']} on {row.get('learned_on', 'old')} rows"


def _leaks(part: Mapping[str, Any], limit: Limit) -> Iterator[str]:
    """Why it leaks, one clause for each kind of evidence: by the attack that shows most of it."""
    rows, counting = part["adversaries"], part.get("counting")
    chosen = [(_label(part[name]), part[name]["seed"]) for name in _CHOSEN]
    chosen += [(COUNTED, row["seed"]) for row in rows if counting is not None]
    others = wider(len(rows))
    shown: dict[str, tuple[float, str]] = {}
    for row in rows:
        factor = 1.0 if (_label(row), row["seed"]) in chosen else others
        for one in _figures(row, guess(part)):
            low = None if one.low is None else one.estimate - factor * (one.estimate - one.low)
            if low is not None and low > _allowed(limit, one.name) and low > shown.get(one.name, (low - 1, ""))[0]:
                shown[one.name] = low, one.attack
    for name, form in _SURELY.items():
        if name in shown:
            low, attack = shown[name]
            yield form.format(attack=attack, low=low, allowed=_allowed(limit, name))
    yield from recognises(rows, chosen)
    parts, attack = part.get("parts", ()), part["most_bits"]["name"]
    surely = [one for one in parts if one["p"] is not None and one["p"] <= SIGNIFICANT and one["bits"]["mean"] > 0]
    if surely:
        one = min(surely, key=lambda one: one["p"])
        where = f"{one['rows']:,} rows ({one['name']}; permutation test, corrected p = {one['p']:.3f})"
        yield f"{attack} gains something for sure about {where}"
    # The parts have one half of the level, and the tests on all rows share the other, so that all tests together are
    # wrong as rarely as one.
    tests = {attack: part.get("permutation"), COUNTED: counting}
    level = SIGNIFICANT / (2 if any(one["p"] is not None for one in parts) else 1) / (1 if counting is None else 2)
    for name, test in tests.items():
        # Where rows of one cluster swapped their z, the p-value is too small for rows that depend on each other. And an
        # attack that is worse than counting, only less so than on shuffled z, has gained nothing.
        if test is not None and test["p"] <= level and test["gain"] > 0 and test["swapped"] != "rows of clusters":
            yield f"{name} gains something for sure (permutation test, p = {test['p']:.3f})"
            return


_CHOSEN = ("worst_adaptive", "most_bits")
_SURELY = {
    "points": "{attack} is at least {low:.1f} points over chance ({allowed:g} allowed)",
    "balanced": "{attack} is at least {low:.1f} points over chance, all values alike, ({allowed:g} allowed)",
    "bits": "{attack} gains at least {low:.3f} bits per sample beyond y ({allowed:g} allowed)",
}


def recognises(rows: Sequence[Mapping[str, Any]], chosen: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Where an attack surely recognises the most exposed samples more than three times as often as it takes others for
    them. The chosen attacks share half of the error, the others the other half. An older audit has no test."""
    tested = [row for row in rows if row.get("tpr_p") is not None]
    for among in ([row for row in tested if ((_label(row), row["seed"]) in chosen) is own] for own in (True, False)):
        surely = [row for row in among if row["tpr_p"] <= TPR_ERROR / 2 / len(among)]
        if surely:
            row = min(surely, key=lambda row: (row["tpr_p"], -row["tpr"]))
            yield (
                f"{_label(row)} recognises {percent(row['tpr'])} of the most exposed samples at 1 % false positives, "
                f"surely more than {TIMES:g} times as many as others that it takes for them (p = {row['tpr_p']:.4f})"
            )
            return


def _open(upper: Mapping[str, float | None], limit: Limit, *, fresh: bool) -> Iterator[str]:
    """Why nothing is shown to hold."""
    if not fresh:
        yield "no attack learned on rows that the perturber never saw"
    if "bits" not in upper or any(high is None for high in upper.values()):
        yield "not every attack has an upper end"
    above = [
        _UP_TO[name].format(high) for name, high in upper.items() if high is not None and high > _allowed(limit, name)
    ]
    if above:
        yield f"upper ends of attacks reach {', '.join(above)}"


_UP_TO = {"points": "{:.1f} points over chance", "bits": "{:.3f} bits", "balanced": "{:.1f} points balanced"}


def _needed(
    figures: list[_Figure], limit: Limit, data: Mapping[str, Any] | None, others: float
) -> dict[str, Any] | None:
    """Test rows or units with which every figure would lie on one side of its limit, estimates being what they are.

    An interval shrinks with the root of their number. An estimate very close to its limit counts as a tenth of the
    limit away from it, or no number would do. None where it cannot be known.
    """
    if data is None or any(one.high is None or one.low is None for one in figures):
        return None
    clusters = data.get("clusters")
    have = int(clusters["test"] if clusters else data["rows"]["test"])
    times = 1.0
    for one in figures:
        allowed = _allowed(limit, one.name)
        if one.low is not None and one.high is not None and one.high > allowed:
            half = one.high - one.estimate if one.estimate <= allowed else others * (one.estimate - one.low)
            times = max(times, (half / max(abs(allowed - one.estimate), allowed / 10, 1e-9)) ** 2)
    total = int(min(max(np.ceil(round(have * times, 3)), have + 1), 10**9))
    return {"unit": f"{clusters['kind']}s" if clusters else "rows", "total": total, "more": total - have}


def _allowed(limit: Limit, name: str) -> float:
    return {"points": limit.points, "balanced": limit.points, "bits": limit.bits}[name]


def _largest(ends: list[float | None]) -> float | None:
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None
