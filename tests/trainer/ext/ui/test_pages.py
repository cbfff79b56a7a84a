"""``edgeveil ui``: this machine alone, nothing outside its folder, and a stranger's names are text."""

import http.client
import json
import os
from html import unescape
from urllib.parse import quote

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.ui import pages as module
from edgeveil.trainer.ext.ui.pages import Pages, serve
from tests.support import output, small_shelf


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_shelf.made(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="module")
def pages(folder):
    opened = Pages(folder, folder / "boards.toml")
    yield opened
    opened.close()


def ask(pages, path, method="GET", **headers):
    """The code, headers and text of an answer; with the token, unless headers say otherwise."""
    client = http.client.HTTPConnection("127.0.0.1", pages.port, timeout=20)
    client.request(method, path, headers=headers or {"Authorization": f"Bearer {pages.token}"})
    answer = client.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    client.close()
    return found


def test_the_token_is_needed_and_leaves_the_address_at_once(pages):
    assert len(pages.token) >= 32
    assert ask(pages, "/", Host=f"127.0.0.1:{pages.port}")[0] == 403
    other = "y" if pages.token[-1] == "x" else "x"
    assert ask(pages, "/", Authorization=f"Bearer {pages.token[:-1]}{other}")[0] == 403
    assert ask(pages, f"/?token={pages.token[:-1]}", Host="localhost")[0] == 403
    code, headers, text = ask(pages, f"/?token={pages.token}", Host="localhost")
    assert (code, headers["Location"], text) == (303, "/", "")
    assert headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Path=/")
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert ask(pages, "/", Cookie=cookie)[0] == 200
    assert pages.address == f"http://127.0.0.1:{pages.port}/?token={pages.token}"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:1", "", "evil@localhost"]
)
def test_another_name_of_this_machine_is_refused_even_with_the_token(pages, host):
    """A page on the web whose name was turned to 127.0.0.1 (DNS rebinding)."""
    code, _, text = ask(pages, "/", Host=host, Authorization=f"Bearer {pages.token}")
    assert (code, text) == (403, "This page is for this device alone.\n")


def test_nothing_is_changed_by_it(pages):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(pages, "/", method)[0] == 501
    code, headers, text = ask(pages, "/")
    assert code == 200
    assert headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "default-src 'none'; base-uri 'none'; form-action 'self'; connect-src 'self'; img-src data:;" in text


def test_the_list_has_each_thing_and_one_sentence_for_what_cannot_be_read(pages):
    text = unescape(ask(pages, "/")[2])
    for name in ("one", "two", "going", "one-export/audit.json", "sweep/frontier.json"):
        assert f">{name}</a>" in text, name
    assert "The recipe of the run in" in text  # of `broken`
    assert "It is not what this version writes (KeyError: 'schema')." in text
    assert ".hidden/" not in text


def test_a_strangers_name_is_text_and_its_page_opens(pages, folder):
    name = small_shelf.STRANGE
    text = ask(pages, "/")[2]
    assert name not in text
    assert text.count("<script") == 1
    code, _, text = ask(pages, f"/run?r={quote(name)}")
    assert code == 200
    assert name in unescape(text)
    assert text.count("<script") == 1
    assert 'name="&lt;b&gt;"' not in text
    (command,) = [line for line in unescape(text).split("<code>") if line.startswith("edgeveil")]
    assert f"'{folder}/{name}'" in command.replace("'\"'\"'", "'")


OUTSIDE = [
    *("../secret/run.json", "one/../../secret/run.json", "/etc", "..", ".hidden", "link", "one/run.json/.."),
    *("one\0", "\\..\\secret", "none", "%2e%2e/secret", "one/metrics.jsonl", "~"),
]


@pytest.mark.parametrize("at", OUTSIDE)
def test_nothing_outside_the_folder_is_read(pages, at):
    for path in (f"/run?r={quote(at)}", f"/curves?r={quote(at)}", f"/audit?at={quote(at)}", f"/sweep?at={quote(at)}"):
        code, _, text = ask(pages, path)
        assert code == 404, path
        assert "There is nothing of that name below the folder that is shown." in text
        assert "secret-recipe" not in text


def test_a_bundle_is_shown_where_its_keys_stand_beside_it(pages, folder):
    code, _, text = ask(pages, "/bundle?at=unknown.veil")
    assert code == 404
    assert "is shown where a folder `trust` next to it" in text
    code, _, text = ask(pages, "/bundle?at=sealed/it.veil")
    assert code == 200
    assert "Privacy card" in text
    (folder / "sealed/changed.veil").write_bytes((folder / "sealed/it.veil").read_bytes()[:-40])
    code, _, text = ask(pages, "/bundle?at=sealed/changed.veil")
    assert code == 404
    assert "Privacy card" not in text


