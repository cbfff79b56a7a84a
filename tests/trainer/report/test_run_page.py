"""One page, whole in itself, that shows nothing raw unless asked."""

import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.audit.card import SUBSTITUTED
from edgeveil.trainer.audit.findings import Finding, attacks
from edgeveil.trainer.report import card_page, frontier, pictures
from edgeveil.trainer.report import frontier as page_facts
from edgeveil.trainer.report.figures import MOST_DOTS, Scale, curves, readers
from tests.support.audit_documents import before, document

BENCH = {
    "artefact": "tflite-int8",
    "backend": "ai-edge-litert",
    "latency_ms": {"p50": 0.041, "p90": 0.05, "p99": 0.093},
    "fps": 23112.5,
    "macs": 48231,
    "flops": 96462,
    "parameters": 12034,
    "peak_rss_bytes": 88 * 2**20,
    "machine": {"board": None, "processor": "AMD EPYC", "architecture": "x86_64", "cores": 2, "system": "Linux"},
    "schema": 3,
    "verdict": "VALID",
    "reasons": [],
}
VOID = {"meta", "img", "link", "input", "br", "hr"}


class Page(HTMLParser):
    """What a browser makes of it: open tags, attributes, text; unbalanced tags are errors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.attributes, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not (self.open and self.open[-1] in ("style", "script")):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def values(audit: dict, **changes: object) -> dict:
    lines = [
        {"stage": "target", "step": step, "time_s": 1.0 * step, "loss": 1 / step, "validation_accuracy": 1 - 1 / step}
        for step in range(1, 9)
    ]
    picture = pictures.png(np.arange(64).reshape(8, 8, 1), 0.0, 63.0)
    made = {
        **page_facts.summary(audit),
        "title": "digits-prgan",
        "substituted": "",
        "development": True,
        "bench": page_facts.speed_facts(BENCH),
        "speed": page_facts.headline(BENCH),
        "curves": curves(lines),
        "training_note": "as recorded",
        "comparison": picture,
        "comparison_says": ["why this one"],
        "boards": [{"profile": "coral-dev-board", "artefact": "tflite-int8", "status": "exported", "audited": "it"}],
        "identities": page_facts.identities(audit, {"models": {}}, None),
        "pictures": [{"before": None, "after": picture, "label": "parity: even"}],
        "pictures_raw": False,
        "pictures_note": "as they leave",
    }
    return {**made, **changes}


@pytest.fixture
def audit() -> dict:
    return document()


def test_one_file_that_fetches_nothing(audit):
    text = frontier.render(values(audit))
    page = Page(text)
    links = [value for _, found in page.attributes for name, value in found.items() if name in ("src", "href")]
    assert links
    assert all(link.startswith(("data:image/", "#")) for link in links)
    assert not re.search(r"url\(|@import|https?:", text)
    policy = next(found["content"] for _, found in page.attributes if found.get("http-equiv"))
    assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:;")
    assert "unsafe" not in policy


def test_readable_by_machine_and_on_a_phone(audit):
    page = Page(frontier.render(values(audit)))
    assert ("html", {"lang": "en"}) in page.attributes
    assert any(found.get("name") == "viewport" for tag, found in page.attributes if tag == "meta")
    assert all(found.get("alt") for tag, found in page.attributes if tag == "img")
    assert all("scope" in found for tag, found in page.attributes if tag == "th")
    wide = [found for tag, found in page.attributes if found.get("class") == "scroll"]
    assert wide
    assert all(found.get("tabindex") == "0" and found.get("role") == "region" for found in wide)


def test_the_verdict_the_one_baseline_and_every_adversary_are_there(audit):
    text = Page(frontier.render(values(audit))).text
    assert audit["verdict"]["line"] in text
    expected = ["y alone 60.0 %", "best attack found", "random forest", "not run"]
    for words in (*expected, "What is kept", "What leaks", "How sure", "What next"):
        assert " ".join(words.split()) in " ".join(text.replace("\N{EN DASH}", "").split()), words
    rows = attacks(audit)
    assert len(rows) == 5
    for row in rows:
        assert row.figures["right"].shown() in text


def header_and_tiles(text: str) -> str:
    """What stands above the first section."""
    body = text.partition("<body>")[2]
    return Page(body[: body.index("</dl>", body.index('<dl class="cards">'))] + "</dl></main>").text


def test_an_invalid_benchmark_says_so_and_why_in_its_tile(audit):
    bench = {**BENCH, "verdict": "INVALID", "reasons": ["busy: python3 (pid 7)", "too short"]}
    changes = {"bench": page_facts.speed_facts(bench), "speed": page_facts.headline(bench)}
    tile = re.search(r'<div class="bad"><dt>One frame.*?</div>', frontier.render(values(audit, **changes)), re.S)[0]
    assert "<dd>not measured<small>INVALID: busy: python3 (pid 7); too short. It measured 0.041 ms: do not" in tile
    assert ("Verdict", "INVALID because: busy: python3 (pid 7); too short") in changes["bench"]
    assert "INVALID" not in frontier.render(values(audit))
    assert "<dt>One frame, median, on AMD EPYC</dt><dd>0.041 ms" in frontier.render(values(audit))


@pytest.mark.parametrize(
    ("text", "match"),
    [("{", "cannot be read"), ("[]", "something else"), ("{}", "something else"), ('{"schema": 2}', "something else")],
)
def test_a_benchmark_that_is_none_is_one_sentence(tmp_path, text, match):
    (tmp_path / "bench.json").write_text(text)
    with pytest.raises(BadInput, match=match):
        page_facts.read_bench(tmp_path / "bench.json")
    (tmp_path / "bench.json").write_text(json.dumps({**BENCH, "schema": 2}))
    with pytest.raises(BadInput, match="of schema 3; it is of 2"):
        page_facts.read_bench(tmp_path / "bench.json")


def test_the_headline_says_where_records_of_other_people_leave(audit):
    assert "records of other people" not in frontier.render(values(audit))
    text = frontier.render(values(audit, substituted=SUBSTITUTED))
    assert "What is sent are records of other people" in header_and_tiles(text)


@pytest.mark.parametrize("substituted", [False, True])
def test_a_bundle_of_donors_is_known_by_its_manifest(audit, tmp_path, monkeypatch, substituted):
    manifest = {"perturber": {"substituted": substituted}, "models": {}, "outputs": []}
    folder = SimpleNamespace(audit=audit, manifest=manifest, report={})
    dataset = SimpleNamespace(input=SimpleNamespace(kind="vector"))
    run = SimpleNamespace(recipe=SimpleNamespace(name="digits"), metrics=list, sample=lambda: dataset)
    monkeypatch.setattr("edgeveil.trainer.export.folder.ExportFolder.open", lambda _: folder)
    monkeypatch.setattr("edgeveil.trainer.runs.run.Run.open", lambda _: run)
    written = frontier.write_report(tmp_path, tmp_path, None, tmp_path / "report.html")
    assert (SUBSTITUTED in written.read_text()) is substituted


MORE = {"kind": "certificate"}
BOUND = Finding("less-than-five", "codes counted", "right", 0.704, null=0.6, bound=True, text="for readings", more=MORE)
FACTOR = Finding("channel", "every code", "factor", 2.41, bound=True, text="by which one code raises", more=MORE)
NONE = Finding("less-than-five", "codes counted", not_run="No certificate: more leaves than a code.", more=MORE)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([FACTOR, BOUND], "\N{LESS-THAN OR EQUAL TO} 70.4 % for readings"),
        ([NONE, FACTOR], "factor 2.41 by which one code raises"),
        ([NONE], "No certificate More leaves than a"),
        ([], "No certificate This audit counted nothing."),
    ],
)
def test_what_is_certified_stands_beside_the_attack(audit, found, expected):
    others = [one for one in audit["findings"] if one.get("more", {}).get("kind") != "certificate"]
    told = page_facts.certified({**audit, "findings": [*others, *(one.as_json() for one in found)]})
    tiles = header_and_tiles(frontier.render(values(audit, certified=told)))
    assert re.search(r"Best attack found on less-than-five .{0,90} Certified bound on any attack", tiles)
    assert expected in tiles


def test_every_non_adaptive_number_is_called_that(audit):
    text = frontier.render(values(audit))
    for block in re.findall(r"<tr.*?</tr>", text, flags=re.S):
        if ("fixed D_z" in block or ">transfer" in block) and "95 %" not in block:
            assert "non-adaptive" in block


def test_best_attack_is_marked_once(audit):
    shown = frontier.render(values(audit)).partition("The same of label-only")
    assert [part.count(">best attack found</span>") for part in (shown[0], shown[2])] == [1, 1]  # and of label-only


def test_verdict_tone_follows_the_audit():
    def shown(audit):
        return page_facts.summary(audit)["shown"]

    assert (shown(document(best=0.95))["tone"], shown(document(best=0.95))["word"]) == ("bad", "leaks")
    assert (shown(document(best=0.63))["tone"], shown(document(best=0.63))["word"]) == ("some", "cannot tell")
    assert (shown(document(best=0.61))["tone"], shown(document(best=0.61))["word"]) == ("good", "nothing found")
    assert shown(as_schema_2(before(document(best=0.61))))["tone"] == "some"


def test_names_from_data_cannot_become_markup(audit):
    audit = json.loads(json.dumps(audit).replace('"parity"', '"<script>alert(1)</script>"'))
    text = frontier.render(values(audit))
    assert "<script>alert" not in text
    assert text.count("<script") == 1
    assert "&lt;script&gt;" in text


def test_without_bench_pictures_or_curves_there_are_no_empty_sections(audit):
    text = Page(
        frontier.render(values(audit, bench=None, speed=None, pictures=None, curves=[], boards=[], comparison=None))
    ).text
    for heading in ("Why this one", "Speed", "What is sent", "Training", "Boards"):
        assert f" {heading} " not in text


def test_raw_readings_are_shown_only_when_asked_for(audit, monkeypatch):
    from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices

    x = np.full((20, 4, 4, 1), 3, np.uint8)
    labels = np.arange(20) % 2
    spec = InputSpec("image", (4, 4, 1), "uint8", 0.0, 16.0)
    slices = Slices(np.arange(5), np.arange(5, 8), np.arange(8, 20))
    dataset = Dataset("d", x, labels, labels, ("even", "odd"), ("a", "b"), np.full((2, 2), 0.5), spec, slices)
    pipeline = SimpleNamespace(run=lambda x: {"frame": x + 2}, close=lambda: None)
    monkeypatch.setattr("edgeveil.edge_runtime.pipeline.pipeline.load_pipeline", lambda *_, **__: pipeline)
    frame = {"name": "frame", "kind": "frame", "tensor": "x_out", "shape": [4, 4, 1], "dtype": "uint8"}
    taken = {"name": "x", "kind": "image", "shape": [4, 4, 1], "dtype": "uint8", "low": 0.0, "high": 16.0}
    folder = SimpleNamespace(manifest={"input": taken, "outputs": [frame]}, members={})
    run = SimpleNamespace(sample=lambda: dataset)
    quiet = frontier.shown(run, folder, audit, raw=False)
    loud = frontier.shown(run, folder, audit, raw=True)
    before, after = pictures.png(x[0], 0.0, 16.0), pictures.png(x[0] + 2, 0.0, 16.0)
    assert {pair["before"] for pair in quiet["pictures"]} == {None}
    assert {pair["before"] for pair in loud["pictures"]} == {before}
    assert {pair["after"] for pair in quiet["pictures"]} == {after}
    assert before not in frontier.render(values(audit, **quiet))
    assert before in frontier.render(values(audit, **loud))


def test_what_is_sent_for_a_sample_is_said_with_type_and_shape():
    outputs = [
        {"name": "frame", "dtype": "uint8", "shape": [8, 8, 1]},
        {"name": "label", "dtype": "int64", "shape": []},
    ]
    assert page_facts.sent({"outputs": outputs}) == "a frame (8 x 8 x 1, uint8), a label (int64)"


def test_an_export_that_changed_since_the_audit_is_called_out(audit):
    models = {"generator": {"artefacts": {"tflite-int8": {"sha256": "ab" * 32}}}}
    assert "another file" not in page_facts.identities(audit, {"models": models}, None)[0][1]
    models["generator"]["artefacts"]["tflite-int8"]["sha256"] = "cd" * 32
    assert "another file" in page_facts.identities(audit, {"models": models}, None)[0][1]


def test_a_bundle_that_is_not_there_is_said(audit, tmp_path):
    with pytest.raises(BadInput, match="none"):
        page_facts.identities(audit, {"models": {}}, tmp_path / "no.veil")
    (tmp_path / "no.veil").write_bytes(b"no zip")
    with pytest.raises(BadInput, match="sealed"):
        page_facts.is_development(tmp_path / "no.veil")


def test_the_same_run_draws_the_same_curves():
    lines = [
        {"stage": "perturber", "step": step, "time_s": 0.0, "loss_hinge": step, "distance": 2.0} for step in (1, 2)
    ]
    once, again = curves(lines), curves(lines)
    assert once == again
    assert [figure["title"] for figure in once] == ["perturber: loss", "perturber: further measures"]
    assert "loss hinge 2" in once[0]["says"]
    assert [text for _, _, text in once[0]["lines"][0]["dots"]] == ["loss hinge, epoch 1: 1", "loss hinge, epoch 2: 2"]


def test_a_long_training_is_drawn_whole_and_read_at_some_epochs():
    lines = [{"stage": "a", "step": step, "time_s": 0.0, "loss": 1 / step} for step in range(1, 5001)]
    lines[40]["loss"] = float("nan")
    (figure,) = curves(lines)
    (line,) = figure["lines"]
    assert len(line["path"].split()) == 4999
    assert len(line["dots"]) <= MOST_DOTS + 1
    assert line["dots"][-1][2] == "loss, epoch 5000: 0.0002"
    assert len(curves([{"stage": "a", "step": 1, "time_s": 0.0, "loss": float("inf")}])) == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (57.0, 63.0, ["58", "60", "62"]),
        (-2.0, 2.0, ["-2", "-1", "0", "1", "2"]),
    ],
)
def test_ticks_are_round_values(low, high, expected):
    ticks = Scale(low, high, 0, 100).ticks()
    assert [text for _, text in ticks] == expected
    assert all(0 <= at <= 100 for at, _ in ticks)


def test_the_figure_has_each_attack_once_at_its_best_setting(audit):
    figure = readers(audit)
    assert [row["name"] for row in figure["rows"]][:2] == ["fixed D_z (non-adaptive)", "transfer (non-adaptive)"]
    assert [row["name"] for row in figure["rows"] if row["look"] == "best"] == ["BatchNorm MLP on fresh rows"]
    assert figure["rows"][-2]["name"] == "label-only: best attack found"
    assert figure["rows"][-1]["text"] == "raw samples: D_z 97.0 % [95.0 %, 99.0 %]"
    assert figure["mark_text"] == "parity alone: 60.0 %"
    assert readers({**audit, "findings": []}) is None


def test_the_same_page_is_the_same_bytes_whether_its_templates_were_compiled_before():
    """The card of a bundle is made again where it is verified. A word is explained first in the verdict, which stands
    first, and not in a text of a template, which could be read when that is compiled."""
    card_page._compiled.cache_clear()
    first, second = (frontier.render(values(document(best=0.63))) for _ in range(2))
    assert first == second
    verdict = first.partition('<div class="verdict')[2].partition("</div>")[0]
    assert 'href="#w-y-alone"' in verdict


def test_a_word_is_explained_where_it_first_stands(audit):
    text = frontier.render(values(audit))
    assert text.count('href="#w-best-attack-found"') == 1
    assert text.index('href="#w-best-attack-found"') < text.index("<table")
    assert '<span class="word" data-value="bits: ' in text
    for word in re.findall(r'href="#(w-[^"]*)"', text):
        assert text.count(f'id="{word}"') == 1
