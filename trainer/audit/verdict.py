"""The verdict of an audit, by the upper ends of intervals: the same in every command, page, card, policy and sweep.

*leaks*: an attack surely learns more than the limit, or surely recognises some samples. *bounded*: whatever attack is
tried, it stays within the limit, by a bound that the findings have, and no outlet is there that was not attacked.
*nothing found*: with 95 % confidence no attack tried learns as much as the limit, which is no guarantee. *cannot tell*:
neither, so more test rows are needed. Few rows make intervals wide, so they never make an audit look better. An effect
that is sure but below the limit is said with its size, and is no leak. The line names outlets that were not attacked,
and for how many frames of a stream a bound holds; where it is for one alone, nothing is *bounded*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.bundle.audit_figures import ATTACKS, HIDDEN, WORDS, bounds, upper_ends
from edgeveil.edge_runtime.device import CPU
from edgeveil.trainer.attacks.exposure import TIMES
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.run_all import LEARNED_ON
from edgeveil.trainer.audit.findings import SENT, STREAM_BOUND, UNATTACKED, Answer, Finding, answers, findings
from edgeveil.trainer.measures.intervals import wider
from edgeveil.trainer.recipe.training_sections import Limits

LEAKS, BOUNDED, NOTHING_FOUND, CANNOT_TELL = WORDS
MOST_FINDINGS = 3  # of a verdict
SIGNIFICANT = 0.01  # of the permutation tests, on all rows and on parts of them, together
TPR_ERROR = 0.025  # of the tests that no attack recognises the most exposed more than three times too often, together
SMALLEST = 0.001  # bits that are written
COUNTED = f"{CodeCounts.name} on {LEARNED_ON} rows"
FRESH = ("fresh", "both", "crossed", "several")  # an ensemble of several settings has one of the others in it
EARLIER = (
    "This audit was made before upper ends and fresh rows were recorded, so it cannot show that nothing leaks. Audit "
    "again for a verdict of today."
)


class Limit(NamedTuple):
    """What attacks may learn: ``points`` over chance, also of balanced accuracy, and ``bits`` per sample beyond y."""

    points: float
    bits: float

    def of(self, name: str) -> float:
        """That of a kind of figure."""
        return self.bits if name == "bits" else self.points


# Where the recipe asks for nothing. 5 points: half the width of the 95 % interval of 385 rows at 50 %, so about what a
# small test slice can show at all. 0.05 bits: at a skewed prior, or where few rows leak much, an attack can gain that
# and be right no more often; it is what guessing a fair coin right 63 % of the time gains.
DEFAULT = Limit(5.0, 0.05)


class _Shown(NamedTuple):
    """What a finding shows, in words; of a gain, also its ``size``."""

    finding: Finding
    words: str
    size: str = ""


def judge(document: Mapping[str, Any], limits: Mapping[str, Any], *, of: str = SENT) -> dict[str, Any]:
    """The ``verdict`` of a document's findings on one output, as docs/reference/schemas/audit.schema.json describes it.

    Of ``document`` its ``findings`` (as JSON) are read, and of its ``data`` the name of z, the test ``rows`` and the
    ``clusters``. ``limits`` are the recipe's (``attack_points``, ``bits``; None: the default). Attacks that were chosen
    on validation, and codes counted crossed, which need no choice, are judged by their own intervals. Any other leaks
    only beyond one widened for the number of attacks (Bonferroni), or the luckiest of them would decide. That all upper
    ends are below a limit needs no such correction.
    """
    asked = (limits.get(name) for name in ("attack_points", "bits"))
    limit = Limit(*(default if one is None else float(one) for one, default in zip(asked, DEFAULT, strict=True)))
    every, data = findings(document), document["data"]
    about = [one for one in every if one.of == of]
    mine = [one for one in about if one.question == data["sensitive"]]
    rows = answers((one for one in mine if not one.not_run), *ATTACKS)
    attributes = answers(one for one in about if one.kind == HIDDEN and one.figure == "right")
    figures = [figure for row in (*rows, *attributes) for figure in _figures(row)]
    chosen, y, others = _chosen(rows, mine), data.get("target", "y"), wider(max(1, len(rows)))
    leaks = [
        *_surely(((row, 1.0 if (row.label, row.seed) in chosen else others) for row in rows), limit, y),
        *recognises(rows, chosen),
        *_surely(((one, wider(len(attributes))) for one in attributes), limit, y),  # they share the error
    ]
    gains = [(one, (one.finding.value or 0.0) > limit.bits) for one in _gains(rows, mine)]
    leaks += [one for one, much in gains if much]
    tiny = [
        one._replace(words=f"sure but tiny: an attack surely gains {one.size} (p = {one.finding.p:.3f})")
        for one, much in gains
        if not much
    ]
    upper, sent = upper_ends(document, of), about if of == SENT else []
    bound = bounds(document) if of == SENT else {}
    fresh = any(one.kind == "adaptive" and one.learned_on in FRESH for one in rows)
    unread = [one.question for one in sent if one.kind == UNATTACKED]
    streams = [one for one in sent if one.kind == STREAM_BOUND]
    below = all(high is not None and high <= limit.of(name) for name, high in upper.items())
    held = (
        not unread
        and bound.get("points", np.inf) <= limit.points
        and all(
            min(np.inf if high is None else high, bound.get(name, np.inf)) <= limit.of(name)
            for name, high in upper.items()
        )
        and all(one.bound and one.more.get("answers", 1) == 1 for one in streams)  # the bounds are of one release
    )
    word = LEAKS if leaks else BOUNDED if held else NOTHING_FOUND if fresh and below else CANNOT_TELL
    needed = _needed(figures, others, limit, data) if word == CANNOT_TELL and fresh else None
    if word == BOUNDED:
        shown = [_bounded(mine, data, bound["points"]), *tiny]
    else:
        at = [*(row.first for row in rows[:1]), *(one for one in mine if one.kind == "guess")]
        shown = leaks or [*_reached(figures, at, word, upper, limit, fresh=fresh), *tiny]
    line = "; ".join(one.words.removesuffix(".") for one in shown[: 1 if leaks else None])
    if needed is not None:
        line += f"; about {needed['more']:,} more test {needed['unit']} would be needed, if figures stay as they are"
    if unread:
        line += f"; not of the {' and '.join(unread)}, which leave as well and were not attacked"
    line += "".join(f"; {one.more['line']}" for one in streams)
    places = [next(n for n, other in enumerate(every) if other is one.finding) for one in shown]
    return {
        "word": word,
        "line": line,
        "findings": list(dict.fromkeys(places))[:MOST_FINDINGS],
        "reasons": [one.words for one in shown],
        "limit": limit._asdict(),
        "upper": {name: None if high is None else round(high, 6) for name, high in upper.items()},
        "needed": needed,
    }


def verdict(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict that a document has; formed from its findings where it was made before there was one."""
    recorded = document.get("verdict")
    return recorded if recorded is not None else judge(document, (document.get("limits") or {}).get("asked", {}))


