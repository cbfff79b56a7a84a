"""The tables of a manifest of schema 1; ``docs/reference/bundle-format.md`` describes it.

Everything that the runtime later relies on is checked here, once, before a model byte is read: keys, types and limits
of every section by one table (``util.validate``), the stages and outputs (``manifest.dataflow``), and that every name
that one section uses exists in another. Unknown keys are refused at every level: a key that is ignored is a promise
not kept.
"""

import re
from typing import Any, Dict, Iterable, List, Mapping, Set

from edgeveil.edge_runtime.kinds import formats
from edgeveil.edge_runtime.manifest import columns
from edgeveil.edge_runtime.manifest.capture import CAPTURE, SERIES, pipeline_sha256, series_problems
from edgeveil.edge_runtime.manifest.dataflow import COMPILED, DTYPES, KEY, Dataflow, compiled_problems
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES, MAX_MEMBERS, checked_name, detector_field
from edgeveil.edge_runtime.manifest.manifest import MOST_CLASSES, SENSORS, Manifest, parse
from edgeveil.edge_runtime.util import validate as field
from edgeveil.edge_runtime.util.validate import Field, Problem, Table

MAX_VOTES = 1000
MAX_PERIOD_S = 86400
MAX_GAP = 1000
MAX_DRAWS = 1000
MAX_MANIFEST_BYTES = 2**20
SCHEMA = 1
RUNTIME_MEMBER = "runtime/edgeveil-edge.pyz"
PRIVACY_MEMBER = "privacy/audit.json"
CARD_MEMBER = "privacy/privacy.json"
PAGE_MEMBER = "privacy/card.html"
COUNTERSIGNATURE_MEMBER = "privacy/countersignature.json"
PRIVACY_FILES = {"file": PRIVACY_MEMBER, "card": CARD_MEMBER, "page": PAGE_MEMBER}
NO_MODEL = "numpy"  # the one variant of a pipeline without models, in golden outputs and in the privacy card
# And what the zero point of a quantised one may be.
TENSOR_DTYPES: Dict[str, Any] = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
TENSOR_DTYPES.update(dict.fromkeys(("int32", "int64", "float16", "float32")))

_CREATED = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z")
_RANKS = {"image": 3, "vector": 1, "series": 2}


def member(folder: str = "") -> Field:
    """The name of a file of the bundle, in one of its folders."""

    def there(name: str, _owner: Any, _document: Any) -> Iterable[Problem]:
        checked_name(name.encode("utf-8"))
        if folder and not name.startswith(folder + "/"):
            yield "bad-value", "", "expected a file under {}/, got {}".format(folder, field.show(name))

    return field.text(rule=there)


# The manifest's ``input``.


def _input(source: Dict[str, Any], _document: Any) -> Table:
    if source.get("kind") == "vector":
        names = {"features?": lambda vector, _: field.each(field.text(), *vector["shape"] * 2, rule=_apart)}
        return dict(_INPUT, **names, **{"table?": columns.TABLE})
    return dict(_INPUT, series=field.record(SERIES)) if source.get("kind") == "series" else _INPUT


def _apart(names: List[str], _source: Any, _document: Any) -> Iterable[Problem]:
    if len(set(names)) != len(names):
        yield "redefined-value", "", "two features have the same name"


def _ranged(source: Dict[str, Any], manifest: Any, document: Any) -> Iterable[Problem]:
    yield from field.rising(source, manifest, document)
    if source["low"] is None and (source["kind"] != "vector" or not source["dtype"].startswith("float")):
        yield "bad-value", "low", "only vectors of float32 or float64 may have no range"
    if "series" in source:
        yield from series_problems(source)


_INPUT: Table = {
    "sensor?": field.one_of(SENSORS),  # not in bundles of 0.1
    "name": field.identifier(),
    "kind": field.one_of(_RANKS),
    "shape": lambda source, _: field.shape(_RANKS[source["kind"]], _RANKS[source["kind"]]),
    "dtype": field.one_of(DTYPES),
    "low": field.bounds,
    "high": field.bounds,
}


