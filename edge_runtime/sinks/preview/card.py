"""The privacy card of a signed bundle, in a few lines for people to read."""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgeveil.edge_runtime.bundle.audit_scope import audits_of, current_place
from edgeveil.edge_runtime.device import CPU
from edgeveil.edge_runtime.manifest.manifest import Manifest


def card_lines(
    manifest: Optional[Manifest], audit: Optional[Dict[str, Any]], *, artefact: str = "", device: str = CPU
) -> List[Tuple[str, str]]:
    """Pairs of a heading and a text. ``audit`` is the bundle's audit document, None where there is none.

    ``artefact`` runs on ``device``. Only an audit on an accelerator describes that accelerator's output.
    """
    if manifest is None:
        return [("privacy card", "none: this stream has no manifest")]
    perturber = manifest.perturber
    lines = [
        ("bundle", manifest.name),
        ("meant to be kept", perturber.target),
        ("meant to be hidden", perturber.sensitive),
        ("how", perturber.kind),
    ]
    if perturber.substituted:
        lines.append(("what leaves", "records of other people, put in the place of each reading"))
    if manifest.development:
        lines.append(("development bundle", "signed by a throw-away key; not for real data"))
    if audit is None:
        return lines + [("audit", "not audited: what it leaks was not measured")]
    shown: Mapping[str, Any] = audit
    covers = "artefact {}".format(audit["artefact"])
    if device != CPU:
        parts = audits_of(audit, artefact, device, current_place())
        if not parts:
            text = "not measured: what leaks when {} runs on {}; measured: what leaks on a workstation's processor"
            return lines + [("audit", text.format(artefact, device))]
        shown = max(parts, key=lambda part: part["worst_adaptive"]["accuracy"])
        covers = "artefact {} on {}".format(artefact, device)
    judged = shown.get("verdict")
    worst, chance, target = shown["worst_adaptive"], shown["chance"], shown["target"]
    return lines + [
        ("verdict of the audit", _EARLIER if judged is None else _verdict(judged)),
        (
            "best attack found",
            "guesses {} correctly {} of the time (95 %: {} to {}); a stronger attack may exist".format(
                perturber.sensitive, _share(worst["accuracy"]), _share(worst["low"]), _share(worst["high"])
            ),
        ),
        (
            "chance",
            "an attacker who knows {} alone: {} by the public prior, {} by counting".format(
                perturber.target, _share(chance["prior"]), _share(chance["majority"])
            ),
        ),
        ("kept", "{}: {} correct".format(perturber.target, _share(target["accuracy"]))),
        ("what this covers", "single frames, and {}; see the threat model".format(covers)),
    ]


_EARLIER = "none: it was made before verdicts by the upper end of intervals, so it shows an estimate only"


def _verdict(judged: Mapping[str, Any]) -> str:
    limit = judged["limit"]
    text = {"holds": "holds to within {points:g} points over chance and {bits:g} bits", "leaks": "leaks"}
    return text.get(judged["word"], "cannot tell: too little was measured").format(**limit)


def _share(value: float) -> str:
    return "{:.1f} %".format(100.0 * value)