def words(document: Mapping[str, Any]) -> str:
    """The verdict in one line: its word, and what shows it."""
    judgement = verdict(document)
    return f"{judgement['word']}: {judgement['line']}" if judgement["line"] else str(judgement["word"])


Judged = tuple[str, Finding, float, float | None, float | None]


def _figures(row: Answer) -> Iterator[Judged]:
    """What can be judged of one attack, by the limit's names: estimate and ends over the null, points in percent."""
    for name, figure, size in (
        ("points", "right", 100.0),
        ("bits", "bits-counted", 1.0),
        ("balanced", "balanced", 100.0),
    ):
        one = row.figures.get(figure)
        if one is not None and one.value is not None and one.null is not None:
            low, high = (None if end is None else size * (end - one.null) for end in one.interval)
            yield name, one, size * (one.value - one.null), low, high


def _chosen(rows: Sequence[Answer], mine: Sequence[Finding]) -> list[tuple[str, int | None]]:
    """Attacks that are judged by their own intervals."""
    chosen = [(one.label, one.seed) for one in rows if any(each.more.get("chosen") for each in one.figures.values())]
    if any(one.kind == "counting" for one in mine):
        chosen += [(COUNTED, one.seed) for one in rows]
    return chosen


_SURELY = {
    "points": "{attack} reads {z} right at least {low:.1f} points more often than {y} alone ({allowed:g} allowed)",
    "balanced": "{attack} is at least {low:.1f} points above y alone, all values of {z} alike ({allowed:g} allowed)",
    "bits": "{attack} gains at least {low:.3f} bits per sample about {z} beyond {y} ({allowed:g} allowed)",
}


def _surely(rows: Iterable[tuple[Answer, float]], limit: Limit, y: str) -> Iterator[_Shown]:
    """By which answers it surely leaks, one for each kind of figure: the one that shows most of it.

    With each comes by how much its interval is widened.
    """
    shown: dict[str, tuple[float, Finding, str]] = {}
    for row, factor in rows:
        for name, one, estimate, low, _ in _figures(row):
            least = None if low is None else estimate - factor * (estimate - low)
            if least is not None and least > limit.of(name) and least > shown.get(name, (-np.inf,))[0]:
                shown[name] = least, one, row.label
    for name, form in _SURELY.items():
        if name in shown:
            least, one, attack = shown[name]
            words = form.format(attack=attack, z=one.question, y=y, low=least, allowed=limit.of(name))
            yield _Shown(one, words)


