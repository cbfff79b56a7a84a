"""Home Assistant itself with its page, on a broker: who has an account there, and the device that a stream is.

    PYTHON house.py FOLDER PORT ENTITIES

Runs in its own environment; SETUP_PORT is where its page listens. FOLDER is its configuration, PORT that of a broker on
this machine. One line of JSON once there are so many entities of EdgeVeil with a number or a word as their state. Then
it waits for the end of its standard input.
"""

import asyncio
import json
import os
import sys
import types
from pathlib import Path

# The page asks what every service does, and for that Home Assistant imports its voice assistant, with two libraries
# that have to be compiled. Without an answer the page says "Loading" for ever; nobody speaks here.
for library, name in {"pymicro_vad": "MicroVad", "pyspeex_noise": "AudioProcessor"}.items():
    sys.modules[library] = types.ModuleType(library)
    setattr(sys.modules[library], name, object)

from homeassistant import bootstrap, runner  # noqa: E402
from homeassistant.auth.const import GROUP_ID_ADMIN  # noqa: E402
from homeassistant.const import __version__  # noqa: E402
from homeassistant.helpers import device_registry  # noqa: E402

BROKER = {"set_client_cert": False, "set_ca_cert": "off", "transport": "tcp"}  # the rest of what its form asks
ONBOARDED = {"version": 4, "key": "onboarding", "data": {"done": ["user", "core_config", "analytics", "integration"]}}


def known(hass):
    found = [one.state for one in hass.states.async_all() if "edgeveil_" in one.entity_id]
    return len(found) - found.count("unknown") - found.count("unavailable")


async def main(folder, port, entities):
    Path(folder, "configuration.yaml").write_text("homeassistant:\n  name: a house\nfrontend:\n")
    Path(folder, ".storage").mkdir()
    Path(folder, ".storage/onboarding").write_text(json.dumps(ONBOARDED))
    hass = await bootstrap.async_setup_hass(runner.RuntimeConfig(config_dir=folder, skip_pip=True))
    await hass.async_start()
    form = await hass.config_entries.flow.async_init("mqtt", context={"source": "user"})
    given = {"broker": "127.0.0.1", "port": port, "other_settings": BROKER}
    await hass.config_entries.flow.async_configure(form["flow_id"], given)
    while known(hass) < entities:
        await asyncio.sleep(0.2)
    (device,) = [one for one in device_registry.async_get(hass).devices if one.manufacturer == "EdgeVeil"]
    address = f"http://127.0.0.1:{os.environ['SETUP_PORT']}"
    user = await hass.auth.async_create_user("somebody", group_ids=[GROUP_ID_ADMIN])
    refresh = await hass.auth.async_create_refresh_token(user, f"{address}/")
    tokens = {
        "hassUrl": address,
        "clientId": f"{address}/",
        "access_token": hass.auth.async_create_access_token(refresh),
        "refresh_token": refresh.token,
        "token_type": "Bearer",
        "expires_in": 1800,
        "expires": 10**13,  # in milliseconds: the page asks for no other
    }
    states = {one.entity_id: one.state for one in hass.states.async_all() if "edgeveil_" in one.entity_id}
    page = f"/config/devices/device/{device.id}"
    print(json.dumps({"version": __version__, "page": page, "tokens": tokens, "states": states}))
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await hass.async_stop()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
