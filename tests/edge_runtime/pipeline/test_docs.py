"""docs/how-to/run-the-capture-loop.md says what the code does."""

import json
import re

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.cli import main
from tests.support.checkout import ROOT

PAGE = (ROOT / "docs/how-to/run-the-capture-loop.md").read_text()


def test_every_command_is_understood():
    lines = [line for line in PAGE.splitlines() if line.startswith("edgeveil-edge run")]
    assert len(lines) == 3
    for line in lines:
        assert main._parser().parse_args(line.split()[1:]).command == "run"


def test_the_configuration_is_one():
    document = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.S).group(1))
    for name, value in document.items():
        config.check(name, value, "on the page")


def test_every_flag_that_is_named_is_one():
    named = set(re.findall(r"`--([a-z-]+)", PAGE)) - {"config", "json"}
    assert named <= set(config.SETTINGS) | set(config.RENAMED)


def test_every_fault_that_is_counted_is_named():
    found = {"disconnected", "stalled"}
    for path in (ROOT / "edge_runtime").rglob("*.py"):
        found |= set(re.findall(r'add\("fault:([a-z-]+)"\)', path.read_text()))
    assert found - {"camera-aid"} <= set(re.findall(r"`fault:([a-z-]+)`", PAGE))
