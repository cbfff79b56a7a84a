"""An audit of invented numbers, shaped as the real one is, for tests of what is made from audits."""

import copy

from edgeveil.trainer.attacks.exposure import NOTHING, Rate
from edgeveil.trainer.attacks.findings import Curve, Findings, NotRun, Row
from edgeveil.trainer.attacks.parts import Part
from edgeveil.trainer.audit.document import Audited, environment
from edgeveil.trainer.audit.findings import LABEL_ONLY, RAW, Finding
from edgeveil.trainer.audit.verdict import held_to, judge, limits_of
from edgeveil.trainer.measures.attack_metrics import Chance, Permuted
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.recipe.training_sections import Limits
from scripts import audit_rows


def row(name: str, kind: str, accuracy: float, *, validation: float | None = None, bits: float = 0.0) -> Row:
    return Row(
        name=name,
        kind=kind,
        learned_on="fresh" if kind == "adaptive" else "clean",
        seed=0,
        train_samples=982,
        right=Interval(accuracy, accuracy - 0.02, min(1.0, accuracy + 0.02)),
        auc=float("nan") if kind == "transfer" else 0.5,
        bits=Interval(bits, bits - 0.01, bits + 0.01),
        bits_counted=Interval(bits, bits - 0.01, bits + 0.01),
        validation_accuracy=accuracy if validation is None else validation,
        validation_bits=bits,
        seconds=1.5,
        balanced=Rate(Interval(accuracy - 0.1, accuracy - 0.12, min(1.0, accuracy - 0.08)), 0, 0.5),
        recognised=Rate(Interval(0.02, 0.01, 0.04), 290, 0.01, 0.6),
        worst_class=Rate(Interval(accuracy, accuracy - 0.03, min(1.0, accuracy + 0.03)), 290, 0.5),
    )


def audited(best: float, bits: float = 0.0, fixed: float = 0.55, p: float = 0.4) -> Audited:
    rows = (
        row("fixed D_z", "fixed", fixed),
        row("transfer", "transfer", 0.58),
        row("logistic regression", "adaptive", best - 0.05, bits=bits),
        row("BatchNorm MLP", "adaptive", best, bits=bits / 2),
        row("CNN", "adaptive", best + 0.01, validation=best - 0.01),  # better on test, but not the one chosen
    )
    left_out = (NotRun("random forest", "adaptive", "gradient boosting stands in"),)
    rates = ((491, best - 0.04), (982, best))
    points = tuple((n, Interval(right, right - 0.02, right + 0.02)) for n, right in rates)
    curve = Curve("BatchNorm MLP", 0, points, Interval(0.04, 0.01, 0.07))
    too_few = ("Too few people: 30 are needed.",)
    test = Permuted(p, bits + 0.002, 0.01, 999, "rows")
    found = Findings(Chance(0.6, 0.59), rows, left_out, curve, too_few, test)
    apart = (
        Part("surest twentieth", "surest", 30, 30, Interval(0.7, 0.5, 0.85), 0.6, Interval(0.01, -0.01, 0.03), 0.6),
        Part("wrong label", "label", 4, 4, NOTHING, float("nan"), NOTHING, None),
    )
    return Audited(Interval(0.96, 0.94, 0.98), found, None, apart)


