"""The process of a recording that has the file and the operator's page, and never a raw frame.

It starts the one that has the sensor (``inside.recording``) before it opens a port, and writes what comes from there,
which is sealed, to a file that gets its name at the end.
"""

import contextlib
import csv
import html
import io
import json
import os
import re
import signal
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import parse_qsl, urlencode

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, written_text
from edgeveil.edge_runtime.sinks.page_server import Answer, PageServer
from edgeveil.edge_runtime.util.atomic import atomic_path

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
FORMS = "FILE.csv with a column seconds, or page:8080?y=sit,stand&z=ann,ben"
_SECONDS = "seconds"


class Labels(NamedTuple):
    """What the operator says: ``timed`` as [name, value, seconds], or ``classes`` for the page on ``port``."""

    names: List[str]
    timed: List[Tuple[str, Optional[str], float]]
    port: Optional[int]
    classes: Dict[str, List[str]]


def parse_labels(text: Optional[str]) -> Labels:
    """Labels from a CSV (a row holds until the next; an empty cell is no label) or for a page. Raises ``BadInput``."""
    if text is None:
        return Labels([], [], None, {})
    kind, _, rest = text.partition(":")
    port, _, query = rest.partition("?")
    if kind == "page" and port.isdigit() and int(port) < 2**16:
        classes = {name: value.split(",") for name, value in parse_qsl(query)}
        if not classes or not all(NAME.fullmatch(name) for name in classes):
            raise BadInput("expected --labels {}; got {}".format(FORMS, text))
        return Labels(list(classes), [], int(port), classes)
    if not text.lower().endswith(".csv"):
        raise BadInput("expected --labels {}; got {}".format(FORMS, text))
    rows = list(csv.DictReader(io.StringIO(written_text(text, "a CSV of labels"))))
    names = [name for name in (rows[0] if rows else {}) if name != _SECONDS]
    if not names or _SECONDS not in rows[0] or not all(NAME.fullmatch(name or "") for name in names):
        problem = "{}: expected a column seconds, from the first frame, and columns such as y, z, subject (a-z, 0-9, _)"
        raise BadInput(problem.format(text))
    timed = []
    for number, row in enumerate(rows, 2):
        try:
            seconds = float(row[_SECONDS])
            timed += [(name, (row[name] or "").strip() or None, seconds) for name in names]
        except (TypeError, ValueError):
            raise BadInput("line {} of {}: expected a number of seconds".format(number, text)) from None
    return Labels(names, timed, None, {})


class Page(object):
    """Buttons for the operator, on this device alone: one row for each name, one button for each class.

    ``say(name, value)`` gets what is pressed. Links carry a word that no other page knows, so that none can press.
    """

    def __init__(self, labels: Labels, say: Callable[[str, Optional[str]], Any]) -> None:
        self._labels, self._say, self._word = labels, say, os.urandom(16).hex()
        self.now: Dict[str, Optional[str]] = dict.fromkeys(labels.names)
        try:
            self._server = PageServer("127.0.0.1", labels.port or 0, None, self.answer)
        except OSError as error:
            raise BadInput(
                "the page cannot have port {} ({}): choose another".format(labels.port, error.strerror)
            ) from None
        self.port = self._server.server_address[1]
        self.close = self._server.close

    def answer(self, path: str, query: Dict[str, str], _is_local: bool) -> Optional[Answer]:
        """The page; where a button was pressed, after that is said."""
        if path == "/" + self._word:
            name, value = query.get("name", ""), query.get("value")
            if name not in self.now or (value is not None and value not in self._labels.classes[name]):
                return None
            self.now[name] = value
            self._say(name, value)
        elif path != "/":
            return None
        return Answer("text/html; charset=utf-8", self._text().encode())

    def _text(self) -> str:
        rows = []
        for name, classes in self._labels.classes.items():
            shown = [self._button(name, value) for value in [*classes, None]]
            rows.append(
                "<h2>{}: {}</h2><p>{}</p>".format(
                    html.escape(name), html.escape(self.now[name] or "none"), " ".join(shown)
                )
            )
        title = "EdgeVeil records raw frames"
        return "<!doctype html><title>{0}</title><h1>{0}</h1>{1}".format(title, "".join(rows))

    def _button(self, name: str, value: Optional[str]) -> str:
        pairs = [("name", name)] + ([] if value is None else [("value", value)])
        link = html.escape("/{}?{}".format(self._word, urlencode(pairs)))
        return '<a href="{}">[ {} ]</a>'.format(link, html.escape(value or "none"))


def run(inside: Callable[[Any], int], out: str, labels: Labels) -> Dict[str, Any]:
    """Start ``inside(ends)`` in a process of its own and keep what it seals at ``out``; what became of it.

    ``ends`` are the handles (sealed, status, labels). Raises ``DeviceFailed`` or ``BadInput`` with its sentence, and
    leaves no file then.
    """
    pipes = [os.pipe() for _ in range(3)]
    (sealed, sealed_in), (status, status_in), (labels_out, say) = pipes
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for handle in (sealed, status, say):
                os.close(handle)
            os.set_blocking(labels_out, False)
            code = inside((sealed_in, status_in, labels_out))
        finally:
            os._exit(code)
    for handle in (sealed_in, status_in, labels_out):
        os.close(handle)
    stopping: List[int] = []
    before = {
        one: signal.signal(one, lambda number, _: _stop(child, stopping, number))
        for one in (signal.SIGINT, signal.SIGTERM)
    }
    page = None
    try:
        with atomic_path(out, mode=0o600) as temporary:
            if labels.port is not None:
                page = Page(labels, lambda *pair: os.write(say, json.dumps(pair).encode() + b"\n"))
                sys.stderr.write("Labels: open http://127.0.0.1:{}/ on this device\n".format(page.port))
            with open(temporary, "wb") as file:
                for data in iter(lambda: os.read(sealed, 2**16), b""):
                    file.write(data)
            document: Dict[str, Any] = json.loads(b"".join(iter(lambda: os.read(status, 2**16), b"")).decode() or "{}")
            if document.get("code") != 0:
                kind = BadInput if document.get("code") == 2 else DeviceFailed
                raise kind(document.get("problem", "the process with the sensor ended early: nothing was kept"))
    finally:
        if page is not None:
            page.close()
        for one, old in before.items():
            signal.signal(one, old)
        for handle in (sealed, status, say):
            os.close(handle)
        _stop(child, stopping, signal.SIGTERM)
        os.waitpid(child, 0)
    return dict(document, interrupted=bool(stopping[:-1]))


def _stop(child: int, stopping: List[int], number: int) -> None:
    stopping.append(number)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)
