"""An audit of invented numbers, shaped as the real one is, for tests of what is made from audits."""

import copy

from edgeveil.trainer.attacks.exposure import NOTHING
from edgeveil.trainer.attacks.findings import Curve, Findings, NotRun, Point, Row
from edgeveil.trainer.attacks.parts import Part
from edgeveil.trainer.audit.card import check, limits_of
from edgeveil.trainer.audit.document import Audited, environment
from edgeveil.trainer.audit.verdict import judge
from edgeveil.trainer.measures.attack_metrics import Chance, Permuted
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.recipe.training_sections import Limits


def row(name: str, kind: str, accuracy: float, *, validation: float | None = None, bits: float = 0.0) -> Row:
    return Row(
        name=name,
        kind=kind,
        learned_on="fresh" if kind == "adaptive" else "clean",
        seed=0,
        train_samples=982,
        accuracy=accuracy,
        low=accuracy - 0.02,
        high=min(1.0, accuracy + 0.02),
        auc=float("nan") if kind == "transfer" else 0.5,
        bits=bits,
        bits_low=bits - 0.01,
        bits_high=bits + 0.01,
        bits_counted=bits,
        bits_counted_low=bits - 0.01,
        bits_counted_high=bits + 0.01,
        validation_accuracy=accuracy if validation is None else validation,
        validation_bits=bits,
        seconds=1.5,
        balanced=accuracy - 0.1,
        balanced_low=accuracy - 0.12,
        balanced_high=min(1.0, accuracy - 0.08),
        balanced_chance=0.5,
        tpr=0.02,
        tpr_low=0.01,
        tpr_high=0.04,
        tpr_rows=290,
        tpr_p=0.6,
        worst_class=accuracy,
        worst_class_low=accuracy - 0.03,
        worst_class_high=min(1.0, accuracy + 0.03),
        worst_class_chance=0.5,
        worst_class_rows=290,
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
    points = tuple(Point(n, best - gap, best - gap - 0.02, best - gap + 0.02) for n, gap in ((491, 0.04), (982, 0.0)))
    curve = Curve("BatchNorm MLP", 0, points, 0.04, 0.01, 0.07, rising=True)
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
    made = {
        "schema": 1,
        "kind": "edgeveil-audit",
        "created": "2026-11-21T12:00:00Z",
        "artefact": "tflite-int8",
        "speaks_of": {"tflite-int8": {"generator": "ab" * 32}},
        "pipeline": {"tflite-int8": "cd" * 32},
        "backends": {"generator": {"backend": "ai-edge-litert", "version": "2.3"}},
        "perturber": "prgan",
        "data": {
            "name": "digits",
            "target": "parity",
            "sensitive": "less-than-five",
            "y_classes": 2,
            "z_classes": 2,
            "rows": {"classifiers": 599, "perturber": 599, "test": 599},
            "clusters": None,
        },
        **audited(best, bits, fixed, p).as_dict(),
        "what_else": what_else(),
        "raw": {
            "target": {"accuracy": 0.98, "low": 0.96, "high": 0.99},
            "sensitive": {"accuracy": 0.97, "low": 0.95, "high": 0.99},
        },
        "label_only": {**audited(0.6).as_dict(), "collateral": beside()},
        "certificate": {"given": False, "sentence": "No certificate: more of a reading leaves than a code."},
        "collateral": collateral(),
        "diagnostic": {
            "title": "model-relative diagnostic: shift of classifier D",
            "gamma": {"perturbed": {"mean": 0.1, "sup": 0.5}, "raw": {"mean": 0.4, "sup": 0.6}},
            "unseen_error": {"mean": 0.05, "sup": 0.9},
            "bound_mean": 0.4,
            "bound_sup": 1.0,
            "meaning": "no guarantee",
        },
        "intervals": "Wilson",
        "not_covered": ["Several releases of the same reading."],
        "budget": "quick",
        "seed": 0,
        "versions": versions,
        "machine": machine,
        "wall_time_s": 26.2,
    }
    asked = Limits(target_accuracy=0.5)
    for part in (made, made["label_only"]):
        part["verdict"] = judge(part, limits_of(asked), made["data"])
    return {**made, "limits": check(asked, made["verdict"])}


def before(document: dict) -> dict:
    """The document as it was made before it had upper ends, the settings of attacks and a verdict."""
    old = copy.deepcopy(document)
    old["limits"] = {"asked": {}, "found": {"attack_points": 35.0, "bits": 0.0}, "exceeded": []}
    for part in (old, old["label_only"]):
        del part["verdict"], part["permutation"], part["parts"]
        part.pop("what_else", None)
        for one in (*part["adversaries"], part["worst_adaptive"], part["most_bits"]):
            for name in ("learned_on", "bits_counted_high", "balanced_low", "balanced_high"):
                del one[name]
    return old


def what_else() -> dict:
    def spread(mean: float) -> dict:
        return {"mean": mean, "low": mean - 0.02, "high": mean + 0.02}

    def question(words: str, auc: float, bits: float, p: float | None = 0.004) -> dict:
        return {"question": words, "auc": spread(auc), "bits": spread(bits), "p": p, "read": bits > 0.02}

    def label(name: str, classes: int, bits: float, grouping: dict | None, threshold: dict | None) -> dict:
        return {
            "name": name,
            "classes": classes,
            "ordered": threshold is not None,
            "attack": "code counts",
            "learned_on": "crossed",
            "bits": spread(bits),
            "right": rate(0.51),
            "chance": 0.21,
            "questions": 520 if classes > 2 else 1,
            "worst_grouping": grouping,
            "worst_threshold": threshold,
        }

    below = question("whether digit is below 3", 0.8, 0.21)
    return {
        "questions": 521,
        "labels": [
            label("less-than-five", 2, 0.0, question("less-than-five itself", 0.53, 0.0, 0.7), None),
            label("digit", 10, 0.9, question("whether digit is one of 0 and 3", 0.79, 0.2), below),
        ],
        "skipped": [{"name": "colour", "reason": "y alone tells it"}],
        "worst": {"label": "digit", **below},
    }


def rate(accuracy: float) -> dict:
    return {"accuracy": accuracy, "low": accuracy - 0.02, "high": min(1.0, accuracy + 0.02)}


def learned(y: float, ink: float, *, both: bool = True) -> dict:
    score = {"y": rate(y), "attributes": {"ink": {"correlation": ink, "low": ink - 0.03, "high": ink + 0.03}}}
    more = {"read_from_it": score, "told_apart": rate(0.93)} if both else {}
    return {"train_on_it": score, **more}


def collateral() -> dict:
    spread = {"mean": 5.5, "low": 5.4, "high": 5.6}
    return {
        "rows": {"training": 1198, "test": 599},
        "attributes": {"ink": {"classes": 0, "named_by_recipe": False}},
        "chance": {},
        "perturbed": learned(0.91, 0.77),
        "kept": {"ink": {"correlation": 0.82, "low": 0.8, "high": 0.84}},
        "distance": spread,
        "alike": {"ssim": spread, "psnr_db": spread},
        "meaning": {"kept": "correlation"},
    }


def beside() -> dict:
    return {
        "raw": learned(0.98, 0.95, both=False),
        "label_only_mean": learned(0.6, 0.02),
        "label_only_donor": learned(0.97, 0.01),
    }
