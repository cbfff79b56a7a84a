"""The pages of ``edgeveil ui``: the templates of reports and cards, shown by the server of the preview.

It starts nothing and changes nothing; a command to do so stands there to be copied.
"""

from __future__ import annotations

import json
import secrets
import shlex
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.page_server import Answer, PageServer
from edgeveil.trainer.ext.ui import shelf
from edgeveil.trainer.ext.ui.shelf import Shelf, attempt
from edgeveil.trainer.report.card_page import environment, markup, of_audit, of_card, page
from edgeveil.trainer.report.figures import curves, points
from edgeveil.trainer.report.frontier import label
from edgeveil.trainer.report.pictures import file as picture
from edgeveil.trainer.runs import listing
from edgeveil.trainer.sealing.seal import checked_card

HTML = "text/html; charset=utf-8"
SITE = (("/", "Runs, audits, sweeps, bundles"), ("/boards", "Boards"))
# The header says what a page may be part of; the policy in a page names its style and script.
HEADER = "frame-ancestors 'none'; base-uri 'none'; object-src 'none'"
MOST_RUNS = 12  # next to each other
Query = Mapping[str, str]


class Pages:
    """The pages of a folder and of a file of boards, at a free port; close it. Raises ``BadInput`` for no folder."""

    def __init__(self, root: Path, boards: Path) -> None:
        self.shelf, self.boards = Shelf(root), boards
        self._asking = threading.Lock()  # boards are asked by one page at a time
        self._views: dict[str, Callable[[Query], str]] = {
            **{"/": self._home, "/run": self._run, "/compare": self._run, "/curves": self._curves},
            **{"/audit": self._audit, "/sweep": self._sweep, "/bundle": self._bundle, "/boards": self._boards},
        }
        self.token = secrets.token_urlsafe(24)
        self._server = PageServer("127.0.0.1", 0, self.token, self._answer, policy=HEADER, local=True)

    @property
    def port(self) -> int:
        """The port that it answers at."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """What a browser opens: the token is good for as long as this runs."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def close(self) -> None:
        """Stop answering."""
        self._server.close()

    def _answer(self, path: str, query: dict[str, str], _is_local: bool) -> Answer | None:
        if path == "/boards.json":
            return Answer("application/json", json.dumps({"boards": self._ask()}).encode())
        view = self._views.get(path)
        if view is None:
            return None
        made, problem = attempt(lambda: view(query))
        code = 200 if made is not None else 404
        if made is None:
            made = page("problem.html", {"problem": problem}, SITE)
        return Answer(HTML, made.encode("utf-8", "replace"), code)

    def _home(self, _query: Query) -> str:
        return page(
            "home.html",
            {
                "folder": str(self.shelf.root),
                "head": ("", *listing.HEAD),
                "runs": [
                    (one, [] if one.problem else listing.cells(one.facts), address("/run", r=_folder(one.at)))
                    for one in self.shelf.runs()
                ],
                "audits": [(one, address("/audit", at=one.at)) for one in self.shelf.audits()],
                "sweeps": [(one, address("/sweep", at=one.at)) for one in self.shelf.sweeps()],
                "bundles": [(one, address("/bundle", at=one.at)) for one in self.shelf.bundles()],
            },
            SITE,
        )

    def _chosen(self, query: Query) -> list[tuple[str, Path]]:
        names = [value for key, value in query.items() if key.startswith("r")][:MOST_RUNS]
        if not names:
            raise BadInput("One run or more were expected: mark them in the list.")
        return [(name, self.shelf.place(_file_of(name), "run.json").parent) for name in names]

    def _run(self, query: Query) -> str:
        audits = list(listing.audits_below(self.shelf.root))
        chosen = [(name, path, listing.summary(path, audits)) for name, path in self._chosen(query)]
        names = [name for name, _, _ in chosen]
        if len(chosen) > 1:
            settings = listing.differences([path for _, path, _ in chosen])
        else:
            settings = {key: [value] for key, value in listing.settings(chosen[0][1]).items()}
        rows = zip(listing.HEAD[1:], *(listing.cells(one)[1:] for _, _, one in chosen), strict=True)
        exports = [
            (Path(one.export).relative_to(self.shelf.root).as_posix(), one) for _, _, s in chosen for one in s.audits
        ]
        return page(
            "run.html",
            {
                "names": names,
                "figures": list(rows),
                "settings": [(key, *map(_setting, values)) for key, values in settings.items()],
                "audits": [(one, at, address("/audit", at=f"{at}/audit.json")) for at, one in exports],
                "live": address("/curves", **{f"r{n}": name for n, name in enumerate(names)}),
                "curves": self._curves(query),
                "commands": [_command(path, one) for _, path, one in chosen],
            },
            SITE,
        )

    def _curves(self, query: Query) -> Any:
        chosen = self._chosen(query)
        lines = shelf.together([(name, shelf.epochs(path)) for name, path in chosen])
        going = any(shelf.goes_on(listing.summary(path)) for _, path in chosen)
        return markup(environment().get_template("curves.html").render(curves=curves(lines), going=going))

    def _audit(self, query: Query) -> str:
        path = self.shelf.place(query.get("at", ""), "audit.json")
        document = shelf.audit(path)
        return page("pairs.html", of_audit(document, f"EdgeVeil audit, {query['at']}", "its audit.json"), SITE)

    def _sweep(self, query: Query) -> str:
        path = self.shelf.place(query.get("at", ""), "frontier.json")
        document = shelf.sweep(path)
        rows = [one for one in document["points"] if "failed" not in one]
        figures = [points(rows, label, by) for by in ("target", "kept")]
        failed = [(label(one), str(one["failed"])) for one in document["points"] if "failed" in one]
        values = {
            "at": query["at"],
            "figures": [one for one in figures if one is not None],
            "points": [_point(number, row, path.parent) for number, row in enumerate(rows)],
            **{"failed": failed, "attacks": document.get("attacks", ""), "budget": document.get("budget", "")},
            "command": f"edgeveil run sweep RECIPE --axis KEY=A,B --out {shlex.quote(str(path.parent))}",
        }
        return page("sweep.html", values, SITE)

    def _bundle(self, query: Query) -> str:
        """The card of a bundle that a trust folder next to it verifies. Nothing unverified is shown."""
        path = self.shelf.place(query.get("at", ""), ".veil")
        trusts = [one for one in (path.parent / "trust", self.shelf.root / "trust") if one.is_dir()]
        if not trusts:
            raise BadInput(
                f"{path.name} is shown where a folder `trust` next to it, or in the folder that is shown, verifies it; "
                f"there is none. edgeveil bundle inspect {path.name} --trust FOLDER takes any."
            )
        return page("card.html", of_card(checked_card(read_bundle(str(path), open_trust(trusts[0])))), SITE)

    def _site(self) -> Any:
        from edgeveil.devices.site import load

        return load(self.boards)

    def _boards(self, _query: Query) -> str:
        site, problem = attempt(self._site)
        names = [] if site is None else [(one.name, one.address) for one in site.boards]
        return page("boards.html", {"boards": names, "problem": problem, "file": str(self.boards)}, SITE)

    def _ask(self) -> list[dict[str, Any]]:
        from edgeveil.devices.fleet import status_rows

        with self._asking:
            rows, _ = attempt(lambda: status_rows(self._site()))
        return rows or []


