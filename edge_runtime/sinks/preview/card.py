"""The privacy card in a few lines that a person can read, from what the bundle was signed with."""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgeveil.edge_runtime.bundle.audit_scope import audits_of, current_place
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.manifest import Manifest


def card_lines(
    manifest: Optional[Manifest], audit: Optional[Dict[str, Any]], *, artefact: str = "", device: str = CPU
) -> List[Tuple[str, str]]:
    """Pairs of a heading and a text. ``audit`` is the bundle's audit document, None where there is none.

    ``artefact`` is what runs, and ``device`` what runs it: of an accelerator's output only an audit of that speaks.
    """
    if manifest is None:
        return [("privacy card", "none: this stream came without a manifest")]
    perturber = manifest.perturber
    lines = [
        ("bundle", manifest.name),
        ("meant to get through", perturber.target),
        ("meant to be hidden", perturber.sensitive),
        ("how", perturber.kind),
    ]
    if manifest.development:
        lines.append(("development bundle", "signed by a throw-away key; not for real data"))
    if audit is None:
        return lines + [("audit", "not audited: nobody has measured what it leaks")]
    shown: Mapping[str, Any] = audit
    covers = "artefact {}".format(audit["artefact"])
    if device != CPU:
        parts = audits_of(audit, artefact, device, current_place())
        if not parts:
            text = "nobody has measured what leaks when {} runs on {}; on a workstation's processor it was measured"
            return lines + [("audit", text.format(artefact, device))]
        shown = max(parts, key=lambda part: part["worst_adaptive"]["accuracy"])
        covers = "artefact {} on {}".format(artefact, device)
    worst, chance, target = shown["worst_adaptive"], shown["chance"], shown["target"]
    return lines + [
        (
            "best attack found",
            "guesses {} rightly {} of the time (95 %: {} to {}); a stronger attack may exist".format(
                perturber.sensitive, _share(worst["accuracy"]), _share(worst["low"]), _share(worst["high"])
            ),
        ),
        (
            "chance",
            "who knows {} alone: {} by the public prior, {} by counting".format(
                perturber.target, _share(chance["prior"]), _share(chance["majority"])
            ),
        ),
        ("still told rightly", "{}: {}".format(perturber.target, _share(target["accuracy"]))),
        ("what this covers", "one reading alone, and {}; see the threat model".format(covers)),
    ]


def _share(value: float) -> str:
    return "{:.1f} %".format(100.0 * value)
