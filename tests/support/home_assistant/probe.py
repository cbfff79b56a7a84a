"""Home Assistant itself with its MQTT integration: says what it found of a stream. Runs in its own environment.

    PYTHON probe.py FOLDER PORT ENTITIES

FOLDER is its configuration, PORT that of a broker on this machine. Two lines of JSON: once there are so many entities
of EdgeVeil with a state, and once the stream is degraded. Then it waits for the end of its standard input.
"""

import asyncio
import base64
import json
import logging
import sys
from pathlib import Path

from homeassistant import bootstrap, runner
from homeassistant.components import device_automation
from homeassistant.const import __version__
from homeassistant.helpers import device_registry, entity_registry, trigger

BROKER = {"set_client_cert": False, "set_ca_cert": "off", "transport": "tcp"}  # the rest of what its form asks


def states(hass):
    return {state.entity_id: state.state for state in hass.states.async_all() if "edgeveil_" in state.entity_id}


async def until(condition, seconds=40):
    for _ in range(10 * seconds):
        if condition():
            return
        await asyncio.sleep(0.1)


async def main(folder, port, entities):
    Path(folder, "configuration.yaml").write_text("homeassistant:\n  name: a test\n")
    hass = await bootstrap.async_setup_hass(runner.RuntimeConfig(config_dir=folder, skip_pip=True))
    await hass.async_start()
    form = await hass.config_entries.flow.async_init("mqtt", context={"source": "user"})
    given = {"broker": "127.0.0.1", "port": port, "other_settings": BROKER}
    done = await hass.config_entries.flow.async_configure(form["flow_id"], given)
    await until(lambda: list(states(hass).values()).count("unknown") < 2 and len(states(hass)) >= entities)
    (device,) = [one for one in device_registry.async_get(hass).devices if one.manufacturer == "EdgeVeil"]
    kind = device_automation.DeviceAutomationType.TRIGGER
    found = (await device_automation.async_get_device_automations(hass, kind, [device.id]))[device.id]
    mine = [one for one in found if one["domain"] == "mqtt"]
    fired = []
    chosen = await trigger.async_validate_trigger_config(hass, [one for one in mine if one["type"] == "degraded"])

    async def act(variables, _context=None):
        fired.append(variables["trigger"]["payload"])

    await trigger.async_initialize_triggers(hass, chosen, act, "test", "test", logging.getLogger().log)
    picture = hass.data["image"].get_entity(next(one for one in states(hass) if one.startswith("image.")))
    update = hass.states.get(next(one for one in states(hass) if one.startswith("update.")))
    known = entity_registry.async_entries_for_device(entity_registry.async_get(hass), device.id)
    print(
        json.dumps(
            {
                "version": __version__,
                "flow": done["type"],
                "states": states(hass),
                "unique": sorted(one.unique_id for one in known),
                "device": [device.name, device.model, device.sw_version],
                "picture": base64.b64encode(await picture.async_image()).decode(),
                "update": dict(update.attributes),
                "triggers": sorted(one["type"] for one in mine),
            }
        ),
        flush=True,
    )
    await until(lambda: "degraded" in states(hass).values() and fired)
    print(json.dumps({"states": states(hass), "fired": fired}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await hass.async_stop()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
