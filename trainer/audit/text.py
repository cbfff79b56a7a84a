"""An audit as text for a terminal, and the blocks that text, card and page are made of: findings by question."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from edgeveil.edge_runtime.bundle.audit_figures import ATTACKS, DONOR, HIDDEN, KEPT, LABEL_ONLY, RAW, SENT, WORDS
from edgeveil.trainer.audit.findings import Answer, Finding, answers, best, findings, fixed, guess, kept, most_bits
from edgeveil.trainer.audit.sections.certificate_section import EVERY, upper
from edgeveil.trainer.audit.verdict import EARLIER, board_name, percent, sentences, verdict, words

LEAKS, BOUNDED, NOTHING_FOUND, CANNOT_TELL = WORDS
OF = {SENT: "what is sent", LABEL_ONLY: "label-only, the floor", RAW: "raw samples", DONOR: "donors"}
HEAD = (
    f"  {'adversary':26} {'learned on':14} {'right':>7}  {'95 % interval':15} {'AUC':>5} {'bits':>7} {'1% FPR':>7} "
    f"{'worst z':>7}  {'rows':>6}"
)
_CHANGED = {"frame": "other frames", "label": "labels flipped", "code": "codes flipped"}
_SURE = {
    LEAKS: "Surely: lower ends of 95 % intervals are above what is allowed, with allowance for the number of attacks.",
    BOUNDED: "As surely as what its bound assumes is true, of every attack, tried or not.",
    NOTHING_FOUND: "No guarantee: {attacks} attacks were tried on {rows:,} test rows; a stronger one may find more.",
    CANNOT_TELL: "Not shown either way: on {rows:,} test rows, intervals of {attacks} attacks reach above the limit.",
}
_NEXT = {
    LEAKS: "Do not rely on it to hide {z}. Send the predicted {y} alone (label-only), or train another perturber.",
    BOUNDED: "Check that what the bound assumes is true where it is used, and read what was not tested.",
    NOTHING_FOUND: "Use it where people, places and sensors are like those measured, and read what was not tested.",
    CANNOT_TELL: "Audit it with more test data{needed}. Until then, take it as one that leaks.",
}


class Block(NamedTuple):
    """The answers to one question, about one output; ``attacked`` where they are attacks on z.

    ``null`` names what stands next to figures: what y alone reaches, or, under y itself, always its commonest class.
    """

    title: str
    of: str
    attacked: bool
    rows: tuple[Answer, ...]
    null: str


def blocks(found: Iterable[Finding]) -> list[Block]:
    """Findings by output and question, in the order in which they were found; attacks apart from what else is known.

    An attack that did not run stands once for each reason, with the number of questions.
    """
    grouped: dict[tuple[str, str, bool], list[Answer]] = {}
    every = answers(found)
    hidden = {row.question for row in every if row.kind == "guess"}
    missed = Counter((row.name, row.first.not_run) for row in every if row.first.not_run and row.kind in ATTACKS)
    for row in every:
        if (times := missed.get(why := (row.name, row.first.not_run), 0)) > 1:
            row = _once(row, times)
            missed[why] = 0
        elif why in missed and times == 0:
            continue
        grouped.setdefault((row.of, row.question, row.kind in (*ATTACKS, "guess")), []).append(row)
    order, tables = list(OF), []
    for of, question, attacked in sorted(grouped, key=lambda key: order.index(key[0])):
        title = question if of == SENT else f"{question} ({OF[of]})"
        title += ": tests, parts and bounds" if not attacked and (of, question, True) in grouped else ""
        rows = tuple(grouped[of, question, attacked])
        own = question not in hidden and any(row.kind in ("reader", KEPT) for row in rows)
        tables.append(Block(title, of, attacked, rows, "commonest class" if own else "y alone"))
    return tables


def _once(row: Answer, times: int) -> Answer:
    """An attack that did not run for so many questions, as one line."""
    first = dataclasses.replace(row.first, not_run=f"{row.first.not_run} ({times} questions alike)")
    return dataclasses.replace(row, figures={first.figure: first})


def alone(block: Block) -> str:
    """How often the best guess from y alone is right, as text; where it differs, that from the public prior too."""
    guesses = {row.name: row.first for row in block.rows if row.kind == "guess"}
    best_guess = max(guesses.values(), key=lambda one: one.value or 0.0)
    prior = guesses.get("prior", best_guess)
    more = f" ({prior.shown()} by the stated prior)" if prior.shown() != best_guess.shown() else ""
    return f"{best_guess.shown()}{more}"


def attack_line(row: Answer) -> str:
    """One attack; what could not be measured is a dash."""
    kind = f"{row.learned_on} rows" if row.kind == "adaptive" else "non-adaptive"
    right = row.figures["right"]
    auc, bits = (row.figures.get(name) for name in ("auc", "bits"))
    ends = ", ".join(percent(end) for end in right.interval)
    left = f"  {row.name:26} {kind:14} {percent(right.value):>7}  [{ends}]"
    exposed = " ".join(f"{_share(row.figures.get(name)):>7}" for name in ("recognised", "worst-class"))
    mark = "  <- best attack found" if right.more.get("chosen") else ""
    area = "    -" if auc is None or auc.value is None else f"{auc.value:5.3f}"
    more = "      -" if bits is None or bits.value is None else f"{bits.value:+7.3f}"
    return f"{left:71} {area} {more} {exposed}  {right.more.get('train_samples', 0):6d}{mark}"


def line(row: Answer, null: str = "y alone") -> str:
    """Any other answer: its figures with what ``null`` reaches, on how many rows, and what it means."""
    name = row.label if not row.about else f"{row.label}: {row.about}" if row.kind == "part" else row.about
    if row.first.not_run:
        return f"  {name or row.kind:44} not run: {row.first.not_run}"
    shown = [f"{figure} {one.shown()}{_compared(one, null)}" for figure, one in row.figures.items() if figure]
    rows = f" ({row.first.rows:,})" if row.first.rows else ""
    bound = "at most " if row.first.bound else ""
    text = f"{'. ' if shown else ''}{row.first.text}" if row.first.text else ""
    return f"  {name:44} {bound}{', '.join(shown)}{rows}{text}".rstrip()


def lines(block: Block) -> Iterator[str]:
    """A block for a terminal."""
    yield block.title
    if not block.attacked:
        yield from (line(row, block.null) for row in block.rows)
        return
    if any(row.kind == "guess" for row in block.rows):
        yield f"  {'y alone':41} {alone(block):>7}"
    tried = [row for row in block.rows if row.kind in ATTACKS]
    yield HEAD
    yield from (attack_line(row) for row in tried if "right" in row.figures)
    yield from (line(row) for row in tried if "right" not in row.figures)
    yield from (
        f"  The {row.name} is of {row.first.more['members']}." for row in tried if row.first.more.get("members")
    )


def board_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The column of a board: which it is, and where its outputs differ from a workstation's."""
    on_board = document.get("on_board")
    if on_board is None:
        return
    backends = ", ".join(f"{b['backend']} {b['version']}" for b in document["backends"].values()) or "numpy"
    where = "By a simulator, on no board" if on_board.get("simulated") else "On the board"
    yield f"{where} ({board_name(on_board)}; {backends}), {on_board['rows']:,} test rows next to the workstation's:"
    for row in on_board["compared"]:
        apart = "" if row["max_abs"] is None else f", by {row['max_abs']:g} at most"
        ends = f"[{100 * row['low']:.2f}, {100 * row['high']:.2f}]"
        yield f"  {row['what']:24} {row['differ']:6,} {_CHANGED[row['kind']]}: {100 * row['share']:.2f} % {ends}{apart}"
    yield f"  {on_board['meaning']}"


