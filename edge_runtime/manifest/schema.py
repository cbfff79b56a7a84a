"""Checks a manifest of schema 1, key by key; ``docs/reference/bundle-format.md`` describes it.

Everything that the runtime later relies on is checked here, once, before a model byte is read: keys, types and limits
of every section (``formats.validate``), the stages and outputs (``manifest.dataflow``), and that every name that one
section uses exists in another. Unknown keys are refused at every level: a key that is ignored is a promise not kept.
"""

import re
from typing import Any, Dict, List, Set

from edgeveil.edge_runtime.kinds import formats
from edgeveil.edge_runtime.manifest.capture import FURTHER, pipeline_sha256
from edgeveil.edge_runtime.manifest.dataflow import DTYPES, KEY, Dataflow, check_compiled
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES, MAX_MEMBERS, checked_name
from edgeveil.edge_runtime.manifest.manifest import SENSORS, Manifest, parse
from edgeveil.edge_runtime.util.validate import (
    bounds,
    each,
    fields,
    identifier,
    mapping,
    one_of,
    positive,
    real,
    record,
    refuse,
    sequence,
    sha256,
    shape,
    show,
    text,
    truth,
    whole,
)

# The manifest's ``stream``: how the frames of a camera are held together, null for single frames.


MAX_VOTES = 1000
MAX_PERIOD_S = 86400
MAX_GAP = 1000


def check_stream(stream: Any) -> None:
    """Raise ``BundleRefused`` unless this is null or says how a stream is held, with the keys for that and no others.

    ``track``: ``votes`` frames decide a track's class. ``period``: ``period_s`` seconds share a draw. ``bout``: a
    class keeps a draw until ``gap`` frames in a row were of other classes. ``frame``: nothing is held. The maker has
    ``acknowledged`` the last two.
    """
    if stream is None:
        return
    bout = type(stream) is dict and stream.get("hold") == "bout"
    record(stream, "stream", ("hold", "votes", "period_s", "acknowledged") + (("gap",) if bout else ()))
    hold = one_of(stream["hold"], "stream.hold", ("track", "period", "bout", "frame"))
    belongs = {"votes": ("track",), "period_s": ("period",), "acknowledged": ("bout", "frame")}
    for key, to in belongs.items():
        if hold not in to and stream[key] is not None:
            refuse("bad-value", "stream." + key, "expected null where the stream is held by {}".format(hold))
    if hold == "track":
        whole(stream["votes"], "stream.votes", 1, MAX_VOTES)
    elif hold == "period":
        whole(stream["period_s"], "stream.period_s", 1, MAX_PERIOD_S)
    else:
        _check_acknowledged(stream["acknowledged"], hold)
    if hold == "bout":
        whole(stream["gap"], "stream.gap", 1, MAX_GAP)


def _check_acknowledged(reason: Any, hold: str) -> None:
    if not text(reason, "stream.acknowledged"):
        problem = "expected the maker's reason to release a code for every {}".format(hold)
        refuse("bad-value", "stream.acknowledged", problem)


# The main part, described by the docstring.


MAX_MANIFEST_BYTES = 2**20
SCHEMA = 1
RUNTIME_MEMBER = "runtime/edgeveil-edge.pyz"
PRIVACY_MEMBER = "privacy/audit.json"
CARD_MEMBER = "privacy/privacy.json"
PAGE_MEMBER = "privacy/card.html"
COUNTERSIGNATURE_MEMBER = "privacy/countersignature.json"
PRIVACY_FILES = {"file": PRIVACY_MEMBER, "card": CARD_MEMBER, "page": PAGE_MEMBER}
NO_MODEL = "numpy"  # the one variant of a pipeline without models, in golden outputs and in the privacy card
TENSOR_DTYPES = {"int8": (-128, 127), "uint8": (0, 255), "int32": None, "int64": None, "float16": None, "float32": None}

_WHAT_IT_IS = ("schema", "name", "created", "development", "security_version", "audience", "perturber", "provenance")
_WHAT_IT_DOES = (
    "input", "capture", "stream", "stages", "outputs", "models", "preference", "profiles", "tables", "golden",
    "privacy",
)  # fmt: skip
_ARTEFACT_KEYS = ("file", "format", "precision", "sha256", "weight_bytes", "inputs", "outputs", "tolerance")
_CREATED = re.compile(r"20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z")


