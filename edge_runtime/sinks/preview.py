"""``preview:PORT``: a page with the latest perturbed frames, for this device or, with a token, for others."""

import collections
import ipaddress
import json
import os
import re
import threading
import time
from typing import Any, Deque, Dict, List, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.notes import only_levels
from edgeveil.edge_runtime.manifest.manifest import Manifest, Output
from edgeveil.edge_runtime.sinks.base import Sink
from edgeveil.edge_runtime.sinks.count_report import CountReport
from edgeveil.edge_runtime.sinks.forms import picture_of
from edgeveil.edge_runtime.sinks.page import card_lines, files
from edgeveil.edge_runtime.sinks.page_server import Answer, PageServer, check_token
from edgeveil.edge_runtime.sinks.uri import secret, split
from edgeveil.edge_runtime.util.png import encode
from edgeveil.edge_runtime.util.simulated_scene import redrawn

WINDOW_S = 5.0  # the fps figure is over the last of these
_ADVICE = "token_file=FILE, or EDGEVEIL_PREVIEW_TOKEN. Without bind= it is for this device alone."


class PreviewSink(Sink):
    """Keeps the last frame of each slot and nothing else. ``port`` is the one it listens on (0 asks for any)."""

    schemes = ("preview",)
    forms = ("preview:PORT",)
    help = "a page with the latest frame of each slot"
    hides = "token"
    reads = ("token_file",)
    live = True

    def __init__(self, uri: str, outputs: List[Output], manifest: Optional[Manifest], settings: Dict[str, Any]) -> None:
        number, options = split(uri.partition(":")[2], {"token": str, "token_file": str, "bind": str})
        if not number.isdigit() or int(number) > 65535:
            raise BadInput("expected preview:PORT, as preview:8080; got {!r}".format(number))
        bind = options.get("bind", "127.0.0.1")
        token = options.get("token") or secret(
            options.get("token_file"), os.environ.get("EDGEVEIL_PREVIEW_TOKEN"), "the token of the preview"
        )
        check_token(bind, token, "a preview", _ADVICE)
        self._main = outputs[0].name
        self._labels = [o.name for o in outputs if o.kind == "label"]
        self._classes = manifest.perturber.target_classes if manifest else []
        self._picture = picture_of(outputs[0], manifest)
        self._slots = manifest.capture.slots if manifest and manifest.capture else 1
        capture = manifest.capture if manifest else None
        shape = capture.frame.shape if capture else manifest.input.shape if manifest else ()
        self._scene = redrawn(settings.get("source", ""), shape)
        self._counted: Optional[CountReport] = None
        self._files = files(
            card_lines(manifest, settings.get("audit"), **settings.get("runs", {})),
            settings.get("notes", ()),
            self._slots,
            counts=(manifest.counts, shape) if manifest and manifest.counts else None,
            scene=self._scene is not None,
        )
        self._lock = threading.Lock()
        self._last: Dict[int, Any] = {}
        self._ticks: Deque[Tuple[int, float]] = collections.deque()
        self._state, self._shown = "waiting", 0
        self._local: Tuple[Dict[str, int], Dict[str, int], Optional[float]] = ({}, {}, None)
        try:
            self._server = PageServer(bind, int(number), token, self._answer)
        except OSError as error:
            problem = str(error.strerror or error).lower()
            raise BadInput(
                "the preview cannot have port {} of {} ({}): choose another".format(number, bind, problem)
            ) from None
        self.port = self._server.server_address[1]
        say = settings.get("say")
        if say:
            say(_invitation(bind, self.port, token is not None))

    def _write(self, frame: Any) -> None:
        now = time.monotonic()
        with self._lock:
            if self._state == "waiting":
                self._state = "running"
            if frame.slot < self._slots:
                self._last[frame.slot] = frame
            self._shown += 1
            if not self._ticks or self._ticks[-1][0] != frame.index:
                self._ticks.append((frame.index, now))
            while self._ticks[0][1] < now - WINDOW_S:
                self._ticks.popleft()

    def _write_count(self, report: CountReport) -> None:
        with self._lock:
            self._counted = report

    def announce(self, state: str, tick_ns: Optional[int]) -> None:  # noqa: ARG002 - the page shows the present
        """Show the state next to the title."""
        with self._lock:
            self._state = state

    def local(self, counters: Dict[str, int], levels: Dict[str, int], latency_ms: Optional[float] = None) -> None:
        """Show counters and latency to browsers on this device alone, ``levels`` to every browser."""
        with self._lock:
            self._local = (dict(counters), only_levels(levels), latency_ms)

    def counts(self) -> Dict[str, int]:
        """``put``: frames that could be seen."""
        with self._lock:
            return {"put": self._shown}

    def close(self) -> None:
        """Stop serving the page."""
        self._server.close()

    def discard(self) -> None:
        """Forget the frames and stop serving the page."""
        with self._lock:
            self._last.clear()
        self._server.close()

    def _answer(self, path: str, query: Dict[str, str], is_local: bool) -> Optional[Answer]:
        if path == "/state.json":
            return Answer("application/json", json.dumps(self._state_now(is_local), allow_nan=False).encode("utf-8"))
        if path == "/frame.png":
            with self._lock:
                frame = self._last.get(int(query["slot"]) if re.fullmatch("[0-9]{1,3}", query.get("slot", "")) else 0)
            if frame is None:
                return None
            return Answer("image/png", encode(self._picture(frame.outputs[self._main])))
        if path == "/scene.png" and self._scene is not None:
            return Answer("image/png", self._scene.png())
        file = self._files.get(path)
        return None if file is None else Answer(*file)

    def _state_now(self, is_local: bool) -> Dict[str, Any]:
        now = time.monotonic()
        with self._lock:
            ticks = [at for _, at in self._ticks if at >= now - WINDOW_S]
            frames, state, (drops, levels, latency_ms) = dict(self._last), self._state, self._local
            last, counted = self._ticks[-1][1] if self._ticks else None, self._counted
        fps = (len(ticks) - 1) / (ticks[-1] - ticks[0]) if len(ticks) > 1 and ticks[-1] > ticks[0] else None
        return {
            "state": state,
            "tick": max(frame.index for frame in frames.values()) if frames else None,
            "fps": fps,
            "age_s": None if last is None else now - last,
            # Latency and drops may depend on what the raw frame shows.
            "latency_ms": latency_ms if is_local else None,
            "drops": drops if is_local else None,
            "camera_aid": levels,
            "counted": counted and {"state": counted.state, "period": counted.period, "values": counted.values},
            "slots": [self._slot(slot, frame) for slot, frame in sorted(frames.items())],
        }

    def _slot(self, slot: int, frame: Any) -> Dict[str, Any]:
        height, width = self._picture(frame.outputs[self._main]).shape[:2]
        labels = [int(frame.outputs[name]) for name in self._labels]
        shown = [self._classes[n] if 0 <= n < len(self._classes) else str(n) for n in labels]
        return {"slot": slot, "width": width, "height": height, "label": ", ".join(shown)}


def _invitation(bind: str, port: int, has_token: bool) -> str:
    """Where the page is and what a person can do there, without the token."""
    alone = ipaddress.ip_address(bind).is_loopback
    everywhere = ipaddress.ip_address(bind).is_unspecified
    host = "THIS-DEVICE" if everywhere else "[{}]".format(bind) if ":" in bind else bind
    return "open http://{}:{}/{} to see what is sent and read its privacy card; nothing can be changed there{}".format(
        host,
        port,
        "?token=TOKEN" if has_token else "",
        " (from elsewhere: ssh -L {0}:{1}:{0} THIS-DEVICE)".format(port, host) if alone else "",
    )