# The manifest's ``stream``: how the frames of a camera are held together, null for single frames.
#
# ``track``: ``votes`` frames decide a track's class. ``period``: ``period_s`` seconds share a draw. ``bout``: a class
# keeps a draw until ``gap`` frames in a row were of other classes. ``frame``: nothing is held. The maker has
# ``acknowledged`` the last two. ``draws``: the first frames of a track or period, so many, are each drawn for, and then
# the last one's is held; without a promise of epsilon the maker has acknowledged that, too.


_HELD_BY = {"votes": ("track",), "period_s": ("period",), "acknowledged": ("bout", "frame")}


def _stream(stream: Dict[str, Any], _document: Any) -> Table:
    hold = stream.get("hold")
    if hold == "bout":
        return dict(_STREAM, gap=field.whole(1, MAX_GAP))
    several = "draws" in stream and hold in ("track", "period")
    return dict(_STREAM, draws=field.whole(2, MAX_DRAWS), acknowledged=_SEVERAL) if several else _STREAM


def _of_others(hold: str, stream: Dict[str, Any], _document: Any) -> Iterable[Problem]:
    for key, holds in _HELD_BY.items():
        if hold not in holds and stream[key] is not None and (key, "draws" in stream) != ("acknowledged", True):
            yield "bad-value", key, "expected null where the stream is held by {}".format(hold)


def _where_held(key: str, of: Field) -> Any:
    return lambda stream, _: of if stream["hold"] in _HELD_BY[key] else field.ANY


def _reasoned(reason: str, stream: Dict[str, Any], _document: Any) -> Iterable[Problem]:
    if not reason:
        problem = "expected the maker's reason to release a code for every {}"
        yield "bad-value", "", problem.format(stream["hold"])


def _promised(reason: Any, _stream: Any, document: Any) -> Iterable[Problem]:
    if not reason and "spending" not in document:
        yield "bad-value", "", "expected the maker's reason to draw several times without a promise of epsilon"


_SEVERAL = field.text(null=True, rule=_promised)
_STREAM: Table = {
    "hold": field.one_of(("track", "period", "bout", "frame"), rule=_of_others),
    "votes": _where_held("votes", field.whole(1, MAX_VOTES)),
    "period_s": _where_held("period_s", field.whole(1, MAX_PERIOD_S)),
    "acknowledged": _where_held("acknowledged", field.text(rule=_reasoned)),
}


# The manifest's ``models`` and ``tables``.


def _limits(tensor: Dict[str, Any]) -> Any:
    """Those of the zero point; None where the tensor is not quantised."""
    free = tensor["scale"] is None and tensor["zero_point"] is None
    return None if free else TENSOR_DTYPES[tensor["dtype"]]


def _quantised(dtype: str, tensor: Dict[str, Any], _document: Any) -> Iterable[Problem]:
    if TENSOR_DTYPES[dtype] is None and (tensor["scale"], tensor["zero_point"]) != (None, None):
        yield "bad-value", "scale", "expected null for {}, as for its zero_point".format(dtype)


def _named_apart(tensors: List[Dict[str, Any]], _artefact: Any, _document: Any) -> Iterable[Problem]:
    names: Set[str] = set()
    for tensor in tensors:
        if tensor["name"] in names:
            yield "redefined-value", "", "two are called '{}'".format(tensor["name"])
        names.add(tensor["name"])


def _variants(artefacts: Dict[str, Any], _model: Any, _document: Any) -> Iterable[Problem]:
    for variant, artefact in artefacts.items():
        begins = "{}-{}".format(artefact["format"], artefact["precision"])
        if KEY not in artefact and not variant.startswith(begins):
            yield "artefact-mismatch", variant, "expected a name that begins with {}".format(begins)
    yield from compiled_problems(artefacts)


def _same_variants(models: Dict[str, Any], _manifest: Any, _document: Any) -> Iterable[Problem]:
    for name, model in models.items():
        if sorted(model["artefacts"]) != variants_of(models):
            problem = "the models do not all have the same variants"
            yield "artefact-mismatch", name + ".artefacts", problem


def variants_of(models: Mapping[str, Any]) -> List[str]:
    """The variants that every model has, sorted."""
    return sorted(next(iter(models.values()))["artefacts"]) if models else []


