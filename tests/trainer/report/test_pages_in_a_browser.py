"""Pages as a browser shows them: nothing scrolls sideways, no wide table, words for each picture, no serious fault."""

import base64
import importlib.metadata
import re
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.manifest.count import CountRules, Zone
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.trainer.audit.card import SUBSTITUTED, card
from edgeveil.trainer.report import card_markdown, frontier, ml_bom, pictures
from edgeveil.trainer.report import frontier as page_facts
from edgeveil.trainer.report.card_page import render, render_pairs
from edgeveil.trainer.report.figures import curves
from tests.support import bundles, network_receivers, programs
from tests.support.audit_documents import collateral, document
from tests.support.browser import measured
from tests.support.browser.chromium import Chromium, file_url
from tests.support.browser.measured import AXE, NOTHING, found, under_pointer, wait_for
from tests.support.publishing import publication_documents

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def browser():
    programs.need("chromium")
    with Chromium() as opened:
        yield opened


def report(folder):
    """A report of invented numbers with many properties of long names, and a benchmark that is INVALID."""
    audit = document()
    for n in range(5):
        name = f"a-property-with-a-long-name-{n}"
        audit["findings"] += [{**one.as_json(), "question": name} for one in collateral()]
    bench = {
        **{
            "artefact": "tflite-int8",
            "backend": "ai-edge-litert",
            "latency_ms": {"p50": 0.04, "p90": 0.05, "p99": 0.09},
        },
        **{"fps": 23112.5, "macs": 48231, "flops": 96462, "parameters": 12034, "peak_rss_bytes": 88 * 2**20},
        "machine": {"board": None, "processor": "AMD EPYC", "architecture": "x86_64", "cores": 2, "system": "Linux"},
        **{"verdict": "INVALID", "reasons": ["busy: " + "a-long-name-of-a-process" * 3]},
    }
    lines = [{"stage": "target", "step": step, "time_s": 1.0, "loss": 1 / step} for step in range(1, 9)]
    picture = pictures.png(np.arange(64).reshape(8, 8, 1), 0.0, 63.0)
    page = frontier.render(
        {
            **page_facts.summary(audit),
            **{"title": "digits-codebook", "development": True, "substituted": SUBSTITUTED},
            **{"bench": page_facts.speed_facts(bench), "speed": page_facts.headline(bench)},
            **{"curves": curves(lines), "training_note": "as recorded"},
            **{"comparison": picture, "comparison_says": ["why this one"]},
            "boards": [{"profile": "coral-dev-board", "artefact": "tflite-int8", "status": "s" * 90, "audited": "it"}],
            "identities": page_facts.identities(audit, {"models": {}}, None),
            "pictures": [{"before": picture, "after": picture, "label": "parity: even"}] * 12,
            **{"pictures_raw": True, "pictures_note": "as they leave"},
        }
    )
    (folder / "report.html").write_text(page)
    return file_url(folder / "report.html")


def card_of(folder):
    audit = document()
    name = {"kind": "codebook", "substituted": True, "identity_allowed": False, "target": "parity"}
    manifest = {
        "name": "digits",
        "perturber": {**name, "sensitive": "less-than-five", "target_classes": ["even", "odd"]},
    }
    (folder / "card.html").write_text(render(card({**audit, "others": [audit]}, manifest)))
    return file_url(folder / "card.html")


def pairs(folder):
    made = document()
    told = {"order": {"sentence": "pairs as they stand"}, "notes": []}
    (folder / "report.html").write_text(render_pairs({**made, **told}))
    return file_url(folder / "report.html")


def assessment(folder):
    made = bundles.make_bundle(folder, example=bundles.laplace_example())
    bundle = read_bundle(made.path, open_trust(made.trust))
    about = card({"others": [], **document()}, bundle.manifest.document)
    (folder / "dpia.html").write_text(ml_bom.render(bundle, about, "a signer"))
    return file_url(folder / "dpia.html")


def test_axe_core_is_the_one_that_is_locked():
    locked = Path("requirements/axe.txt").read_text()
    assert f"axe-playwright-python=={importlib.metadata.version('axe-playwright-python')} " in locked
    assert AXE.is_file()


@pytest.mark.parametrize("of", [report, card_of, pairs, assessment])
def test_a_page_fits_and_has_no_fault(browser, tmp_path, of):
    assert found(browser, of(tmp_path)) == NOTHING