def document(best: float = 0.95, bits: float = 0.0, fixed: float = 0.55, p: float = 0.4) -> dict:
    """A whole document as ``audit`` makes it, of invented numbers."""
    versions, machine = environment()
    y, z = "parity", "less-than-five"
    raw = {y: ("D_y", Interval(0.98, 0.96, 0.99)), z: ("D_z", Interval(0.97, 0.95, 0.99))}
    found = [
        *audited(best, bits, fixed, p).findings(y, z),
        *other_attributes(),
        Finding(z, "counted channel", not_run="No certificate: more of a reading leaves than a code.", more=COUNTED),
        *collateral(),
        *audited(0.6).findings(y, z, of=LABEL_ONLY),
        *(Finding.measured(of, name, "right", value, of=RAW, more=READER) for of, (name, value) in raw.items()),
    ]
    made = {
        "schema": 2,
        "kind": "edgeveil-audit",
        "created": "2026-11-21T12:00:00Z",
        "artefact": "tflite-int8",
        "speaks_of": {"tflite-int8": {"generator": "ab" * 32}},
        "pipeline": {"tflite-int8": "cd" * 32},
        "backends": {"generator": {"backend": "ai-edge-litert", "version": "2.3"}},
        "perturber": "prgan",
        "data": {
            "name": "digits",
            "target": y,
            "sensitive": z,
            "y_classes": 2,
            "z_classes": 2,
            "rows": {"classifiers": 599, "perturber": 599, "test": 599},
            "clusters": None,
        },
        "findings": [one.as_json() for one in found],
        "warnings": ["Too few people: 30 are needed."],
        "intervals": "Wilson",
        "not_covered": ["Several releases of the same reading."],
        "budget": "quick",
        "seed": 0,
        "versions": versions,
        "machine": machine,
        "wall_time_s": 26.2,
    }
    asked = Limits(target_accuracy=0.5)
    made["verdict"] = judge(made, limits_of(asked))
    return {**made, "limits": held_to(asked, made["verdict"])}


def schema_1(made: dict) -> dict:
    """The document's findings about attacks and probes as an audit of schema 1 had them, without a verdict."""
    described = {name: value for name, value in made.items() if name not in ("findings", "verdict", "limits")}
    return copy.deepcopy({**described, **audit_rows.fields(made), "schema": 1})


def before(made: dict) -> dict:
    """The document as it was made before it had upper ends, the settings of attacks and a verdict, as schema 1."""
    old = schema_1(made)
    for part in (old, old["label_only"]):
        del part["permutation"], part["parts"]
        part.pop("what_else", None)
        for one in (*part["adversaries"], part["worst_adaptive"], part["most_bits"]):
            for name in ("learned_on", "bits_counted_high", "balanced_low", "balanced_high"):
                one.pop(name, None)
    return old


READER, COUNTED = {"kind": "reader"}, {"kind": "certificate"}


def other_attributes() -> list[Finding]:
    def label(name: str, classes: int, bits: float, ordered: bool) -> list[Finding]:
        more = {"kind": "label", "classes": classes, "ordered": ordered, "questions": 520 if classes > 2 else 1}
        facts = {"learned_on": "crossed"}
        return [
            Finding.measured(name, "code counts", "right", around(0.51), null=0.21, more=more, **facts),
            Finding.measured(name, "code counts", "bits-counted", around(bits), null=0.0, more=more, **facts),
        ]

    def side(name: str, words: str, auc: float, bits: float, p: float, *, below: bool = False) -> list[Finding]:
        more = {"kind": "side", "about": words, "threshold": below, "read": bits > 0.02}
        facts = {"learned_on": "crossed", "p": p, "more": {**more, **({"worst": True} if below else {})}}
        return [
            Finding.measured(name, "code counts", "auc", around(auc), null=0.5, **facts),
            Finding.measured(name, "code counts", "bits-counted", around(bits), null=0.0, **facts),
        ]

    return [
        *label("less-than-five", 2, 0.0, False),
        *side("less-than-five", "less-than-five itself", 0.53, 0.0, 0.7),
        *label("digit", 10, 0.9, True),
        *side("digit", "whether digit is one of 0 and 3", 0.79, 0.2, 0.004),
        *side("digit", "whether digit is below 3", 0.8, 0.21, 0.004, below=True),
        Finding("colour", "", not_run="it follows from y", more={"kind": "label"}),
    ]


def around(value: float) -> Interval:
    return Interval(value, value - 0.02, value + 0.02)


def collateral() -> list[Finding]:
    """What is kept of a further property, and what is read of it."""
    more = {"kind": "collateral"}
    return [
        Finding.measured("ink", "x to x'", "correlation", Interval(0.82, 0.8, 0.84), null=0.0, more=more),
        Finding.measured("ink", "read from it", "correlation", Interval(0.77, 0.74, 0.8), null=0.0, more=more),
    ]
