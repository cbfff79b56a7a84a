"""The privacy card in a few lines that a person can read, from what the bundle was signed with."""

from typing import Any, Dict, List, Optional, Tuple


def card_lines(manifest: Optional[Dict[str, Any]], audit: Optional[Dict[str, Any]]) -> List[Tuple[str, str]]:
    """Pairs of a heading and a text. ``audit`` is the bundle's audit document, None where there is none."""
    if manifest is None:
        return [("privacy card", "none: this stream came without a manifest")]
    perturber = manifest["perturber"]
    lines = [
        ("bundle", manifest["name"]),
        ("meant to get through", perturber["target"]),
        ("meant to be hidden", perturber["sensitive"]),
        ("how", perturber["kind"]),
    ]
    if manifest.get("development"):
        lines.append(("development bundle", "signed by a throw-away key; not for real data"))
    if audit is None:
        return lines + [("audit", "not audited: nobody has measured what it leaks")]
    worst, chance, target = audit["worst_adaptive"], audit["chance"], audit["target"]
    return lines + [
        (
            "best attack found",
            "guesses {} rightly {} of the time (95 %: {} to {}); a stronger attack may exist".format(
                perturber["sensitive"], _share(worst["accuracy"]), _share(worst["low"]), _share(worst["high"])
            ),
        ),
        (
            "chance",
            "who knows {} alone: {} by the public prior, {} by counting".format(
                perturber["target"], _share(chance["prior"]), _share(chance["majority"])
            ),
        ),
        ("still told rightly", "{}: {}".format(perturber["target"], _share(target["accuracy"]))),
        ("what this covers", "one reading alone, and artefact {}; see the threat model".format(audit["artefact"])),
    ]


def _share(value: float) -> str:
    return "{:.1f} %".format(100.0 * value)
