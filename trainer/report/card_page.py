"""Pages and terminal lines of audits: a verdict, four answers in words, and a table for each question.

``text.answers_in_words`` and ``tables`` are made of findings alone; the page of a card, of a report and of an audit
before and after show both, and so does the terminal.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from edgeveil.edge_runtime.bundle.audit_figures import ATTACKS, FIGURES, WORDS
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import file_place, write_atomic
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.audit.card import SUBSTITUTED, current, guarantees
from edgeveil.trainer.audit.findings import SENT, Finding, findings, written
from edgeveil.trainer.audit.text import Block, alone, answers_in_words, blocks, board_lines, lines
from edgeveil.trainer.audit.verdict import column_title, percent, verdict, words
from edgeveil.trainer.report.figures import readers

LEAKS, BOUNDED, NOTHING_FOUND, CANNOT_TELL = WORDS
FOLDER = Path(__file__).parent / "templates"
DASH = "\N{EN DASH}"
LEARNED = "rows learned from"
TONES = {LEAKS: "bad", BOUNDED: "good", NOTHING_FOUND: "good", CANNOT_TELL: "some"}


class Row(NamedTuple):
    """A row of a table; ``mark`` is a word next to its name, ``look`` a class of the style sheet."""

    cells: tuple[str, ...]
    mark: str = ""
    look: str = ""
    note: str = ""


class Table(NamedTuple):
    """The answers to one question, as text."""

    title: str
    of: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    brief: str = ""  # next to its title while it is folded


def tables(found: Sequence[Finding]) -> list[Table]:
    """A table for each question: name, learned on, figure with its interval, what y alone reaches, rows."""
    return [_attacks(block) if block.attacked else _answers(block) for block in blocks(found)]


def _attacks(block: Block) -> Table:
    """Attacks next to each other, a column for each figure."""
    known = {name for row in block.rows for name in row.figures}
    # Bits beyond the public prior may be gained by correcting it, and are not leaked: audit.json has them too.
    names = [name for name in FIGURES if name in known and (name, "bits-counted" in known) != ("bits", True)]
    rows = []
    if any(row.kind == "guess" for row in block.rows):
        rows.append(Row(("y alone", "", alone(block), *[DASH] * len(names[1:]), "")))
    for row in block.rows:
        if row.kind == "guess":
            continue
        chosen = any(one.more.get("chosen") for one in row.figures.values())
        right = row.figures.get("right")
        mark = "most bits" if chosen else "non-adaptive" if row.kind in ("fixed", "transfer") else ""
        mark = "best attack found" if right is not None and right.more.get("chosen") else mark
        look = "best" if chosen else "non" if row.kind != "adaptive" else ""
        shown = tuple(_shown(row.figures.get(name)) for name in names)
        seed = "" if not row.seed else f", seed {row.seed}"
        count = row.first.more.get("train_samples")
        cells = (f"{row.name}{seed}", row.learned_on, *shown, "" if count is None else f"{count:,}")
        rows.append(Row(cells, mark, look, row.first.not_run and f"not run: {row.first.not_run}"))
    head = ("", "learned on", *(FIGURES[name].words for name in names), LEARNED)
    ran = [row.figures["right"] for row in block.rows if row.kind in ATTACKS and "right" in row.figures]
    chosen_one = next((one for one in ran if one.more.get("chosen")), None)
    found = "" if chosen_one is None else f"best attack found {chosen_one.shown()}, y alone {alone(block)}; "
    return Table(block.title, block.of, head, tuple(rows), f"{found}{counted(len(ran), 'attack')}")


def _answers(block: Block) -> Table:
    """Answers of any kind, a line for each figure."""
    rows = []
    for row in block.rows:
        figures = [one for name, one in row.figures.items() if name]
        shown = tuple(f"{'at most ' * one.bound}{one.shown()} {FIGURES[one.figure].words}" for one in figures)
        nulls = tuple(DASH if one.null is None else written(one.null, FIGURES[one.figure].form) for one in figures)
        count = f"{row.first.rows:,}" if row.first.rows else ""
        note = f"not run: {row.first.not_run}" if row.first.not_run else row.first.text
        name = f"{row.name}: {row.about}" if row.about and row.name else row.about or row.name
        rows.append(Row((name, row.learned_on, "\n".join(shown), "\n".join(nulls), count), "", "", note))
    head = ("", "learned on", "figure [95 %]", block.null, "rows")
    return Table(block.title, block.of, head, tuple(rows), counted(len(rows), "answer"))


def _shown(one: Finding | None) -> str:
    if one is None or one.value is None:
        return DASH
    return one.shown() + ("" if one.p is None else f", p = {one.p:.3g}")


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the macro ``audited`` of sections.html shows of an audit, or of an artefact of a card."""
    all_tables = tables(findings(document))
    return {
        "tone": TONES[verdict(document)["word"]],
        "word": verdict(document)["word"],
        "line": verdict(document)["line"],
        "answers": answers_in_words(document),
        "tables": [one for one in all_tables if one.of == SENT],
        "others": [one for one in all_tables if one.of != SENT],
        "readers": readers(document),
        "z": document["data"]["sensitive"],
        "board": list(board_lines(document)),
        "guarantees": [one.text for one in guarantees(document)],
    }