def check_manifest(manifest: Any, sealed: bool = True) -> Manifest:
    """The records of a manifest's JSON; raises ``BundleRefused`` unless a pipeline can be made of it.

    ``sealed`` is False for the manifest of an export folder, which has no ``members`` yet and may lack its audit.
    """
    if type(manifest) is dict and manifest.get("schema", SCHEMA) != SCHEMA:
        problem = "this runtime reads schema {}, not {}: use the EdgeVeil that made it"
        refuse("schema", "schema", problem.format(SCHEMA, show(manifest["schema"])))
    # What is promised to the people of the training data says nothing of the pipeline: its hash leaves that out.
    further = tuple(part for part in FURTHER + ("training",) if type(manifest) is dict and part in manifest)
    record(manifest, "the manifest", _WHAT_IT_IS + _WHAT_IT_DOES + further + (("members",) if sealed else ()))
    _check_head(manifest)
    _check_input(manifest["input"])
    # What not every bundle has is imported where it is there: the others start sooner.
    if manifest["capture"] is not None:
        from edgeveil.edge_runtime.manifest.capture import check_capture

        check_capture(manifest["capture"], manifest["input"])
    check_stream(manifest["stream"])
    if "count" in further:
        from edgeveil.edge_runtime.manifest.count import check_count

        check_count(manifest["count"], manifest["capture"], detector="detector" in further)
    if "detector" in further:
        if "count" not in further:
            refuse("bad-value", "detector", "expected a count of the people that it finds")
        from edgeveil.edge_runtime.manifest.detector import check_detector, check_golden

        check_detector(manifest["detector"], manifest["capture"], _check_one_artefact)
        check_golden(manifest["detector"]["golden"], lambda file, at: _check_file(file, at, "golden"))
    _check_tables(manifest["tables"])
    variants = _check_models(manifest["models"])
    flow = Dataflow(manifest)
    flow.walk(manifest["stages"])
    outputs = flow.check_outputs(manifest["outputs"])
    if "spending" in further:
        from edgeveil.edge_runtime.manifest import outlets
        from edgeveil.edge_runtime.manifest.spending import check_covered, check_spending

        check_spending(manifest["spending"])
        check_covered(manifest["stages"], outlets.values(manifest))
    if "training" in further:
        check_training(manifest["training"])
    if manifest["input"]["low"] is None and "frame" in outputs and not manifest["perturber"]["identity_allowed"]:
        refuse(
            "bad-value", "input.low", "without a range an unchanged frame cannot be detected: identity_allowed is false"
        )
    _check_all_used("models", manifest["models"], flow.used_models)
    _check_all_used("tables", manifest["tables"], flow.used_tables)
    _check_choices(manifest, variants)
    _check_golden(manifest["golden"], flow.draws, variants or [NO_MODEL], outputs)
    _check_privacy(manifest, variants or [NO_MODEL])
    if sealed:
        _check_members(manifest)
        _check_pipeline(manifest)
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


def _check_head(manifest: Dict[str, Any]) -> None:
    whole(manifest["schema"], "schema", SCHEMA, SCHEMA)
    identifier(manifest["name"], "name")
    if not _CREATED.fullmatch(text(manifest["created"], "created")):
        expected = "expected a time as 2026-11-21T12:00:00Z, got {}"
        refuse("bad-value", "created", expected.format(show(manifest["created"])))
    truth(manifest["development"], "development")
    whole(manifest["security_version"], "security_version", 0, 2**31 - 1)
    text(manifest["audience"], "audience")
    fields(
        manifest["perturber"],
        "perturber",
        kind=identifier,
        identity_allowed=truth,
        substituted=truth,
        target=text,
        sensitive=text,
        target_classes=lambda names, at: each(names, at, text, 0, 4096),
    )
    fields(manifest["provenance"], "provenance", edgeveil=text, recipe_sha256=sha256, packages=_check_packages)