def _folder(at: str) -> str:
    return Path(at).parent.as_posix()


def _file_of(name: str) -> str:
    return "run.json" if name == "." else f"{name}/run.json"


def _setting(value: Any) -> str:
    return "\N{EN DASH}" if value is None else str(value)


def address(path: str, **query: str) -> str:
    """An address of these pages; a name in it may have any letters."""
    return f"{path}?{urlencode(query, errors='surrogateescape')}"


def _command(path: Path, run: listing.Summary) -> str:
    """What is next for a run, to be copied."""
    folder = shlex.quote(str(path))
    if run.state != "finished":
        return f"edgeveil train {shlex.quote(str(path / 'recipe.toml'))} --out {folder} --resume"
    if not run.audits:
        return f"edgeveil export {folder} --for raspberry-pi-cpu && edgeveil audit {folder}-export"
    return f"edgeveil run report {folder} --export {shlex.quote(run.audits[0].export)}"


def _point(number: int, row: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    name = row.get("pictures")
    path = folder / "pictures" / str(name)
    # The name of a file alone: what a document says is no path.
    held = (
        isinstance(name, str) and Path(name).name == name and path.resolve().parent == (folder / "pictures").resolve()
    )
    return {
        "id": f"p{number}",
        "title": label(row),
        "verdict": str(row.get("verdict", {}).get("word", "\N{EN DASH}")),
        "leak": _rate(row["leak"]),
        "target": _rate(row["target"]),
        "kept": [(key, f"{one['correlation']:.2f}") for key, one in row["kept"].items()],
        "settings": [(key, str(value)) for key, value in row["settings"].items()],
        "picture": picture(path) if held and path.is_file() and path.stat().st_size < 1 << 20 else None,
    }


def _rate(rate: Mapping[str, float]) -> str:
    return f"{100 * rate['accuracy']:.1f} % [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def serve(root: Path, boards: Path, opened: Callable[[str], None], wait: Callable[[], Any] | None = None) -> None:
    """Show the pages until Ctrl-C; ``opened`` is given their address. Raises as ``Pages``."""
    made = Pages(root, boards)
    try:
        opened(made.address)
        (wait or threading.Event().wait)()
    except KeyboardInterrupt:
        pass
    finally:
        made.close()
