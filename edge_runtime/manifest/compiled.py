"""Artefacts that a vendor's compiler made from another one: what a manifest must say about them.

``compiled`` of an artefact ``tflite-int8-edgetpu`` has the device it was compiled ``for``, the variant of the same
model it was made ``from``, the ``sha256`` of that variant's file, and the compiler (``by``). No interpreter here can
run such a file. Its device tests it against the golden outputs of the variant it was made from, at the same tolerance,
unless the compiler quantised it anew: then both are its own.
"""

from typing import Any, Dict

from edgeveil.edge_runtime.device import FORMS
from edgeveil.edge_runtime.formats.validate import identifier, one_of, record, refuse, sha256, show, text

KEY = "compiled"
_TENSOR = ("name", "shape", "dtype", "scale", "zero_point")


def check_compiled(artefacts: Dict[str, Any], at: str) -> None:
    """Raise ``BundleRefused`` unless every compiled variant of a model matches the variant it was made from."""
    for variant, artefact in artefacts.items():
        place = "{}.{}.{}".format(at, variant, KEY)
        ending = variant.rpartition("-")[2]
        if KEY not in artefact:
            if ending in FORMS:
                refuse("missing-key", place, "a variant with this name must say what it was compiled from")
            continue
        facts = record(artefact[KEY], place, ("for", "from", "sha256", "by"))
        device = one_of(facts["for"], place + ".for", sorted(FORMS))
        form = FORMS[device]
        if (artefact["format"], artefact["precision"]) != form.made:
            refuse("artefact-mismatch", place + ".for", "{} runs only {}-{}".format(device, *form.made))
        source = identifier(facts["from"], place + ".from")
        if variant != "{}-{}".format(source, device):
            refuse("artefact-mismatch", place, "expected the name {}-{}".format(show(source), device))
        text(facts["by"], place + ".by")
        if KEY in artefacts.get(source, {KEY: None}):
            refuse("unknown-artefact", place + ".from", "the model has no such variant to compile")
        if (artefacts[source]["format"], artefacts[source]["precision"]) != form.source:
            refuse("artefact-mismatch", place + ".from", "{} is compiled from {}-{}".format(device, *form.source))
        if sha256(facts["sha256"], place + ".sha256") != artefacts[source]["sha256"]:
            refuse("artefact-hash", place + ".sha256", "it was compiled from another file of {}".format(source))
        if not form.requantised and artefact["tolerance"] != artefacts[source]["tolerance"]:
            refuse("artefact-mismatch", place, "its tolerance must be that of {}".format(source))
        for end in ("inputs", "outputs"):
            theirs, ours = ([[one[key] for key in _TENSOR] for one in a[end]] for a in (artefacts[source], artefact))
            if ours != theirs:
                refuse("artefact-mismatch", "{}.{}".format(place, end), "expected those of {}".format(source))