def test_runs_next_to_each_other_differ_where_their_recipes_do(pages):
    text = unescape(ask(pages, "/compare?r1=one&r5=two")[2])
    assert "<h1>one, two</h1>" in text
    assert '<th scope="row">perturber.alpha</th><td class="words">3.0</td><td class="words">4.0</td>' in text
    assert "perturber.kind" not in text
    assert "one: loss, epoch 1: 1" in text
    assert "two: loss, epoch 1: 1" in text
    assert "best attack found 95.0 %" in text
    code, _, text = ask(pages, "/compare")
    assert code == 404
    assert "mark them in the list" in text


def test_a_training_that_goes_on_is_followed_and_one_that_ended_is_not(pages, folder):
    path = folder / "going/metrics.jsonl"
    before = ask(pages, "/curves?r=going")[2]
    assert "data-going" in before
    assert "loss, epoch 2:" in before
    assert "loss, epoch 3:" not in before
    with path.open("a") as file:
        file.write(small_shelf.line(3) + "\n" + small_shelf.line(4)[:9])  # the last one is half written
    assert "loss, epoch 3:" in ask(pages, "/curves?r=going")[2]
    assert "data-going" not in ask(pages, "/curves?r=one")[2]


def test_a_sweep_shows_its_points_and_only_pictures_of_its_own(pages):
    text = unescape(ask(pages, "/sweep?at=sweep/frontier.json")[2])
    assert text.count("data:image/png") == 1  # of the first point; the second names a file elsewhere
    assert text.count('<details class="one"') == 3
    assert "codebook price=1: z read right 55.0 %, y right, % 97; cannot tell" in text
    assert "codebook price=9: it diverged" in text
    assert "edgeveil run sweep RECIPE" in text


def test_an_audit_has_its_page(pages):
    text = ask(pages, "/audit?at=one-export/audit.json")[2]
    assert "<strong>leaks</strong>" in text
    assert "EdgeVeil audit, one-export/audit.json" in text
    assert 'href="/boards"' in text


def test_boards_are_asked_as_fleet_status_asks_them(pages, folder, monkeypatch):
    assert "which cannot be read" in ask(pages, "/boards")[2]
    assert json.loads(ask(pages, "/boards.json")[2]) == {"boards": []}
    (folder / "boards.toml").write_text('[board.hall]\naddress = "pi@hall"\n')
    text = ask(pages, "/boards")[2]
    assert 'data-board="hall"' in text
    row = {"board": "hall", "state": "done", "said": "", "frames_out": 7.0, "at": 1.0}
    monkeypatch.setattr("edgeveil.devices.fleet.status_rows", lambda site: [{**row, "boards": len(site.boards)}])
    assert json.loads(ask(pages, "/boards.json")[2]) == {"boards": [{**row, "boards": 1}]}
    (folder / "boards.toml").unlink()


def test_a_document_of_any_form_breaks_no_page(pages, folder):
    for number, text in enumerate(("[]", "null", "{", '{"schema": 2}', '{"schema": 2, "findings": [[]]}', "[" * 9999)):
        (folder / f"odd{number}").mkdir()
        for name in ("run.json", "audit.json", "frontier.json"):
            (folder / f"odd{number}" / name).write_text(text)
        (folder / f"odd{number}" / "recipe.toml").write_text("")
    code, _, text = ask(pages, "/")
    assert code == 200
    assert "odd5/audit.json" in text
    for number in range(6):
        assert ask(pages, f"/audit?at=odd{number}/audit.json")[0] == 404
        assert ask(pages, f"/sweep?at=odd{number}/frontier.json")[0] == 404
        assert ask(pages, f"/run?r=odd{number}")[0] in (200, 404)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(BadInput, match="A folder of runs was expected at"):
        Pages(tmp_path / "none", tmp_path / "boards.toml")


def test_a_path_that_is_no_text_is_a_row_and_no_fault(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)  # noqa: PTH102 - its name is bytes
    with open(folder + b"/run.json", "w") as file:  # noqa: PTH123
        file.write("{}")
    opened = Pages(tmp_path, tmp_path / "boards.toml")
    try:
        assert ask(opened, "/")[0] == 200
    finally:
        opened.close()


def test_the_pages_are_there_until_ctrl_c(folder):
    said = []

    def wait():
        assert said[0].startswith("http://127.0.0.1:")
        raise KeyboardInterrupt

    serve(folder, folder / "boards.toml", said.append, wait)
    assert len(said) == 1


def test_the_command_shows_a_folder_and_the_boards_of_the_site(folder, monkeypatch, capfd):
    asked = []
    monkeypatch.setenv("EDGEVEIL_BOARDS", str(folder / "hall.toml"))
    monkeypatch.setattr(
        module, "serve", lambda root, boards, opened: (asked.append((root, boards)), opened("http://x"))
    )
    edgeveil = output.in_process(monkeypatch, capfd)
    assert edgeveil("ui", folder) == (0, "", "Open http://x (Ctrl-C ends it).\n")
    assert asked == [(folder, folder / "hall.toml")]
    monkeypatch.undo()
    code, _, said = output.in_process(monkeypatch, capfd)("ui", folder / "none")
    assert (code, said.count("\n")) == (2, 1)
    assert "A folder of runs was expected" in said
