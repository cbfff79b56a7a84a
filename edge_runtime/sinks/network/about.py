"""What a bundle is, as one retained document: its version and the attack figure of its audit."""

from typing import Any, Dict, Mapping, Optional

from edgeveil.edge_runtime.bundle.audit_document import read_audit
from edgeveil.edge_runtime.bundle.audit_scope import audits_of, current_place
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.manifest.schema import PRIVACY_MEMBER
from edgeveil.edge_runtime.shift.distance import reference_of


def about(manifest: Optional[Manifest], privacy: Optional[bytes], runs: Mapping[str, str]) -> Dict[str, Any]:
    """``bundle`` and ``version`` (when it was made), None without a manifest; ``sensitive``; ``attack``, the share that
    the best attack found guesses, and ``chance`` (by the prior), both None where nobody measured what runs here;
    ``watched``, whether the codes that leave are compared with those of the audit.

    ``privacy`` is the audit's member, ``runs`` has the ``artefact`` and the ``device`` that runs it.
    """
    document: Dict[str, Any] = dict.fromkeys(("attack", "bundle", "chance", "sensitive", "version"))
    document.update(kind="edgeveil-about", schema=1, watched=False)
    if manifest is None:
        return document
    document.update(bundle=manifest.name, version=manifest.created, sensitive=manifest.perturber.sensitive)
    audit = read_audit(manifest, {PRIVACY_MEMBER: privacy}) if privacy else None
    document["watched"] = reference_of(audit, manifest.crops) is not None
    if audit is not None:
        device = runs.get("device", CPU)
        shown = [audit] if device == CPU else audits_of(audit, runs.get("artefact", ""), device, current_place())
        if shown:
            worst = max(shown, key=lambda part: part["worst_adaptive"]["accuracy"])
            document.update(attack=worst["worst_adaptive"]["accuracy"], chance=worst["chance"]["prior"])
    return document