def _check_packages(packages: Any, at: str) -> None:
    for name, version in mapping(packages, at, 0, 256).items():
        text(version, "{}.{}".format(at, name))


def _check_input(source: Any) -> None:
    named = type(source) is dict and "sensor" in source  # not in bundles of 0.1
    series = type(source) is dict and source.get("kind") == "series"
    further = (("sensor",) if named else ()) + (("series",) if series else ())
    record(source, "input", ("name", "kind", "shape", "dtype", "low", "high") + further)
    if named:
        one_of(source["sensor"], "input.sensor", SENSORS)
    identifier(source["name"], "input.name")
    kind = one_of(source["kind"], "input.kind", ("image", "vector", "series"))
    rank = {"image": 3, "vector": 1, "series": 2}[kind]
    shape(source["shape"], "input.shape", rank, rank)
    one_of(source["dtype"], "input.dtype", DTYPES)
    bounds(source, "input", source["shape"][-1])
    if source["low"] is None and (kind != "vector" or not source["dtype"].startswith("float")):
        refuse("bad-value", "input.low", "only vectors of float32 or float64 may have no range")
    if series:
        from edgeveil.edge_runtime.manifest.capture import check_sampling

        check_sampling(source)


def _check_tables(tables: Any) -> None:
    for name, table in mapping(tables, "tables").items():
        at = "tables." + name
        record(table, at, ("file", "shape", "dtype"))
        _check_file(table["file"], at + ".file", "tables")
        shape(table["shape"], at + ".shape")
        one_of(table["dtype"], at + ".dtype", ("uint32",) + DTYPES)


def _check_models(models: Any) -> List[str]:
    """The variants that every model has, sorted."""
    variants = None
    for name, model in mapping(models, "models").items():
        at = "models." + name
        record(model, at, ("macs", "parameters", "artefacts"))
        whole(model["macs"], at + ".macs")
        whole(model["parameters"], at + ".parameters")
        mapping(model["artefacts"], at + ".artefacts", 1)
        for variant, artefact in model["artefacts"].items():
            _check_artefact(artefact, "{}.artefacts.{}".format(at, variant), variant)
        check_compiled(model["artefacts"], at + ".artefacts")
        here = sorted(model["artefacts"])
        if variants not in (None, here):
            refuse("artefact-mismatch", at + ".artefacts", "the models do not all have the same variants")
        variants = here
    return variants or []


def _check_one_artefact(artefact: Any, at: str) -> None:
    named = type(artefact) is dict and {"format", "precision"} <= set(artefact)
    _check_artefact(artefact, at, "{}-{}".format(artefact["format"], artefact["precision"]) if named else "")


def _check_artefact(artefact: Any, at: str, variant: str) -> None:
    record(artefact, at, _ARTEFACT_KEYS + ((KEY,) if type(artefact) is dict and KEY in artefact else ()))
    _check_file(artefact["file"], at + ".file", "artefacts")
    kind = one_of(artefact["format"], at + ".format", formats())
    precision = one_of(artefact["precision"], at + ".precision", ("float32", "float16", "int8"))
    if KEY not in artefact and not variant.startswith("{}-{}".format(kind, precision)):
        refuse("artefact-mismatch", at, "expected a name that begins with {}-{}".format(kind, precision))
    sha256(artefact["sha256"], at + ".sha256")
    whole(artefact["weight_bytes"], at + ".weight_bytes", 0, MAX_BUNDLE_BYTES)
    for end in ("inputs", "outputs"):
        names: Set[str] = set()
        for name in each(artefact[end], "{}.{}".format(at, end), _check_tensor, 1):
            if name in names:
                refuse("redefined-value", "{}.{}".format(at, end), "two are called '{}'".format(name))
            names.add(name)
    fields(artefact["tolerance"], at + ".tolerance", max_abs=lambda number, place: real(number, place, 0))