def recognises(rows: Sequence[Answer], chosen: Sequence[tuple[str, int | None]]) -> Iterator[_Shown]:
    """Where an attack surely recognises the most exposed samples more than three times as often as it takes others for
    them. The chosen attacks share half of the error, the others the other half. An older audit has no test."""
    tested = [row for row in rows if "recognised" in row.figures and row.figures["recognised"].p is not None]
    for own in (True, False):
        among = [(row, row.figures["recognised"]) for row in tested if ((row.label, row.seed) in chosen) is own]
        surely = [(row, one) for row, one in among if (one.p or 0.0) <= TPR_ERROR / 2 / len(among)]
        if surely:
            row, one = min(surely, key=lambda pair: (pair[1].p or 0.0, -(pair[1].value or 0.0)))
            yield _Shown(
                one,
                f"{row.label} recognises {percent(one.value)} of the most exposed samples at 1 % false positives, "
                f"surely more than {TIMES:g} times as many as others that it takes for them (p = {one.p:.4f})",
            )
            return


def _gains(rows: Sequence[Answer], mine: Sequence[Finding]) -> Iterator[_Shown]:
    """Bits that are surely gained, by the permutation tests: of the surest part of the rows, and of all rows.

    The parts have one half of the level, and the tests on all rows share the other, so that all tests together are
    wrong as rarely as one.
    """
    parts = [one for one in mine if one.kind == "part" and one.figure == "bits-counted" and one.p is not None]
    surely = [one for one in parts if (one.p or 0.0) <= SIGNIFICANT and (one.value or 0.0) > 0]
    if surely:
        one = min(surely, key=lambda one: one.p or 0.0)
        where = f"{one.rows:,} rows ({one.about}; permutation test, corrected p = {one.p:.3f})"
        yield _Shown(
            one, f"{one.name} surely gains {_least(one)} about {where}", f"{_least(one)} about {one.rows:,} rows"
        )
    tests = [one for one in mine if one.kind in ("test", "counting")]
    counting = any(one.kind == "counting" for one in tests)
    level = SIGNIFICANT / (2 if parts else 1) / (2 if counting else 1)
    for one in tests:
        # Where rows of one cluster swapped their z, the p-value is too small for rows that depend on each other. And an
        # attack that is worse than counting, only less so than on shuffled z, has gained nothing.
        if (one.p or 0.0) <= level and (one.value or 0.0) > 0 and one.more.get("swapped") != "rows of clusters":
            of = (
                row.figures["bits-counted"] for row in rows if (row.name, row.learned_on) == (one.name, one.learned_on)
            )
            size = f"{_least(next(of, one))} per sample"
            yield _Shown(one, f"{one.name} surely gains {size} (permutation test, p = {one.p:.3f})", size)
            return


def _least(one: Finding) -> str:
    """Bits that are sure, and their estimate where nothing is."""
    low, value = one.interval[0], one.value or 0.0
    estimate = f"{value:.3f} bits" if value >= SMALLEST else f"something, by estimate less than {SMALLEST:g} bits"
    return estimate if low is None or low < SMALLEST else f"at least {low:.3f} bits"


def _bounded(mine: Sequence[Finding], data: Mapping[str, Any], points: float) -> _Shown:
    """The bound that keeps every attack within so many points; its own text has the assumptions."""
    guesses = [one.as_json() for one in mine if one.kind == "guess"]

    def alone(one: Finding) -> float:
        return bounds({"data": data, "findings": [*guesses, one.as_json()]}).get("points", np.inf)

    by = min((one for one in mine if one.bound), key=alone)
    reach = f"no attack reads {by.question} more than {points:.1f} points above a guess from {data.get('target', 'y')}"
    return _Shown(by, f"{reach} alone, if what its bound assumes is true")


def _reached(
    figures: Iterable[Judged],
    at: Sequence[Finding],
    word: str,
    upper: Mapping[str, float | None],
    limit: Limit,
    *,
    fresh: bool,
) -> Iterator[_Shown]:
    """What no attack surely passed: the attacks that reach furthest, with what they may reach.

    The first of ``at`` shows what is missing.
    """
    furthest: dict[str, tuple[float, Finding]] = {}
    for name, one, estimate, _, high in figures:
        reach = estimate if high is None else high
        if name not in furthest or reach > furthest[name][0]:
            furthest[name] = reach, one
    up_to = [_UP_TO[name].format(high) for name, high in upper.items() if high is not None]
    if word == NOTHING_FOUND:
        most = furthest["points"][1]
        yield _Shown(
            most, f"attacks tried reach at most {', '.join(up_to)} (upper ends of 95 %), which is no guarantee"
        )
    else:
        if not fresh:
            yield _Shown(at[0], "no attack learned on rows that the perturber never saw")
        if any(high is None for high in upper.values()):
            yield _Shown(at[0], "not every attack has an upper end")
        for name, high in upper.items():
            if high is not None and high > limit.of(name):
                words = f"attacks may reach {_UP_TO[name].format(high)} ({limit.of(name):g} allowed)"
                yield _Shown(furthest[name][1], words)