@pytest.mark.nightly  # by day that it fits a screen, above
@pytest.mark.parametrize("of", [report, card_of, pairs])
def test_a_page_prints_on_two_sheets(browser, tmp_path, of):
    """What a data protection officer is given: verdict, findings, pictures, what was not tested, and the words."""
    browser.show(of(tmp_path), width=1280)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = !one.open; })")
    sheets = base64.b64decode(browser.send("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert 1 <= max(map(int, re.findall(rb"/Count (\d+)", sheets))) <= 2
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        shown = browser.evaluate("document.body.innerText")
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")
    for words in (
        "What is kept",
        "What leaks",
        "What was not tested",
        "Words on this page",
        "an attack is surely above",
    ):
        assert words in shown
    assert "Show rows with" not in shown


LARGE = np.random.default_rng(0).integers(0, 256, (480, 640, 3)).astype(np.float64)


def test_pictures_of_any_size_leave_a_page_light(tmp_path):
    """Twelve pairs of coloured noise, which compresses to nothing less: 1.5 MB for the page."""
    picture = pictures.png(LARGE, 0.0, 255.0)
    pair = {"before": picture, "after": picture, "label": "a"}
    audit = document()
    page = frontier.render({**page_facts.summary(audit), **BARE, "pictures": [pair] * page_facts.PICTURES})
    assert len(page) < 1.5e6
    assert page.count(picture) == 2 * page_facts.PICTURES


BARE = {
    **{"title": "noise", "development": False, "substituted": "", "bench": None, "speed": None, "curves": []},
    **{"training_note": "", "comparison": None, "comparison_says": [], "boards": [], "identities": []},
    **{"pictures_raw": True, "pictures_note": ""},
}
ROWS = """[...document.querySelectorAll('#measured details[open] tbody tr:not([hidden]) th')]
  .map((th) => th.firstChild.data)"""
CLICK = "document.querySelector('#measured details[open] thead th:nth-child({}) button').click()"


def test_a_table_sorts_and_filters_and_keeps_its_notes(browser, tmp_path):
    browser.show(report(tmp_path), width=1280)
    before = browser.evaluate(ROWS)
    browser.evaluate(CLICK.format(3))
    rising = browser.evaluate(ROWS)
    browser.evaluate(CLICK.format(3))
    falling = browser.evaluate(ROWS)
    assert set(rising) == set(falling) == set(before)
    assert (rising[0], falling[0]) == ("fixed D_z", "CNN")
    assert rising[-1] == falling[-1] == "random forest"  # it has no figure, whichever way
    table = "document.querySelector('#measured details[open] table')"
    sort = f"{table}.querySelector('th:nth-child(3)').getAttribute('aria-sort')"
    assert browser.evaluate(sort) == "descending"
    note = f"{table}.querySelector('tr.note').previousElementSibling.textContent"
    assert "random forest" in browser.evaluate(note)
    browser.evaluate(
        """(() => { const input = document.querySelector('#measured details[open] input');
        input.value = 'FOREST'; input.dispatchEvent(new Event('input')); })()"""
    )
    assert browser.evaluate(ROWS) == ["random forest"]
    assert browser.evaluate("document.querySelector('#measured details[open] [aria-live]').textContent") == " 1 of 7"


@pytest.mark.nightly  # by day its words are in the page: test_run_page.py
def test_values_and_meanings_are_shown_under_the_pointer(browser, tmp_path):
    browser.show(report(tmp_path), width=1280)
    assert under_pointer(browser, "#measured svg g.best .dot").startswith(
        "BatchNorm MLP on fresh rows 95.0 % [93.0 %, 97.0 %]"
    )
    browser.evaluate("document.querySelector('#training').open = true")
    assert under_pointer(browser, "#training circle") == "loss, epoch 1: 1"
    assert under_pointer(browser, "thead .word[data-value^=bits]").startswith(
        "bits: what a sample reveals of z beyond y"
    )
    assert under_pointer(browser, ".answers a.word[href='#w-best-attack-found']").startswith(
        "best attack found: the adaptive"
    )
    assert under_pointer(browser, "h1") == ""
    browser.evaluate("document.querySelector('a.word').click()")
    assert not browser.evaluate("location.hash")


@pytest.mark.nightly  # by day a table's script, above
def test_contents_follow_and_open_what_they_lead_to(browser, tmp_path):
    browser.show(report(tmp_path), width=1280)
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).position") == "sticky"
    browser.evaluate("document.querySelector('nav a[href=\"#training\"]').click()")
    assert wait_for(browser, "document.querySelector('nav [aria-current]')?.hash", "#training") == "#training"
    assert browser.evaluate("document.querySelector('#training').open")


def test_a_page_loads_nothing_even_if_markup_were_planted(browser, tmp_path):
    """The policy of the page names its own style and script; another script in it does not run."""
    page = Path(re.sub("^file://", "", report(tmp_path)))
    page.write_text(page.read_text().replace("</main>", "<script>document.title = 'planted'</script></main>"))
    browser.show(file_url(page), width=1280)
    assert browser.evaluate("document.title") == "digits-codebook \N{EN DASH} EdgeVeil report"
    assert browser.evaluate("fetch('data:,x').then(() => 'loaded', () => 'refused')") == "refused"
    assert browser.evaluate("!!document.querySelector('th button')")


@pytest.mark.nightly  # by day what is in the file: test_run_page.py
def test_a_page_without_its_script_has_all_of_it(browser, tmp_path):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.show(report(tmp_path), width=1280)
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.evaluate("document.querySelectorAll('button, input').length") == 0
    assert "fixed D_z" in browser.evaluate("document.querySelector('svg .row title').textContent")


@pytest.mark.nightly  # by day other pages, above
@pytest.mark.parametrize("of", [publication_documents.table, publication_documents.archive])
def test_the_card_of_a_publication_fits_and_has_no_fault(browser, tmp_path, of):
    (tmp_path / "card.html").write_text(card_markdown.render(of()))
    assert found(browser, file_url(tmp_path / "card.html")) == NOTHING


@pytest.mark.nightly  # by day sinks/test_preview.py, and other pages, above
def test_the_preview_with_its_camera_aid_fits_and_has_no_fault(browser):
    zone = Zone("hall", [(0.0, 0.0), (4.0, 0.0), (4.0, 3.0)])
    manifest = network_receivers.MANIFEST._replace(counts=CountRules([], [zone], 60, [], 1.0, None))
    options = {"notes": ["simulated: no sensor"], "source": "simulate:depth"}
    sink = open_sink("preview:0", network_receivers.OUTPUTS, manifest, options)
    try:
        sink.write(network_receivers.frame(3))
        sink.write_count(CountReport(7, "counted", [3], 40, 10**18))
        sink.local({"late": 3}, {"focus": 9, "cut": 3, "blob": 2}, 4.2)
        assert found(browser, f"http://127.0.0.1:{sink.port}/", wait_s=0.6) == NOTHING
        assert not browser.evaluate("document.getElementById('camera-aid').hidden")
        assert browser.evaluate("document.getElementById('age').textContent").endswith(" s ago")
        assert browser.evaluate("document.querySelector('#counts .count').textContent") == "3"
        assert browser.evaluate("document.getElementById('scene').naturalWidth") == 3  # of 5, at half its size
        drawn = "Array.from(document.getElementById('strip').getContext('2d').getImageData({}, 1, 1, 1).data)"
        wait_for(browser, drawn.format(661) + "[3]", 255)  # the newest is at the right, and nothing is next to it yet
        assert browser.evaluate(drawn.format(661))[3] == 255
        assert browser.evaluate(drawn.format(601))[3] == 0
        # Five seconds later by the clock of the page, the first has moved on.
        browser.evaluate("strip_at -= EVERY_MS; shown = null")
        assert wait_for(browser, drawn.format(601) + "[3]", 255) == 255
    finally:
        sink.close()


def test_what_does_not_fit_or_has_no_words_is_found(browser, tmp_path):
    (tmp_path / "bad.html").write_text(
        '<!doctype html><meta name="viewport" content="width=device-width"><table style="width:1300px"><tr><td>1'
        '</table><img src="data:,">'
    )
    browser.show(file_url(tmp_path / "bad.html"), width=1280)
    said = measured.problems(measured.measure(browser), 1280)
    assert [one.split(" ", 1)[1] for one in said] == [
        "page is 1308 px wide",
        "table is 1300 px wide",
        "pictures have no words",
    ]


def test_a_serious_fault_is_a_problem_and_a_minor_one_is_not():
    sizes = {"page_px": 390, "widest_table_px": 1064, "pictures_without_words": 0}
    faults = [{"rule": "color-contrast", "impact": "serious"}, {"rule": "empty-table-header", "impact": "minor"}]
    assert measured.problems({**sizes, "faults": faults}, 390) == ["serious: color-contrast"]
