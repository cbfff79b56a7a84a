"""``edgeveil ui`` as people use it: list, compare, hover, sort, a curve that grows; no serious fault on a page."""

import pytest

from edgeveil.trainer.ext.ui.pages import Pages
from tests.support import programs, small_shelf
from tests.support.browser.chromium import Chromium
from tests.support.browser.measured import NOTHING, found, under_pointer, wait_for

pytestmark = pytest.mark.programs
DASH = "\N{EN DASH}"


@pytest.fixture(scope="module")
def browser():
    programs.need("chromium")
    with Chromium() as opened:
        yield opened


@pytest.fixture
def folder(tmp_path):
    return small_shelf.made(tmp_path / "shelf")


@pytest.fixture
def pages(folder, browser):
    opened = Pages(folder, folder / "boards.toml")
    browser.show(opened.address, width=1280)  # the token becomes a cookie
    yield opened
    opened.close()


def show(browser, pages, path):
    browser.show(f"http://127.0.0.1:{pages.port}{path}", width=1280)


RUNS = "[...document.querySelectorAll('#runs tbody th')].map((th) => th.textContent)"


def test_list_sort_mark_and_compare(browser, pages):
    assert browser.evaluate("location.href") == f"http://127.0.0.1:{pages.port}/"
    assert browser.evaluate("document.cookie") == ""  # no script can read it
    listed = browser.evaluate(RUNS)
    assert {"one", "two", "going", small_shelf.STRANGE} <= set(listed)
    click = "document.querySelector('#runs thead th:nth-child(2) button').click()"
    browser.evaluate(click)
    rising = browser.evaluate(RUNS)
    browser.evaluate(click)
    assert (sorted(rising), browser.evaluate(RUNS)) == (sorted(listed), rising[::-1])
    browser.evaluate(
        "document.querySelectorAll('[aria-label=\"compare one/run.json\"], [value=two]').forEach((b) => b.click())"
    )
    browser.evaluate("document.querySelector('form button.go').click()")
    assert wait_for(browser, "document.querySelector('h1')?.textContent", "two, one") == "two, one"  # as they stood
    assert browser.evaluate("location.pathname") == "/compare"
    assert browser.evaluate("document.querySelectorAll('#curves polyline').length") == 4  # two figures of two runs
    assert under_pointer(browser, "#curves circle").startswith("one: ")


@pytest.mark.nightly  # by day a list and two curves, above
def test_a_curve_grows_while_its_run_trains(browser, pages, folder):
    show(browser, pages, "/run?r=going")
    count = "document.querySelectorAll('#curves circle').length"
    assert browser.evaluate(count) == 4
    with (folder / "going/metrics.jsonl").open("a") as file:
        file.write(small_shelf.line(3) + "\n")
    assert wait_for(browser, count, 6) == 6
    assert under_pointer(browser, "#curves circle:last-child").endswith("epoch 3: 0.75")


@pytest.mark.nightly  # by day its page: test_pages.py
def test_the_settings_of_a_point_are_under_the_pointer_and_a_click_shows_what_it_sends(browser, pages):
    show(browser, pages, "/sweep?at=sweep/frontier.json")
    assert under_pointer(browser, "#frontier a[href='#p1'] circle").startswith("codebook price=4: z read right 65.0 %")
    assert not browser.evaluate("document.querySelector('#p0').open")
    browser.evaluate(
        """document.querySelector('#frontier a[href="#p0"]')
        .dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"""
    )
    assert wait_for(browser, "document.querySelector('#p0').open", True)
    assert browser.evaluate("document.querySelector('#p0 img').naturalWidth") == 18  # two samples of 8, a line apart


@pytest.mark.nightly  # by day its page: test_pages.py
def test_boards_are_filled_in_and_a_rate_is_of_two_answers(browser, pages, folder, monkeypatch):
    (folder / "boards.toml").write_text('[board.hall]\naddress = "pi@hall"\n[board.desk]\naddress = "pi@desk"\n')
    answers = iter((1, 2, 2, 2, 2, 2, 2, 2))

    def rows(site):
        n = next(answers)
        figures = {"name": "faces", "release": "ab" * 32, "frames_out": 100.0 * n, "dropped": 3.0, "at": 10.0 * n}
        hall = {"board": "hall", "state": "done", "said": "<b>", **figures, "temperature_c": 54.25, "fresh_age_s": 0.2}
        return [hall, {"board": "desk", "state": "failed", "said": "no route"}]

    monkeypatch.setattr("edgeveil.devices.fleet.status_rows", rows)
    show(browser, pages, "/boards")
    cells = "[...document.querySelectorAll('tr[data-board={}] td')].map((one) => one.textContent)"
    first = ["done", "faces abababababab", DASH, "3", "54.3", "0.2", "<b>"]
    assert wait_for(browser, cells.format("hall"), first) == first
    assert browser.evaluate(cells.format("desk")) == ["failed", *[DASH] * 5, "no route"]
    rate = "document.querySelector('tr[data-board=hall] td:nth-child(4)').textContent"
    assert wait_for(browser, rate, "10") == "10"


PAGES = ["/", "/run?r=going", "/compare?r0=one&r1=two", "/audit?at=one-export/audit.json", "/boards", "/run?r=none"]
PAGES += ["/sweep?at=sweep/frontier.json", "/bundle?at=sealed/it.veil"]


@pytest.mark.nightly  # by day pages of reports: report/test_pages_in_a_browser.py
@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_and_has_no_fault(browser, pages, folder, path):
    (folder / "boards.toml").write_text('[board.hall]\naddress = "pi@127.0.0.1:1"\n')
    assert found(browser, f"http://127.0.0.1:{pages.port}{path}") == NOTHING
