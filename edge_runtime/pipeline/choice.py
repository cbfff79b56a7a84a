"""Which artefact of a bundle runs here: the requested one, else the first preferred one that a backend can open."""

from typing import Dict, List, Tuple

from edgeveil.edge_runtime.backends.select import FORMATS, NoBackend, backends_for
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.device import CPU, FORMS, NoDevice, check_device, suits
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, load_pipeline


def open_pipeline(bundle: Bundle, artefact: str, backend: str, threads: int, device: str) -> Tuple[str, Pipeline]:
    """The artefact that will run, and its pipeline. ``artefact`` and ``backend`` are names or ``"auto"``.

    Raises ``BadInput`` for names that do not exist or do not fit together, ``NoBackend`` or ``NoDevice`` if no
    candidate can be opened.
    """
    names = _candidates(bundle.manifest, artefact, backend, check_device(device))
    reasons: Dict[str, List[str]] = {}
    absent: Dict[str, List[str]] = {}
    for name in names:
        try:
            return name, load_pipeline(
                bundle.manifest, bundle.members, name, backend=backend, threads=threads, device=device
            )
        except NoDevice as error:
            absent.setdefault(str(error), []).append(name)
        except NoBackend as error:
            reasons.setdefault(str(error), []).append(name)
    if absent:
        raise NoDevice(_listed(absent))
    raise NoBackend("no requested artefact can run here. {}".format(_listed(reasons)))


def _listed(problems: Dict[str, List[str]]) -> str:
    """``NAME, NAME: problem; ...``."""
    return "; ".join("{}: {}".format(", ".join(names), problem) for problem, names in problems.items())


def _candidates(manifest: Manifest, artefact: str, backend: str, device: str) -> List[str]:
    """The artefacts to try, in order; at least one."""
    known = {name for kind in FORMATS for name in backends_for(kind)}
    if backend != "auto" and backend not in known:
        raise BadInput("expected a backend of {}, or auto; got {!r}".format(", ".join(sorted(known)), backend))
    models = list(manifest.models.values())
    if not models:
        if artefact not in ("auto", NO_MODEL):
            raise BadInput("this bundle has no models, so no artefact {!r}; leave it out".format(artefact))
        if device != CPU:
            raise BadInput("this bundle has no models for a device {}: leave --device out".format(device))
        return [NO_MODEL]
    if artefact != "auto":
        return [artefact]
    names = [name for name in manifest.preference if all(suits(model.artefacts[name], device) for model in models)]
    if not names:
        raise BadInput(
            "expected an artefact for the device {}; this bundle has {}. {}".format(
                device,
                ", ".join(manifest.preference),
                "Export with {} and seal that, or choose --device cpu".format(FORMS[device].compiler)
                if device in FORMS
                else "Export for the board that has it, or choose another device",
            )
        )
    if backend == "auto":
        return names
    fitting = [name for name in names if all(backend in backends_for(model.artefacts[name].format) for model in models)]
    if not fitting:
        raise BadInput(
            "no artefact of this bundle is for the backend {!r}; it has {}".format(backend, ", ".join(names))
        )
    return fitting
