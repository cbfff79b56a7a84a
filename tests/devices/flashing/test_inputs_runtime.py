"""What a flash takes from its inputs: the toolkit's own runtime, whether a ledger is needed, what stands beside."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from edgeveil.devices.flashing.flash import flash
from edgeveil.devices.flashing.placement import Refused
from edgeveil.devices.flashing.records import Facts, OnBoard, Wanted
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.devices.zipapp import zipapp_bytes
from tests.support import bundles
from tests.support.boards import owners
from tests.support.promised.counting_bundle import counting_example

NOISE = {"micro_epsilon": 10**6, "most_each": 1, "most_micro_epsilon": 10**7}


def test_the_runtime_that_is_sent_is_the_toolkits_own(tmp_path):
    made = bundles.make_bundle(tmp_path)
    inputs = read_inputs(made.path, "workstation", made.trust, None)
    assert made.members["runtime/edgeveil-edge.pyz"] != zipapp_bytes()
    assert inputs.bundle.runtime == zipapp_bytes()


@pytest.mark.parametrize(("noise", "spends"), [(None, False), (NOISE, True)])
def test_counts_with_noise_need_a_ledger_without_any_other_promise(tmp_path, noise, spends):
    made = bundles.make_bundle(tmp_path, example=counting_example(noise=noise))
    assert made.manifest.get("spending") is None
    assert read_inputs(made.path, "workstation", made.trust, None).bundle.spends is spends


def test_a_flash_says_what_it_means_for_the_services_beside_it_and_refuses_what_takes_from_them(tmp_path):
    made = bundles.make_bundle(tmp_path, example=counting_example(noise=NOISE))
    inputs, said = read_inputs(made.path, "workstation", owners.trust(tmp_path), None), []

    def put(sink):
        wanted = Wanted("simulate:depth", (sink,))
        return flash(inputs, BoardWithAnother(), wanted, dry_run=True, show=said.append)

    assert put("npz:/var/lib/edgeveil-hall/out").plan.steps
    assert "edgeveil and this service count epsilon apart" in said[-1]
    assert "/var/lib/edgeveil-hall/ledger" in said[-1]
    with pytest.raises(Refused, match="alone"):
        put("npz:/var/lib/edgeveil/out")
    board = BoardWithAnother()
    board.root = "/var/lib/edgeveil/mine"
    with pytest.raises(Refused, match="could change what lies there"):
        flash(inputs, board, Wanted(service=False), dry_run=True)


class BoardWithAnother:
    """A board with a service that counts, and room for another one; nothing may be done to it."""

    root, sudo = "/opt/edgeveil-hall", SimpleNamespace(allowed=lambda: True)

    def facts(self, _accelerator, _needs=()):
        there = OnBoard("edgeveil", "/opt/edgeveil", "camera:0", "", ("edgeveil", "edgeveil-inside"), counts=True)
        system = Facts("x86_64", "3.11.2", 10**10, False, True, True, glibc="2.36", interpreters={"numpy": "2.4.0"})
        return replace(system, services=(there,))
