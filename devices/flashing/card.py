"""``edgeveil flash --on image:FILE``: a card whose board flashes itself at its first boot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from edgeveil.devices.flashing import card_setup, first_boot, sd_card, service_files
from edgeveil.devices.flashing.checks import Refused
from edgeveil.devices.flashing.inputs import Inputs
from edgeveil.devices.flashing.placement import compiled_artefact, possible_artefacts
from edgeveil.devices.flashing.plan import Flashed, Plan, ServiceFiles
from edgeveil.devices.flashing.records import PAHO, BundleFacts, TrustFacts, Wanted, Wheels
from edgeveil.devices.flashing.steps import (
    InstallRelease,
    MakeLedger,
    PushBundle,
    StartService,
    Step,
    TrustKeys,
    UnpackWheels,
    WriteService,
)
from edgeveil.devices.profiles import Profile
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.schema import NO_MODEL


def flash_card(
    inputs: Inputs,
    target: str,
    wanted: Wanted,
    *,
    root: str,
    setup: card_setup.CardSetup | None = None,
    dry_run: bool = False,
    show: Callable[[str], None] = lambda _: None,
) -> Flashed:
    """Write a card (``image:FILE``, ``dir:FOLDER``) whose board flashes itself at its first boot.

    What only the board knows, such as its interpreters, is checked there. Raises ``EdgeVeilError``.
    """
    made = plan_card(
        inputs.bundle,
        inputs.profile,
        wanted,
        trust=inputs.trust,
        wheels=inputs.wheels,
        service_files=partial(service_files.for_board, root, inputs.profile, wanted, None),
    )
    inputs.check_policy(None, None)
    tree = first_boot.tree(made, root, inputs.profile.service.environment)
    card = sd_card.open_media(target)
    # It looks for what an earlier flash wrote, so it comes before this one's.
    own = {} if setup is None else card_setup.files(setup, card.read, card.name)
    show(f"{len(tree)} files for {card.name}; at its first boot the board does this:\n{made.text()}")
    if setup is not None:
        show(f"and it sets itself up, by {', '.join(path[1:] for path in own)}: {setup.text()}")
    for line in sd_card.write_card(card, tree, setup=own, dry_run=dry_run):
        show(line)
    return Flashed(made, inputs.bundle.sha)


def plan_card(
    bundle: BundleFacts,
    profile: Profile,
    wanted: Wanted,
    *,
    trust: TrustFacts | None,
    wheels: Wheels | None = None,
    service_files: ServiceFiles = lambda _device: {},
) -> Plan:
    """The steps that a board with a new card takes by itself at its first boot. Raises ``Refused``.

    What only the board knows, such as its interpreters, is checked there. The model runs on the processor unless an
    accelerator was named.
    """
    if trust is None:
        raise Refused("no-trust", "A card needs the board's trust: give the folder of edgeveil trust init.")
    artefact = possible_artefacts(bundle, profile)[0] if bundle.artefacts else NO_MODEL
    device = wanted.device or CPU
    backends = [backend for backend in profile.backends if backend.device == device]
    artefact = compiled_artefact(bundle, profile, artefact, backends[0] if backends else None, device)
    if wheels is not None and wheels.architecture != profile.architecture:
        raise Refused(
            "architecture",
            f"The wheels given are for {wheels.architecture}, and {profile.name} is {profile.architecture}.",
        )
    steps: list[Step] = [TrustKeys(trust)]
    steps += [UnpackWheels(wheels)] if wheels else []
    steps.append(PushBundle(bundle))
    steps.append(
        InstallRelease(
            bundle, artefact, device, wanted.frames, source=wanted.trial_source, device=wanted.device, first=True
        )
    )
    if wanted.service:
        steps.append(WriteService(service_files(device), profile.service))
        steps += [MakeLedger(profile.service)] if bundle.spends else []
        steps.append(StartService())
    notes = wanted.notes
    if wanted.mqtt and (wheels is None or PAHO not in wheels.interpreters):
        notes += (f"the image needs python3-paho-mqtt, or wheels of edgeveil wheels {profile.name} --mqtt: for MQTT",)
    return Plan(tuple(steps), artefact, "found out at first boot", notes, device)