def render(card: Mapping[str, Any]) -> str:
    """The page of a card (docs/reference/schemas/privacy.schema.json); every value is escaped."""
    return page("card.html", of_card(card))


def of_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """What card.html shows of a card."""
    card = current(card)
    parts = [{**one, **shown(one), "title": column_title(one)} for one in card["artefacts"]]
    return {**card, "artefacts": parts, "substituted": SUBSTITUTED}


# What a page may do: show its own pictures, style and script. It loads nothing, sends nothing, and goes nowhere.
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src '{}'; script-src '{}'"
SUBSTITUTED_MEANS = "Each is a donor, a training sample, for whose consent its owner answers."


# A page that a server shows may ask that server again, and send it a form.
SERVED = POLICY.replace("form-action 'none'", "form-action 'self'; connect-src 'self'")


def page(name: str, values: Mapping[str, Any], site: Sequence[tuple[str, str]] = ()) -> str:
    """A page of the templates, one file that loads nothing; every value is escaped.

    ``site`` are addresses and titles of a server's other pages.
    """
    template = environment(SERVED if site else POLICY).get_template(name)
    return str(template.render(**{"substituted_means": SUBSTITUTED_MEANS, "site": site, **values}))


def environment(policy: str = POLICY) -> Any:
    """Jinja for one page, with what all pages have alike: filters, the contents, and the words explained so far."""
    import jinja2

    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
        bytecode_cache=_compiled(),
    )
    words_page = Words(jinja)
    # A filter without the context would run on literal texts where a template is compiled, before what stands above.
    explained = jinja2.pass_context(lambda _, text, link=True: words_page.explained(text, link))
    jinja.filters.update(percent=percent, thousands=lambda n: f"{n:,}", explained=explained)
    sources = {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("style.html", "script.html")}
    jinja.globals.update(
        contents=[],
        explaining=words_page.used,
        source=lambda name: markup(sources[name]),
        policy=lambda: markup(policy.format(*map(_hashed, sources.values()))),
    )
    return jinja


@functools.cache
def _compiled() -> Any:
    """What templates compile to, once for this process: it takes longer than to show a page."""
    import jinja2

    class Memory(jinja2.BytecodeCache):
        code: ClassVar[dict[str, bytes]] = {}

        def load_bytecode(self, bucket: Any) -> None:
            if bucket.key in self.code:
                bucket.bytecode_from_string(self.code[bucket.key])

        def dump_bytecode(self, bucket: Any) -> None:
            self.code[bucket.key] = bucket.bytecode_to_string()

    return Memory()


def markup(text: str) -> Any:
    """Text that is HTML already: of the templates, never of data."""
    import markupsafe

    return markupsafe.Markup(text)  # noqa: S704 - of our own files