def _check_tensor(tensor: Any, at: str) -> str:
    """The name of a checked tensor."""
    record(tensor, at, ("name", "tensor", "shape", "dtype", "scale", "zero_point"))
    name = identifier(tensor["name"], at + ".name")
    text(tensor["tensor"], at + ".tensor")
    shape(tensor["shape"], at + ".shape", 0)
    limits = TENSOR_DTYPES[one_of(tensor["dtype"], at + ".dtype", sorted(TENSOR_DTYPES))]
    if tensor["scale"] is None and tensor["zero_point"] is None:
        return name
    if limits is None:
        refuse("bad-value", at + ".scale", "expected null for {}, as for its zero_point".format(tensor["dtype"]))
    positive(tensor["scale"], at + ".scale")
    whole(tensor["zero_point"], at + ".zero_point", *limits)
    return name


def _check_choices(manifest: Dict[str, Any], variants: List[str]) -> None:
    preference = sequence(manifest["preference"], "preference", 1 if variants else 0)
    _check_variants(preference, "preference", variants)
    for name, profile in mapping(manifest["profiles"], "profiles").items():
        at = "profiles." + name
        record(profile, at, ("artefacts", "backends"))
        _check_variants(profile["artefacts"], at + ".artefacts", variants)
        each(profile["backends"], at + ".backends", identifier)


def _check_variants(chosen: Any, at: str, variants: List[str]) -> None:
    for place, variant in enumerate(sequence(chosen, at)):
        identifier(variant, "{}[{}]".format(at, place))
        if variant not in variants:
            refuse("unknown-artefact", "{}[{}]".format(at, place), "no model has a variant '{}'".format(variant))
    if len(set(chosen)) != len(chosen):
        refuse("redefined-value", at, "a variant is listed twice")


def _check_golden(golden: Any, draws: List[str], variants: List[str], outputs: List[str]) -> None:
    record(golden, "golden", ("input", "draws", "outputs"))
    _check_file(golden["input"], "golden.input", "golden")
    _check_same("golden.draws", mapping(golden["draws"], "golden.draws"), draws)
    for name, file in golden["draws"].items():
        _check_file(file, "golden.draws." + name, "golden")
    _check_same("golden.outputs", mapping(golden["outputs"], "golden.outputs"), variants)
    for variant, recorded in golden["outputs"].items():
        at = "golden.outputs." + variant
        _check_same(at, mapping(recorded, at), outputs)
        for name, file in recorded.items():
            _check_file(file, "{}.{}".format(at, name), "golden")


def _check_same(at: str, got: Dict[str, Any], wanted: List[str]) -> None:
    if set(got) != set(wanted):
        refuse("golden-mismatch", at, "expected entries for {}".format(", ".join(sorted(wanted)) or "nothing"))


def _check_privacy(manifest: Dict[str, Any], variants: List[str]) -> None:
    """The card refers to variants of this bundle, model by model, by the hash of each artefact."""
    files, given = dict(PRIVACY_FILES), manifest["privacy"]
    if type(given) is dict and given.get("file") is not None and "countersignature" in given:
        files["countersignature"] = COUNTERSIGNATURE_MEMBER  # absent, or of the audit
    privacy = record(manifest["privacy"], "privacy", tuple(files) + ("speaks_of", "pipeline"))
    speaks_of = mapping(privacy["speaks_of"], "privacy.speaks_of")
    pipeline = mapping(privacy["pipeline"], "privacy.pipeline")
    if privacy["file"] is None:
        for key, empty in (("card", None), ("page", None), ("speaks_of", {}), ("pipeline", {})):
            if privacy[key] != empty:
                refuse("privacy-mismatch", "privacy." + key, "expected nothing: there is no audit")
        return
    for key, name in files.items():
        _check_file(privacy[key], "privacy." + key, "privacy")
        if privacy[key] != name:
            refuse("bad-value", "privacy." + key, "expected '{}'; without an audit, null".format(name))
    if not speaks_of:
        refuse("privacy-mismatch", "privacy.speaks_of", "the audit must cover at least one artefact")
    for variant, hashes in speaks_of.items():
        at = "privacy.speaks_of." + variant
        if variant not in variants:
            refuse("privacy-mismatch", at, "no model has such a variant")
        if set(mapping(hashes, at)) != set(manifest["models"]):
            refuse("privacy-mismatch", at, "expected the hashes of all models and no others")
        for model, value in hashes.items():
            place = "{}.{}".format(at, model)
            if sha256(value, place) != manifest["models"][model]["artefacts"][variant]["sha256"]:
                refuse("privacy-mismatch", place, "the audit is of another artefact: audit this one")
    if set(pipeline) != set(speaks_of):
        refuse("privacy-mismatch", "privacy.pipeline", "expected the hash of the pipeline of each variant audited")
    for variant, value in pipeline.items():
        sha256(value, "privacy.pipeline." + variant)