def figures(document: Mapping[str, Any]) -> dict[str, str]:
    """The figures that a reader compares first, as text: y kept and z attacked, of what is sent, of label-only and of
    raw samples."""
    z = document["data"]["sensitive"]
    texts = {"chance": percent(guess(document)), "best": best(document).label}
    for name, of in (("", SENT), ("_floor", LABEL_ONLY), ("_raw", RAW)):
        every = findings(document, of)
        if any(one.kind == "reader" for one in every):
            texts[f"kept{name}"] = kept(document, of).shown()
        if any(one.kind in ATTACKS for one in every):
            texts[f"attack{name}"] = best(document, of).figures["right"].shown()
            texts[f"bits{name}"] = most_bits(document, of).figures["bits-counted"].shown()
        read = next((one for one in every if one.kind == "reader" and one.question == z), None)
        if read is not None:
            texts[f"attack{name}"] = read.shown()
    return texts


def answers_in_words(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is kept, what leaks, how sure that is and what to do next, for somebody who knows nothing of it."""
    y, z, judged = document["data"]["target"], document["data"]["sensitive"], verdict(document)
    sent = findings(document, SENT)
    attacks = {(one.name, one.learned_on) for one in sent if one.kind in ATTACKS and one.figure}
    if not attacks:  # too few rows to attack
        return []
    tried = {"attacks": len(attacks), "rows": document["data"]["rows"].get("test", 0), "y": y, "z": z}
    reader, of_raw = kept(document), fixed(document)
    reader, of_raw = kept(document), fixed(document)
    shown, needed = figures(document), judged["needed"]
    fixed_one = "" if reader.shown() == of_raw.shown() else f"; by {of_raw.name}, which is fixed, {of_raw.shown()}"
    keeps = f"{y} is read right {reader.shown()} of the time from what is sent (by {reader.name}{fixed_one})"
    beside = {"kept_raw": "from raw samples", "kept_floor": "from label-only, which sends the predicted class alone"}
    keeps += "".join(f", {shown[name]} {where}" for name, where in beside.items() if name in shown)
    keeps += "".join(f"; {one.question} by itself {one.shown()}" for one in sent if one.kind == KEPT)
    beyond = [one for one in sent if (one.name, one.figure) == ("x to x'", "correlation")]
    if beyond:
        names = ", ".join(f"{one.question} {one.value:.2f}" for one in beyond)
        keeps += f". Beyond {y}: {names} (correlation of x with x' within {y}; label-only keeps 0)"
    leak = (
        f"The best attack found of {tried['attacks']} ({_learned(best(document))}) reads {z} right "
        f"{shown['attack']} of the time. A guess from {y} alone is right {shown['chance']}"
    )
    for one in sent:
        if one.kind == HIDDEN and one.figure == "right":
            leak += f"; {one.question} by itself {one.shown()}{_compared(one, f'{y} alone')}"
    for one in sent:
        if one.figure == "auc" and one.more.get("worst") and one.more["read"]:
            leak += f". Of other labels, which the verdict is not about, the worst: {one.about}, AUC {one.shown()}"
    more = "" if needed is None else f": about {needed['more']:,} more {needed['unit']}"
    return [
        ("What it is for", f"{y} (y) is to be read from what is sent, {z} (z) is not."),
        ("What is kept", f"{keeps}."),
        ("What leaks", f"{leak}."),
        ("How sure", _how_sure(document, tried)),
        ("What next", _NEXT[judged["word"]].format(needed=more, **tried)),
    ]


_ROWS = {
    "old": "what is sent for the rows that trained the perturber",
    "fresh": "what is sent for rows that no training saw",
    "both": "what is sent for rows that trained the perturber and fresh ones",
    "crossed": "what is sent, for the other parts of the test too",
    "several": "what is sent, by several attacks together",
}


def _learned(row: Answer) -> str:
    """The name of an attack, and what it learned on."""
    return f"{row.name}, trained on {_ROWS[row.learned_on]}" if row.learned_on in _ROWS else row.label


def _how_sure(document: Mapping[str, Any], tried: Mapping[str, Any]) -> str:
    """What the verdict rests on: the bound that it names, in its own words, what the recipe allows, where the audit
    recorded that, and by how much single codes raise a chance, which a bound on the average does not show."""
    judged, every = verdict(document), findings(document)
    text, limit = _SURE[judged["word"]].format(**tried), judged.get("limit")
    if judged["word"] == BOUNDED and judged["findings"]:
        by = every[judged["findings"][0]]
        text += f" {by.text}" if by.bound and by.text else ""
    if limit is not None:
        text += f" Allowed are {limit['points']:g} points above y alone and {limit['bits']:g} bits."
    worst = next((one for one in every if one.of == SENT and one.name == EVERY and one.bound), None)
    if worst is not None and worst.value is not None:
        text += f" That is on average; a single code raises a chance by a factor of at most {upper(worst.value)}"
        rare = 1 - worst.more.get("share", 1)
        text += f", except for rare codes ({percent(rare)} of samples)." if rare else "."
    return text


def summary(document: Mapping[str, Any]) -> str:
    """The verdict in a line, the findings that it rests on, and the four answers in words."""
    all_findings, judged = findings(document), verdict(document)
    verdict_line = words(document)
    first = [f"{verdict_line[0].upper()}{verdict_line[1:]}."]
    first += [EARLIER] if document.get("verdict") is None else []
    shown = (all_findings[place] for place in judged["findings"])
    first += [f"  {number}. {one.question}: {_short(one)}" for number, one in enumerate(shown, 1)]
    return "\n".join(
        [
            *first,
            *(f"LIMIT NOT MET. {text}" for text in sentences(document.get("limits") or {"exceeded": []})),
            *(f"{name}: {text}" for name, text in answers_in_words(document)),
            *(f"Tracks: {one.text}" for one in all_findings if one.more.get("headline")),
            headline(document),
        ]
    )


def as_text(document: Mapping[str, Any]) -> str:
    """Every table of the document for a terminal, and the summary last; non-adaptive numbers are marked as such."""
    text_lines: list[str] = []
    for block in blocks(findings(document)):
        text_lines += ["", *lines(block)]
    too_little = [f"Too little: {warning}" for warning in document.get("warnings", ())]
    promised = [f"Promised: {one.text}" for one in findings(document, SENT) if one.bound and one.text]
    return "\n".join([*text_lines[1:], "", *board_lines(document), *promised, *too_little, "", summary(document)])


def headline(document: Mapping[str, Any]) -> str:
    """What was audited, on which data, how hard."""
    data = document["data"]
    what = f"{document['artefact']} of {document['perturber']} on " if "artefact" in document else ""
    of = f" of {data['sampled_from']['test']:,}" if "sampled_from" in data else ""
    where = f" on {board_name(document['on_board'])}" if "on_board" in document else ""
    return (
        f"{what}{data['name']}{where}: {data['rows'].get('test', 0):,}{of} test rows, {document['budget']} audit, "
        f"95 % intervals ({document['intervals']})"
    )


def next_step(document: Mapping[str, Any], folder: Path) -> str:
    """What to do with an audited export folder."""
    seal = f"Next: edgeveil seal {folder} --key keys/signing.key --out FILE.veil"
    word = verdict(document)["word"]
    if word == LEAKS:
        return f"{seal} (its card says that it leaks; edgeveil recipe list names other perturbers)"
    if word == CANNOT_TELL:
        return f"{seal} (its card says that this cannot be told; more test data may tell)"
    return seal


def measured_spending(document: Mapping[str, Any], *, broken: bool = False) -> list[str]:
    """What a training's mechanisms spend by running them, a line for each; ``broken``: of claims that do not hold."""
    measurements = [one for one in findings(document) if "holds" in one.more]
    return [one.text for one in measurements if not (broken and one.more["holds"])]


def _short(one: Finding) -> str:
    about = f", {one.about}" if one.about else ""
    how = f"{one.name} on {one.learned_on} rows" if one.kind == "adaptive" else one.name
    shown = one.shown() if one.figure else one.text
    return f"{shown}{_compared(one, 'y alone')} ({one.figure or one.kind}; {how}{about})"


def _compared(one: Finding, null: str) -> str:
    if one.null is None or one.figure not in ("right", "balanced", "auc", "eer", "share", "worst-class"):
        return "" if one.p is None else f", p = {one.p:.3g}"
    p = "" if one.p is None else f", p = {one.p:.3g}"
    return f"; {null} {Finding('', '', one.figure, one.null).shown()}{p}"


def _share(one: Finding | None) -> str:
    return "-" if one is None else percent(one.value)