_TENSOR: Table = {
    "name": field.identifier(),
    "tensor": field.text(),
    "shape": field.shape(0),
    "dtype": field.one_of(sorted(TENSOR_DTYPES), rule=_quantised),
    "scale": lambda tensor, _: field.positive() if _limits(tensor) else field.ANY,
    "zero_point": lambda tensor, _: field.whole(*_limits(tensor)) if _limits(tensor) else field.ANY,
}
_TENSORS = field.each(field.record(_TENSOR), 1, rule=_named_apart)
_ARTEFACT: Table = {
    "file": member("artefacts"),
    "format": lambda *_: field.one_of(formats()),
    "precision": field.one_of(("float32", "float16", "int8", "int16x8")),
    "sha256": field.sha256(),
    "weight_bytes": field.whole(0, MAX_BUNDLE_BYTES),
    "inputs": _TENSORS,
    "outputs": _TENSORS,
    "tolerance": field.record({"max_abs": field.real(0)}),
}
_MODEL: Table = {
    "macs": field.whole(),
    "parameters": field.whole(),
    "artefacts": field.mapping(field.record(dict(_ARTEFACT, **{KEY + "?": field.record(COMPILED)})), 1, rule=_variants),
}
_TABLE: Table = {"file": member("tables"), "shape": field.shape(), "dtype": field.one_of(("uint32",) + DTYPES)}


# The manifest's ``spending`` (``manifest.spending``), and ``training``: what a bundle promises the people it was
# trained on, and what of it depends on them. Nothing on a device can check that: the privacy card says it where every
# mark is public or private.


UNITS = ("release", "track", "subject")
_SPENDING: Table = {
    "micro_epsilon": field.whole(1),
    "unit": field.one_of(UNITS),
    "most_micro_epsilon": lambda spending, _: field.whole(spending["micro_epsilon"]),
    "period_s": field.positive(null=True),
}
_MARKS: Table = {
    "models": field.mapping(field.text()),
    "tables": field.mapping(field.text()),
    "range": field.text(),
    "calibration": field.text(),
}
_TRAINING: Table = {
    "epsilon": field.positive(),
    "delta": field.positive(1),
    "unit": field.one_of(("subject", "row")),
    "neighbours": field.one_of(("add or remove", "replace")),
    "marks": field.record(_MARKS),
}


# The manifest's ``privacy``: the card refers to variants of this bundle, model by model, by the hash of each artefact.


def _privacy(privacy: Dict[str, Any], _document: Any) -> Table:
    if privacy.get("file") is None:
        return _NO_AUDIT
    files = dict(
        PRIVACY_FILES, **({"countersignature": COUNTERSIGNATURE_MEMBER} if "countersignature" in privacy else {})
    )
    return dict(_AUDITED, **{key: _privacy_file(name) for key, name in files.items()})


def _privacy_file(wanted: str) -> Field:
    def there(name: str, privacy: Any, document: Any) -> Iterable[Problem]:
        # Mypy takes the rule for optional: a field of ``member`` has one.
        yield from member("privacy").rule(name, privacy, document)  # type: ignore[misc]
        if name != wanted:
            yield "bad-value", "", "expected '{}'; without an audit, null".format(wanted)

    return field.text(rule=there)


def _unaudited(privacy: Dict[str, Any], _manifest: Any, _document: Any) -> Iterable[Problem]:
    if privacy["file"] is None:
        for key, empty in (("card", None), ("page", None), ("speaks_of", {}), ("pipeline", {})):
            if privacy[key] != empty:
                yield "privacy-mismatch", key, "expected nothing: there is no audit"


_NO_AUDIT: Table = {
    "file": field.ANY,
    "card": field.ANY,
    "page": field.ANY,
    "speaks_of": field.mapping(field.ANY),
    "pipeline": field.mapping(field.ANY),
}
_AUDITED: Table = {"speaks_of": field.mapping(field.mapping(field.sha256())), "pipeline": field.mapping(field.sha256())}


# The whole of it.


def _count(manifest: Any, document: Any) -> Field:
    from edgeveil.edge_runtime.manifest.count import count_field  # few bundles count: the others start sooner

    return count_field(manifest, document)