def _check_pipeline(manifest: Dict[str, Any]) -> None:
    """The audited pipelines are those of this bundle, down to the tables and the order of the stages."""
    hashes = {member["name"]: member["sha256"] for member in manifest["members"]}
    tables = {name: hashes[table["file"]] for name, table in manifest["tables"].items()}
    for variant, value in manifest["privacy"]["pipeline"].items():
        if value != pipeline_sha256(manifest, variant, tables):
            at = "privacy.pipeline." + variant
            refuse("privacy-mismatch", at, "the audit is of other stages or tables: audit these")


def _check_file(name: Any, at: str, folder: str) -> None:
    checked_name(text(name, at).encode("utf-8"))
    if not name.startswith(folder + "/"):
        refuse("bad-value", at, "expected a file under {}/, got {}".format(folder, show(name)))


def _check_all_used(what: str, there: Dict[str, Any], used: Set[str]) -> None:
    for name in sorted(there):
        if name not in used:
            refuse("unused", "{}.{}".format(what, name), "no stage uses it")


def _check_members(manifest: Dict[str, Any]) -> None:
    """Members are exactly the runtime and the files referred to, sorted by name, with the artefacts' hashes."""
    hashes = {}
    names: List[str] = []
    for place, member in enumerate(sequence(manifest["members"], "members", 1, MAX_MEMBERS)):
        at = "members[{}]".format(place)
        record(member, at, ("name", "size", "sha256"))
        name = checked_name(text(member["name"], at + ".name").encode("utf-8"))
        whole(member["size"], at + ".size", 1, MAX_BUNDLE_BYTES)
        hashes[name] = sha256(member["sha256"], at + ".sha256")
        if names and not names[-1] < name:
            refuse("member-order", at, "the names must be distinct and sorted; {} is not in order".format(show(name)))
        names.append(name)
    expected = {RUNTIME_MEMBER, *referenced_files(manifest)}
    for name in sorted(expected - set(names)):
        refuse("missing-member", "members", "there is no {}".format(name))
    for name in names:
        if name not in expected:
            refuse("extra-member", "members", "nothing refers to {}".format(show(name)))
    for name, model in manifest["models"].items():
        for variant, artefact in model["artefacts"].items():
            if artefact["sha256"] != hashes[artefact["file"]]:
                at = "models.{}.artefacts.{}.sha256".format(name, variant)
                refuse("artefact-hash", at, "it is not the hash of the member {}".format(artefact["file"]))
    detector = manifest.get("detector")
    if detector is not None and detector["artefact"]["sha256"] != hashes[detector["artefact"]["file"]]:
        refuse("artefact-hash", "detector.artefact.sha256", "it is not the hash of its member")


# The manifest's ``training``: what a bundle promises the people it was trained on, and what of it depends on them.
#
# Nothing on a device can check it: the privacy card says it where every mark is public or private.


UNITS = ("subject", "row")
NEIGHBOURS = ("add or remove", "replace")


def check_training(training: Any) -> None:
    """Raise ``BundleRefused`` unless this is such a promise with its keys in their limits."""
    record(training, "training", ("epsilon", "delta", "unit", "neighbours", "marks"))
    positive(training["epsilon"], "training.epsilon")
    positive(training["delta"], "training.delta", 1)
    one_of(training["unit"], "training.unit", UNITS)
    one_of(training["neighbours"], "training.neighbours", NEIGHBOURS)
    marks = training["marks"]
    record(marks, "training.marks", ("models", "tables", "range", "calibration"))
    for kind in ("models", "tables"):
        for name, mark in mapping(marks[kind], "training.marks." + kind).items():
            text(mark, "training.marks.{}.{}".format(kind, name))
    for kind in ("range", "calibration"):
        text(marks[kind], "training.marks." + kind)
