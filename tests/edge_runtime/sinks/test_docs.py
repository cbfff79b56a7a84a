"""docs/reference/sinks.md says what the code does."""

import re

import numpy as np
import pytest

from edgeveil.edge_runtime import kinds
from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.sinks import wire
from scripts import reference
from tests.support import network_receivers
from tests.support.checkout import ROOT

PAGE = (ROOT / "docs/reference/sinks.md").read_text()


def test_the_receiver_of_the_page_reads_records():
    names = {}
    exec(compile(re.search(r"```python\n(.*?)```", PAGE, re.S).group(1), "sinks.md", "exec"), names)  # noqa: S102
    form = wire.Format(network_receivers.OUTPUTS)
    frame = network_receivers.frame(9, slot=3)
    name, tick, slot, values = names["read"](form.encode(frame, b"12345678", 5), form.document["outputs"])
    assert (name, tick, slot) == ((b"12345678", 5), 9, 3)
    assert np.array_equal(values["frame"], frame.outputs["frame"])
    assert values["label"] == frame.outputs["label"]


def test_every_command_is_understood():
    import shlex

    lines = [line for line in PAGE.splitlines() if line.startswith("edgeveil-edge ")]
    bundles = [main._parser().parse_args(shlex.split(line)[1:]).bundle for line in lines]
    assert bundles == ["hall.veil", "hall.veil"]


@pytest.mark.parametrize(("name", "registry"), [("sources", kinds.SOURCES), ("sinks", kinds.SINKS)])
def test_the_tables_of_kinds_are_those_of_the_classes(name, registry):
    page = (ROOT / f"docs/reference/{name}.md").read_text()
    assert reference.kinds_page(name, page) == page, reference.HOW
    for kind in registry.kinds():
        assert f"`{kind}:" in page


def test_the_page_on_sources_says_what_the_kernel_must_give_a_kinect_v2():
    (line,) = [one for one in (ROOT / "docs/reference/sources.md").read_text().splitlines() if "| `openni:`" in one]
    assert "on USB 3 with `usbcore.usbfs_memory_mb=64` or more" in line