_UP_TO = {"points": "{:.1f} points above y alone", "bits": "{:.3f} bits", "balanced": "{:.1f} points balanced"}


def _needed(figures: Sequence[Judged], others: float, limit: Limit, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Test rows or units with which every figure would lie on one side of its limit, estimates being what they are.

    An interval shrinks with the root of their number. An estimate very close to its limit counts as a tenth of the
    limit away from it, or no number would do. None where it cannot be known. ``others``: by how much the intervals of
    attacks that were not chosen are widened.
    """
    if "rows" not in data or any(low is None or high is None for _, _, _, low, high in figures):
        return None
    clusters = data.get("clusters")
    have = int(clusters["test"] if clusters else data["rows"]["test"])
    times = 1.0
    for name, _, estimate, low, high in figures:
        allowed = limit.of(name)
        if low is not None and high is not None and high > allowed:
            half = high - estimate if estimate <= allowed else others * (estimate - low)
            times = max(times, (half / max(abs(allowed - estimate), allowed / 10, 1e-9)) ** 2)
    total = int(min(max(np.ceil(round(have * times, 3)), have + 1), 10**9))
    return {"unit": f"{clusters['kind']}s" if clusters else "rows", "total": total, "more": total - have}


def percent(share: float | None) -> str:
    """0.5 as ``50.0 %``; what was not measured is a dash."""
    return "-" if share is None else f"{100 * share:.1f} %"


# A recipe's privacy limits against the figures of an audit (exit code 3 where one is exceeded).

_EXCEEDED = {
    "attack_points": "Attacks may reach {found:.1f} points above y alone (upper end of 95 %): the recipe allows "
    "{asked:g} (limits.attack_points), exceeded by {by:.1f}.",
    "bits": "Attacks may learn {found:.3f} bits per sample beyond y (upper end of 95 %): the recipe allows {asked:g} "
    "(limits.bits), exceeded by {by:.3f}.",
}
_UNKNOWN = (
    "The recipe allows {asked:g} (limits.{limit}), and the audit has no upper end to compare: too few test units."
)


def held_to(limits: Limits, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The ``limits`` section: what was asked, what was ``found``, and ``exceeded``, a list with what and by how much.

    ``verdict`` is the document's. What is found are upper ends of the attacks' 95 % intervals: points over the better
    of both chances, also of balanced accuracy, and bits beyond counting z given y. A limit is met where they show it.
    """
    requested, upper = limits_of(limits), verdict["upper"]
    both = [upper[name] for name in ("points", "balanced") if name in upper]
    upper_bounds = {"attack_points": None if None in both else max(both), "bits": upper.get("bits")}
    exceeded = []
    for name, limit in requested.items():
        high = upper_bounds[name]
        if limit is not None and (high is None or high > limit):
            by = None if high is None else round(high - limit, 6)
            exceeded.append({"limit": name, "asked": limit, "found": high, "by": by})
    return {"asked": requested, "found": upper_bounds, "exceeded": exceeded}


def limits_of(limits: Limits) -> dict[str, float | None]:
    """What the recipe asks of attacks; None where it asks nothing."""
    return {"attack_points": limits.attack_points, "bits": limits.bits}


def sentences(section: Mapping[str, Any]) -> list[str]:
    """One sentence for each limit that was exceeded."""
    return [
        (_UNKNOWN if row["found"] is None else _EXCEEDED[row["limit"]]).format(**row) for row in section["exceeded"]
    ]


# The column of an audit that a board adds.


def column_title(document: Mapping[str, Any]) -> str:
    """The title of a column of the card: the artefact, and the board where it ran on one."""
    on_board = document.get("on_board")
    return document["artefact"] if on_board is None else f"{document['artefact']} on {board_name(on_board)}"


def board_name(there: Mapping[str, Any]) -> str:
    """A board by its model, else by its processor and system; and its accelerator, where that ran the artefact."""
    name = there["board"] or f"{there['architecture']}, {there['system'] or 'an unknown system'}"
    return name if _device(there) == CPU else f"{name}, its {_device(there)}"


def joined(document: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The boards' columns of an export with a new one, which replaces an older one of the same board."""
    return [*(dict(one) for one in columns if _which(one) != _which(document)), dict(document)]


def _which(document: Mapping[str, Any]) -> tuple[Any, ...]:
    on_board = document["on_board"]
    place = (on_board[key] for key in ("board", "architecture", "system", "python"))
    return (document["artefact"], _device(on_board), *place)


def _device(there: Mapping[str, Any]) -> str:
    """The device that ran the artefact there; older audits do not name it, and ran on the processor."""
    return there.get("device", CPU)