def _hashed(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


class Words:
    """The glossary on one page: the first time that one of its words stands there, it has its meaning with it."""

    def __init__(self, jinja: Any) -> None:
        self._jinja = jinja
        self.used: set[str] = set()

    @functools.cached_property
    def _meanings(self) -> tuple[dict[str, str], re.Pattern[str]]:
        glossary = self._jinja.get_template("words.html").module
        meanings = dict([*glossary.measured, *glossary.others])
        known = "|".join(re.escape(word) for word in sorted(meanings, key=len, reverse=True))
        return meanings, re.compile(rf"(?<![\w'-])(?:{known})(?![\w'-])")

    def explained(self, text: str, link: bool = True) -> Any:
        """Text as HTML, with a link at each word that no earlier text had; without links, in what is itself pressed,
        each word has its meaning for a pointer alone."""
        from markupsafe import escape

        meanings, known = self._meanings
        out, at = [], 0
        for match in known.finditer(text):
            word = match[0]
            if link and word in self.used:
                continue
            self.used.add(word)
            place = word.replace(" ", "-").replace("'", "")
            tag, leads = ("a", f' href="#w-{place}"') if link else ("span", "")
            meaning = escape(f"{word}: {meanings[word]}")
            opening = markup(f'<{tag} class="word"{leads} data-value="{meaning}">')
            out += [escape(text[at : match.start()]), opening, escape(word), markup(f"</{tag}>")]
            at = match.end()
        return markup("").join([*out, escape(text[at:])])


# A privacy card for a terminal.

MOST = 2  # of a kind, where a card is shown in brief


def as_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a card: guarantees, measurements by artefact, and what was not tested."""
    card = current(card)
    for text in card["warnings"]:
        yield f"  WARNING  {text}"
    for one in card["guarantees"]:
        yield f"  certified ({one['artefact']}): {one['sentence']}"
    for part in card["artefacts"]:
        yield ""
        yield f"  {column_title(part)}: {words(part)}"
        yield from (f"  {name}: {text}" for name, text in answers_in_words(part))
        yield from (f"  {text}" for text in board_lines(part))
        for block in blocks(findings(part)):
            yield from (f"  {text}" for text in lines(block))
    yield "  not tested:"
    yield from (f"    {text}" for text in card["not_tested"])
    yield f"  {card['statement']}"


def brief_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """The first of a card, a dozen lines at most: warnings, verdicts, what is certified, and four answers in words."""
    card = current(card)
    yield from _first(MOST, [f"  WARNING  {text}" for text in card["warnings"]], "warnings")
    verdicts = [f"  {column_title(part)}: {words(part)}" for part in card["artefacts"]]
    yield from _first(MOST, verdicts, "artefacts")
    for one in card["guarantees"][:1]:
        yield f"  certified ({one['artefact']}): {one['sentence']}"
    yield from (f"  {name}: {text}" for part in card["artefacts"][:1] for name, text in answers_in_words(part))


def _first(most: int, lines: Sequence[str], what: str) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"  and {len(lines) - most} more {what}"


# audit.json and report.html of an audit of samples before and after a mechanism.


def made_with(audit: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What an audit was made with, as names and values."""
    machine = audit["machine"]
    return [
        ("Adversaries", f"{audit['budget']} budget, seed {audit['seed']}, {audit['wall_time_s']:.0f} s"),
        ("Machine", f"{machine['system']} {machine['architecture']}, {machine['cores']} cores"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in sorted(audit["versions"].items()))),
    ]


def render_pairs(document: Mapping[str, Any]) -> str:
    """The page, one file without pictures of samples; every value is escaped."""
    return page("pairs.html", of_audit(document, "EdgeVeil audit before and after", "the two sets of samples"))


def of_audit(document: Mapping[str, Any], over: str, source: str) -> dict[str, Any]:
    """What pairs.html shows of an audit; ``over`` stands above the name of the data, ``source`` is what it is of."""
    data = document["data"]
    facts = [
        ("Rows", ", ".join(f"{count:,} {name}" for name, count in data["rows"].items())),
        *([("Units", f"{data['clusters']['test']:,} {data['clusters']['kind']}s")] if data["clusters"] else []),
        *([("Order", document["order"]["sentence"])] if "order" in document else []),
        *(("Note", note) for note in document.get("notes", ())),
        *(("Too little", warning) for warning in document.get("warnings", ())),
        *made_with(document),
    ]
    return {
        "audit": document,
        "data": data,
        "shown": shown(document),
        "facts": facts,
        "over": over,
        "source_of": source,
    }


def write_pairs_report(document: Mapping[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write both files into ``folder``, which is made where it is not there; earlier ones get a dated name.

    Raises ``BadInput``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out: the folder {folder} cannot be made ({error.strerror}). Name another.") from None
    data, shown_page = folder / "audit.json", folder / "report.html"
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    file_place(shown_page)
    write_atomic(data, text.encode(), keep_old=True)
    write_atomic(shown_page, render_pairs(document).encode(), keep_old=True)
    return data, shown_page
