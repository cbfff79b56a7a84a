"""Home Assistant itself in its own environment, on a broker, with its page: what it shows of a stream, and a photo."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.environments import home_assistant
from scripts.reproduce.looks.chromium import Chromium

COLOURS = 96
WIDTH, HEIGHT = 1100, 900
MOST_S, SETTLED_S = 120.0, 8.0
# Runs in that environment: FOLDER PORT-OF-BROKER PORT-OF-PAGE. A line of JSON with its tokens, then one whenever a
# state of a stream has changed, until the end of its standard input.
INSIDE = """
import asyncio, json, os, sys, traceback
from pathlib import Path
from homeassistant import bootstrap, runner
from homeassistant.auth.const import GROUP_ID_ADMIN
from homeassistant.const import __version__
from homeassistant.helpers import device_registry

BROKER = {"set_client_cert": False, "set_ca_cert": "off", "transport": "tcp"}  # the rest of what its form asks
DONE = {"done": ["user", "core_config", "analytics", "integration"]}


def write(folder, page):
    text = f"homeassistant:\\n  name: a house\\nhttp:\\n  server_host: 127.0.0.1\\n  server_port: {page}\\nfrontend:\\n"
    Path(folder, "configuration.yaml").write_text(text)
    store = Path(folder, ".storage")
    store.mkdir()
    whole = {"version": 4, "minor_version": 1, "key": "onboarding", "data": DONE}
    (store / "onboarding").write_text(json.dumps(whole))


def say(**facts):
    print(json.dumps(facts), flush=True)


async def main(folder, port, page):
    write(folder, page)
    hass = await bootstrap.async_setup_hass(runner.RuntimeConfig(config_dir=folder, skip_pip=True))
    await hass.async_start()
    user = await hass.auth.async_create_user("who lives here", group_ids=[GROUP_ID_ADMIN])
    refresh = await hass.auth.async_create_refresh_token(user, client_id=f"http://127.0.0.1:{page}/")
    say(version=__version__, access=hass.auth.async_create_access_token(refresh), refresh=refresh.token)
    form = await hass.config_entries.flow.async_init("mqtt", context={"source": "user"})
    given = {"broker": "127.0.0.1", "port": port, "other_settings": BROKER}
    await hass.config_entries.flow.async_configure(form["flow_id"], given)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    before = None
    while not ended.done():
        now = {one.entity_id: one.state for one in hass.states.async_all() if "edgeveil_" in one.entity_id}
        if now != before:
            ids = [one.id for one in device_registry.async_get(hass).devices if one.manufacturer == "EdgeVeil"]
            say(states=now, device=ids[0] if ids else None)
            before = now
        await asyncio.sleep(0.2)
    await hass.async_stop()


try:
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
except BaseException:
    traceback.print_exc()
    os._exit(1)  # a thread waits for the standard input
"""


class House:
    """Use it in ``with``; its log goes to ``log``. Raises ``DeviceFailed`` where it has no environment, or ends."""

    def __init__(self, broker: int, log: Path) -> None:
        found = home_assistant.command(home_assistant.folder())
        if found is None:
            raise DeviceFailed("no Home Assistant here: python -m scripts.environments.home_assistant makes it")
        here, there = home_assistant.scratch(home_assistant.folder())
        (here / "house.py").write_text(INSIDE)
        name = f"house-{time.time_ns()}"
        (here / name).mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._page = free.getsockname()[1]
        words = [*found, f"{there}/house.py", f"{there}/{name}", str(broker), str(self._page)]
        self._log = log
        with log.open("w") as said:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )
        self._about = next(self._told())
        self.version, self.device = self._about["version"], ""

    def __enter__(self) -> House:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate("", timeout=60)

    def states(self) -> Iterator[dict[str, str]]:
        """The states of all entities of the stream, by name, whenever one has changed."""
        for told in self._told():
            self.device = told["device"] or self.device
            yield told["states"]

    def _told(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            yield json.loads(line)
        raise DeviceFailed(f"Home Assistant ended: {self._log.read_text()[-600:]}")

    def photo(self) -> bytes:
        """The page of the stream's device as PNG in few colours, from headless Chromium. Raises ``DeviceFailed``."""
        from PIL import Image

        url = f"http://127.0.0.1:{self._page}/"
        tokens = {
            "access_token": self._about["access"],
            "refresh_token": self._about["refresh"],
            "token_type": "Bearer",
            "expires_in": 1800,
            "expires": int((time.time() + 1800) * 1000),
            "hassUrl": url.rstrip("/"),
            "clientId": url,
        }
        with Chromium() as browser:
            browser.show(f"{url}manifest.json", width=WIDTH)
            browser.evaluate(f"localStorage.setItem('hassTokens', {json.dumps(json.dumps(tokens))})")
            browser.show(f"{url}config/devices/device/{self.device}", width=WIDTH)
            _until_shown(browser)
            picture = Image.open(io.BytesIO(browser.picture(height=HEIGHT))).convert("RGB").quantize(COLOURS)
        data = io.BytesIO()
        picture.save(data, "PNG", optimize=True)
        return data.getvalue()


def _until_shown(browser: Chromium) -> None:
    """Wait until the page has begun, which takes its sign away, and a moment more for what it then fetches."""
    end = time.monotonic() + MOST_S
    while browser.evaluate("document.querySelector('#ha-launch-screen') !== null"):
        if time.monotonic() > end:
            raise DeviceFailed(f"the page of Home Assistant has not begun for {MOST_S:.0f} s")
        time.sleep(0.5)
    time.sleep(SETTLED_S)