_PERTURBER: Table = {
    "kind": field.identifier(),
    "identity_allowed": field.truth(),
    "substituted": field.truth(),
    "target": field.text(),
    "sensitive": field.text(),
    "target_classes": field.each(field.text(), 0, MOST_CLASSES),
}
_PROVENANCE: Table = {
    "edgeveil": field.text(),
    "recipe_sha256": field.sha256(),
    "packages": field.mapping(field.text(), 0, 256),
}
_GOLDEN: Table = {
    "input": member("golden"),
    "draws": field.mapping(member("golden")),
    "outputs": field.mapping(field.mapping(member("golden"))),
}
_MEMBER: Table = {"name": member(), "size": field.whole(1, MAX_BUNDLE_BYTES), "sha256": field.sha256()}
_MANIFEST: Table = {
    "schema": field.whole(SCHEMA, SCHEMA),
    "name": field.identifier(),
    "created": field.spelled(_CREATED, "a time as 2026-11-21T12:00:00Z"),
    "development": field.truth(),
    "security_version": field.whole(0, 2**31 - 1),
    "audience": field.text(),
    "perturber": field.record(_PERTURBER),
    "provenance": field.record(_PROVENANCE),
    "input": field.record(_input, rule=_ranged),
    "capture": CAPTURE,
    "stream": field.record(_stream, null=True),
    "count?": _count,
    "detector?": detector_field(field.record(dict(_ARTEFACT, **{KEY + "?": field.ANY})), member("golden")),
    "tables": field.mapping(field.record(_TABLE)),
    "models": field.mapping(field.record(_MODEL), rule=_same_variants),
    "stages": field.ANY,
    "outputs": field.ANY,
    "spending?": field.record(_SPENDING),
    "training?": field.record(_TRAINING),
    "preference": lambda _, document: field.each(field.identifier(), 1 if document["models"] else 0),
    "profiles": field.mapping(
        field.record({"artefacts": field.each(field.identifier()), "backends": field.each(field.identifier())})
    ),
    "golden": field.record(_GOLDEN),
    "privacy": field.record(_privacy, rule=_unaudited),
}
_SEALED: Table = dict(_MANIFEST, members=field.each(field.record(_MEMBER), 1, MAX_MEMBERS))


def check_manifest(manifest: Any, sealed: bool = True) -> Manifest:
    """The records of a manifest's JSON; raises ``BundleRefused`` unless a pipeline can be made of it.

    ``sealed`` is False for the manifest of an export folder, which has no ``members`` yet and may lack its audit.
    """
    if type(manifest) is dict and manifest.get("schema", SCHEMA) != SCHEMA:
        problem = "this runtime reads schema {}, not {}: use the EdgeVeil that made it"
        field.refuse("schema", "schema", problem.format(SCHEMA, field.show(manifest["schema"])))
    field.check(manifest, "the manifest", field.record(_SEALED if sealed else _MANIFEST))
    flow = Dataflow(manifest)
    flow.walk()
    flow.check_outputs()
    if "spending" in manifest:
        from edgeveil.edge_runtime.manifest import outlets
        from edgeveil.edge_runtime.manifest.spending import check_covered

        check_covered(manifest["stages"], outlets.values(manifest))
    field.follow(_problems(manifest, flow, sealed))
    return parse(manifest)


def referenced_files(manifest: Dict[str, Any]) -> List[str]:
    """The names of all members that a checked manifest refers to, without the runtime, sorted."""
    files = {table["file"] for table in manifest["tables"].values()}
    for model in manifest["models"].values():
        files.update(artefact["file"] for artefact in model["artefacts"].values())
    if "detector" in manifest:
        files.update((manifest["detector"]["artefact"]["file"], *manifest["detector"]["golden"].values()))
    golden = manifest["golden"]
    files.add(golden["input"])
    files.update(golden["draws"].values())
    for outputs in golden["outputs"].values():
        files.update(outputs.values())
    privacy = manifest["privacy"]
    files.update(privacy[key] for key in (*PRIVACY_FILES, "countersignature") if privacy.get(key))
    return sorted(files)


