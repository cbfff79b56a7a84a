"""Home Assistant itself in its own environment, on a broker: what it shows of a stream."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from edgeveil.edge_runtime.errors import DeviceFailed
from scripts.environments import home_assistant

# Runs in that environment: FOLDER PORT-OF-BROKER. A line of JSON with its version, then one whenever a state of a
# stream has changed, until the end of its standard input.
INSIDE = """
import asyncio, json, os, sys, traceback
from pathlib import Path
from homeassistant import bootstrap, runner
from homeassistant.const import __version__

BROKER = {"set_client_cert": False, "set_ca_cert": "off", "transport": "tcp"}  # the rest of what its form asks


def say(**facts):
    print(json.dumps(facts), flush=True)


async def main(folder, port):
    Path(folder, "configuration.yaml").write_text("homeassistant:\\n  name: a house\\n")
    hass = await bootstrap.async_setup_hass(runner.RuntimeConfig(config_dir=folder, skip_pip=True))
    await hass.async_start()
    say(version=__version__)
    form = await hass.config_entries.flow.async_init("mqtt", context={"source": "user"})
    given = {"broker": "127.0.0.1", "port": port, "other_settings": BROKER}
    await hass.config_entries.flow.async_configure(form["flow_id"], given)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    before = None
    while not ended.done():
        now = {one.entity_id: one.state for one in hass.states.async_all() if "edgeveil_" in one.entity_id}
        if now != before:
            say(states=now)
            before = now
        await asyncio.sleep(0.2)
    await hass.async_stop()


try:
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
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
        words = [*found, f"{there}/house.py", f"{there}/{name}", str(broker)]
        self._log = log
        with log.open("w") as said:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )
        self.version: str = next(self._told())["version"]

    def __enter__(self) -> House:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate("", timeout=60)

    def states(self) -> Iterator[dict[str, str]]:
        """The states of all entities of the stream, by name, whenever one has changed."""
        for told in self._told():
            yield told["states"]

    def _told(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            yield json.loads(line)
        raise DeviceFailed(f"Home Assistant ended: {self._log.read_text()[-600:]}")
