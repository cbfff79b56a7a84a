"""Pages as a browser shows them: nothing scrolls sideways, no wide table, words for each picture, no serious fault."""

import os
from pathlib import Path

import numpy as np
import pytest

from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.trainer.audit.card import SUBSTITUTED, card
from edgeveil.trainer.report import card_markdown, frontier, pictures
from edgeveil.trainer.report import frontier as page_facts
from edgeveil.trainer.report.card_page import render
from tests.support import network_receivers, programs
from tests.support.audit_documents import collateral, document
from tests.support.browser import measured
from tests.support.browser.chromium import Chromium, file_url
from tests.support.publishing import publication_documents

pytestmark = pytest.mark.programs

AXE = Path(os.environ["EDGEVEIL_AXE"]) if "EDGEVEIL_AXE" in os.environ else None  # axe.min.js of axe-core
EACH = [(width, scheme) for width in measured.WIDTHS for scheme in measured.SCHEMES]
NOTHING: dict[tuple[int, str], list[str]] = {each: [] for each in EACH}


@pytest.fixture(scope="module")
def browser():
    programs.need("chromium")
    with Chromium() as opened:
        yield opened


def found(browser, url, *, wait_s=0.0):
    """What must be mended, of each width and scheme."""
    said = {}
    for width, scheme in EACH:
        browser.show(url, width=width, dark=scheme == "dark", wait_s=wait_s)
        said[width, scheme] = measured.problems(measured.measure(browser, AXE), width)
    return said


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
            **{"curves": pictures.curves(lines), "training_note": "as recorded"},
            **{"comparison": picture, "comparison_says": "why this one"},
            "boards": [{"profile": "coral-dev-board", "artefact": "tflite-int8", "status": "s" * 90, "audited": "it"}],
            "identities": page_facts.identities(audit, {"models": {}}, None),
            "pictures": [{"before": picture, "after": picture, "label": "parity: even"}] * 12,
            **{"pictures_raw": True, "pictures_note": "as they leave"},
        }
    )
    (folder / "report.html").write_text(page)
    return file_url(folder / "report.html")


def test_a_report_fits_and_has_no_fault(browser, tmp_path):
    assert found(browser, report(tmp_path)) == NOTHING


def test_a_card_fits_and_has_no_fault(browser, tmp_path):
    audit = document()
    name = {"kind": "codebook", "substituted": True, "identity_allowed": False, "target": "parity"}
    manifest = {
        "name": "digits",
        "perturber": {**name, "sensitive": "less-than-five", "target_classes": ["even", "odd"]},
    }
    (tmp_path / "card.html").write_text(render(card({**audit, "others": [audit]}, manifest)))
    assert found(browser, file_url(tmp_path / "card.html")) == NOTHING


@pytest.mark.parametrize("of", [publication_documents.table, publication_documents.archive])
def test_the_card_of_a_publication_fits_and_has_no_fault(browser, tmp_path, of):
    (tmp_path / "card.html").write_text(card_markdown.render(of()))
    assert found(browser, file_url(tmp_path / "card.html")) == NOTHING


def test_the_preview_with_its_camera_aid_fits_and_has_no_fault(browser):
    sink = open_sink(
        "preview:0", network_receivers.OUTPUTS, network_receivers.MANIFEST, {"notes": ["simulated: no sensor"]}
    )
    try:
        sink.write(network_receivers.frame(3))
        sink.local({"late": 3}, {"focus": 9, "cut": 3, "blob": 2}, 4.2)
        assert found(browser, f"http://127.0.0.1:{sink.port}/", wait_s=0.6) == NOTHING
        assert not browser.evaluate("document.getElementById('camera-aid').hidden")
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