def _problems(manifest: Dict[str, Any], flow: Dataflow, sealed: bool) -> Iterable[Problem]:
    """Where sections of a manifest do not agree with each other."""
    variants = variants_of(manifest["models"])
    ran = variants or [NO_MODEL]
    if manifest["input"]["low"] is None and "frame" in flow.outputs and not manifest["perturber"]["identity_allowed"]:
        problem = "without a range an unchanged frame cannot be detected: identity_allowed is false"
        yield "bad-value", "input.low", problem
    for what, used in (("models", flow.used_models), ("tables", flow.used_tables)):
        for name in sorted(set(manifest[what]) - used):
            yield "unused", "{}.{}".format(what, name), "no stage uses it"
    yield from _chosen(manifest["preference"], "preference", variants)
    for name, profile in manifest["profiles"].items():
        yield from _chosen(profile["artefacts"], "profiles.{}.artefacts".format(name), variants)
    golden = manifest["golden"]
    yield from _same(golden["draws"], "golden.draws", flow.draws)
    yield from _same(golden["outputs"], "golden.outputs", ran)
    for variant, recorded in golden["outputs"].items():
        yield from _same(recorded, "golden.outputs." + variant, flow.outputs)
    if manifest["privacy"]["file"] is not None:
        yield from _audited(manifest, ran)
    if sealed:
        yield from _packed(manifest)


def _chosen(chosen: List[str], at: str, variants: List[str]) -> Iterable[Problem]:
    for place, variant in enumerate(chosen):
        if variant not in variants:
            yield "unknown-artefact", "{}[{}]".format(at, place), "no model has a variant '{}'".format(variant)
    if len(set(chosen)) != len(chosen):
        yield "redefined-value", at, "a variant is listed twice"


def _same(got: Mapping[str, Any], at: str, wanted: List[str]) -> Iterable[Problem]:
    if set(got) != set(wanted):
        yield "golden-mismatch", at, "expected entries for {}".format(", ".join(sorted(wanted)) or "nothing")


def _audited(manifest: Dict[str, Any], variants: List[str]) -> Iterable[Problem]:
    """The audit covers variants of this bundle, and all models of each."""
    models, privacy = manifest["models"], manifest["privacy"]
    if not privacy["speaks_of"]:
        yield "privacy-mismatch", "privacy.speaks_of", "the audit must cover at least one artefact"
    for variant, hashes in privacy["speaks_of"].items():
        at = "privacy.speaks_of." + variant
        if variant not in variants:
            yield "privacy-mismatch", at, "no model has such a variant"
        if set(hashes) != set(models):
            yield "privacy-mismatch", at, "expected the hashes of all models and no others"
        for model, value in hashes.items():
            if value != models[model]["artefacts"][variant]["sha256"]:
                problem = "the audit is of another artefact: audit this one"
                yield "privacy-mismatch", "{}.{}".format(at, model), problem
    if set(privacy["pipeline"]) != set(privacy["speaks_of"]):
        problem = "expected the hash of the pipeline of each variant audited"
        yield "privacy-mismatch", "privacy.pipeline", problem


def _packed(manifest: Dict[str, Any]) -> Iterable[Problem]:
    """Members are exactly the runtime and the files referred to, sorted by name, with the hashes of the artefacts.

    The audited pipelines are those of this bundle, down to the tables and the order of the stages.
    """
    hashes = {one["name"]: one["sha256"] for one in manifest["members"]}
    names = [one["name"] for one in manifest["members"]]
    for place, name in enumerate(names):
        if place and not names[place - 1] < name:
            problem = "the names must be distinct and sorted; {} is not in order"
            yield "member-order", "members[{}]".format(place), problem.format(field.show(name))
    expected = {RUNTIME_MEMBER, *referenced_files(manifest)}
    for name in sorted(expected - set(names)):
        yield "missing-member", "members", "there is no {}".format(name)
    for name in names:
        if name not in expected:
            yield "extra-member", "members", "nothing refers to {}".format(field.show(name))
    for name, model in manifest["models"].items():
        for variant, artefact in model["artefacts"].items():
            if artefact["sha256"] != hashes[artefact["file"]]:
                at = "models.{}.artefacts.{}.sha256".format(name, variant)
                yield "artefact-hash", at, "it is not the hash of the member {}".format(artefact["file"])
    detector = manifest.get("detector")
    if detector is not None and detector["artefact"]["sha256"] != hashes[detector["artefact"]["file"]]:
        yield "artefact-hash", "detector.artefact.sha256", "it is not the hash of its member"
    tables = {name: hashes[table["file"]] for name, table in manifest["tables"].items()}
    for variant, value in manifest["privacy"]["pipeline"].items():
        if value != pipeline_sha256(manifest, variant, tables):
            problem = "the audit is of other stages or tables: audit these"
            yield "privacy-mismatch", "privacy.pipeline." + variant, problem
