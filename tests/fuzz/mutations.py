"""Ways to spoil a good bundle, as Hypothesis strategies: its bytes, its archive, its manifest's text, its meaning."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import strategies as st

from edgeveil.edge_runtime.bundle.reader import signature_member, signed_message
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.manifest.detector import MAX_MEMBERS
from edgeveil.edge_runtime.signing.ed25519 import L
from edgeveil.edge_runtime.signing.keys import Key
from tests.hostile_bundles.raw_zip import Entry, write
from tests.support import bundles
from tests.support.promised import local_examples


def _period_example() -> tuple[bundles.Manifest, bundles.Members]:
    """As ``held_example``, held for a day by the class that each frame shows, with a code within the class."""
    manifest, members = bundles.held_example()
    manifest["stream"] = {"hold": "period", "votes": None, "period_s": 86400, "acknowledged": None}
    preprocess, label, _, drawn, kept, *rest = manifest["stages"]
    within = {"stage": "table", "op": "argmax_within", "input": "u", "group": "label", "groups": 4, "output": "within"}
    drawn, kept = {**drawn, "input": "within"}, {**kept, "by": "label"}
    manifest["stages"] = [preprocess, label, within, drawn, kept, *rest]
    manifest["outputs"][1]["tensor"] = "label"
    return manifest, members


def _good() -> list[tuple[bundles.Manifest, bundles.Members]]:
    found = []
    for example in (
        bundles.numpy_example,
        bundles.artefact_example,
        bundles.channel_example,
        bundles.held_example,
        bundles.captured_example,
        bundles.fingerprint_example,
        bundles.laplace_example,
        bundles.cleaner_example,
        functools.partial(bundles.cleaner_example, code=True),
        _period_example,
        *(functools.partial(local_examples.example, op) for op in local_examples.OPS),
    ):
        manifest, members = example()
        found.append((bundles.with_members(manifest, members), members))
    return found


GOOD = _good()
GOOD_BYTES = [bundles.sealed(*good) for good in GOOD]
DEVELOPMENT = Ed25519PrivateKey.from_private_bytes(b"edgeveil tests: one to throw awa")
WEAK = (1).to_bytes(32, "little").hex()  # the neutral point: anyone can sign for it
TRUST = Trust(
    [bundles.trusted(), bundles.trusted(DEVELOPMENT, development=True), Key(WEAK, "weak", False)], floor=1, audience="x"
)
NUMBERS = [0, 1, 2, 8, 20, 33, 45, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF]
SIGNATURES = [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08"]

number = st.sampled_from(NUMBERS) | st.integers(0, 0xFFFFFFFF)
scrap = st.binary(max_size=8) | st.sampled_from(SIGNATURES) | number.map(lambda n: n.to_bytes(4, "little"))
name = st.sampled_from(
    [
        b"artefacts/a",
        b"a",
        b"",
        b"/a",
        b"../a",
        b"a/..",
        b"a\\b",
        b"a/",
        b"A",
        b"\xc3\xa9",
        b"a\x00",
        b"a" * 121,
        b"a//b",
    ]
) | st.binary(max_size=12)


@st.composite
def spoiled_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Some cuts, insertions, overwritten places and copies."""
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["cut", "drop", "insert", "write", "copy", "end"]))
        piece = draw(scrap)
        if kind == "cut":
            data = data[:place]
        elif kind == "drop":
            data = data[:place] + data[place + draw(st.integers(1, 40)) :]
        elif kind == "insert":
            data = data[:place] + piece + data[place:]
        elif kind == "write":
            data = data[:place] + piece + data[place + len(piece) :]
        elif kind == "copy":
            start = draw(st.integers(0, len(data)))
            data = data[:place] + data[start : start + draw(st.integers(1, 200))] + data[place:]
        else:
            data += piece
    return data


def signed(manifest: bytes, key: Ed25519PrivateKey = bundles.KEY) -> bytes:
    return signature_member(bundles.public_hex(key), key.sign(signed_message(manifest)))


@st.composite
def spoiled_signature(draw: st.DrawFn, manifest: bytes) -> bytes:
    """Of another key, of another text, of a key that anyone could sign with, in a second spelling, or just spoiled."""
    kind = draw(st.sampled_from(["key", "text", "weak", "spelling", "spoiled"]))
    if kind == "key":
        return signed(manifest, draw(st.sampled_from([bundles.STRANGER, DEVELOPMENT])))
    if kind == "text":
        return signed(draw(spoiled_bytes(manifest)))
    if kind == "weak":
        return signature_member(WEAK, bytes.fromhex(WEAK) + bytes(32))
    if kind == "spelling":
        true = bundles.KEY.sign(signed_message(manifest))
        s = int.from_bytes(true[32:], "little") + L * draw(st.integers(1, 14))
        return signature_member(bundles.public_hex(bundles.KEY), true[:32] + s.to_bytes(32, "little"))
    return draw(spoiled_bytes(signed(manifest)))


def entries(manifest: bytes, members: bundles.Members, signature: bytes | None = None) -> list[Entry]:
    """A bundle's members, truly signed unless ``signature`` is given."""
    signature = signed(manifest) if signature is None else signature
    named = [("manifest.json", manifest), ("signature.json", signature), *sorted(members.items())]
    return [Entry(key.encode(), content) for key, content in named]


_FIELDS = {
    **dict.fromkeys(["needed", "flags", "method", "time", "date"], number.map(lambda n: n & 0xFFFF)),
    **dict.fromkeys(["crc", "packed", "size"], number),
    "name": name,
    "extra": scrap,
}
_DIRECTORY_FIELDS = {
    **_FIELDS,
    **dict.fromkeys(["made_by", "disk", "internal"], number.map(lambda n: n & 0xFFFF)),
    **dict.fromkeys(["external", "offset"], number),
    "comment": scrap,
}
_END_FIELDS = {
    **dict.fromkeys(["disk", "first_disk", "here", "total"], number.map(lambda n: n & 0xFFFF)),
    **dict.fromkeys(["size", "offset"], number),
}


@st.composite
def spoiled_archive(draw: st.DrawFn, listed: list[Entry]) -> bytes:
    """Header fields, order, number and content of members are changed; what is not stays right, checksums too."""
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(listed) - 1))
        entry = copy.deepcopy(listed[place])
        kind = draw(
            st.sampled_from(["both", "local", "central", "data", "before", "name", "order", "twice", "drop", "crowd"])
        )
        if kind in ("both", "local", "central"):
            fields = _DIRECTORY_FIELDS if kind == "central" else _FIELDS
            field = draw(st.sampled_from(sorted(fields)))
            getattr(entry, kind)[field] = draw(fields[field])
        elif kind == "data":
            entry.data = draw(spoiled_bytes(entry.data))
        elif kind == "before":
            entry.before = draw(scrap)
        elif kind == "name":
            entry.name = draw(name)
        listed = [*listed[:place], entry, *listed[place + 1 :]]
        if kind == "order":
            listed = draw(st.permutations(listed))
        elif kind == "twice":
            listed = [*listed, entry]
        elif kind == "crowd":
            listed = listed + [
                Entry(b"golden/%d" % other, b"") for other in range(draw(st.sampled_from([3, MAX_MEMBERS])))
            ]
        elif kind == "drop" and len(listed) > 1:
            listed = [*listed[:place], *listed[place + 1 :]]
    between = draw(st.just(b"") | scrap)
    comment = draw(st.just(b"") | scrap)
    end = draw(st.just({}) | st.fixed_dictionaries({}, optional=_END_FIELDS))
    return write(listed, between=between, comment=comment, **end)


_TEXTS = [
    *("", "x", "u", "v", "noise", "label", "frame", "code", "means", "q", "generator", "output", "draw", "uniform"),
    *(
        "channel",
        "table",
        "argmax",
        "synthesis",
        "row",
        "preprocess",
        "artefact",
        "uint8",
        "float32",
        "int64",
        "uint32",
    ),
    *("object", "tflite-int8", "onnx-float32", "numpy", "image", "vector", "privacy/audit.json", "tables/means.npy"),
    *("argmax_within", "hold", "majority", "keep", "held", "period", "track", "within", "laplace", "add", "quantise"),
    *("../x", "/x", "A", "\x00", "\u202e", "a" * 81, "0" * 64),
]
leaf = (
    st.sampled_from(_TEXTS)
    | st.sampled_from([None, True, False, -1, 0, 1, 2, 4, 16, 256, 2**26, 2**53, 2**63, 0.0, 0.5, 1e30, 1e31, -1e31])
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
_ODD = [
    *([0, 1, 2, 3], [4.0, 5.0, 6.0, 7.0], [4, 5, 1, 7], [2**20, 2**20], [2**27], [8, 8, 1], [4], [4, 4], [4, 4, 4]),
    *(["x"] * 65, [["x"]], {"x": "u"}, {"frame": "x"}, {"": 1}, {"n\u0061me": 1}),
]
_deep = st.integers(1, 20).map(lambda depth: functools.reduce(lambda inner, _: [inner], range(depth), []))
value = (
    st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_TEXTS), inner, max_size=3)
    )
    | st.sampled_from(_ODD)
    | _deep
)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything below ``tree``."""
    found: list[tuple[Any, ...]] = []
    steps = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for step in steps:
        found += [(*path, step), *places(tree[step], (*path, step))]
    return found


@st.composite
def spoiled_tree(draw: st.DrawFn, tree: Any) -> Any:
    """Values are replaced, left out, doubled, added, moved from elsewhere in the same tree."""
    tree = copy.deepcopy(tree)
    # One change mostly: of several, the first that is noticed hides the others.
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        all_places = places(tree)
        if not all_places:
            break
        # A section first: else the long lists of tensors and members would get nearly all of it.
        section = draw(st.sampled_from(sorted({place[0] for place in all_places})))
        path = draw(st.sampled_from([place for place in all_places if place[0] == section]))
        owner = tree
        for step in path[:-1]:
            owner = owner[step]
        step = path[-1]
        kind = draw(st.sampled_from(["replace", "replace", "like", "like", "like", "move", "drop", "add", "rename"]))
        if kind == "replace":
            # A copy: the odd values are lists of this module, and the next change may be made inside this one.
            owner[step] = copy.deepcopy(draw(value))
        elif kind in ("like", "move"):
            source = tree
            # Like: what stands under the same key elsewhere, which is of the right type and means something.
            alike = [place for place in all_places if kind == "move" or place[-1] == step]
            for other in draw(st.sampled_from(alike)):
                source = source[other]
            owner[step] = copy.deepcopy(source)
        elif kind == "drop":
            del owner[step]
        elif isinstance(owner, list):
            owner.insert(step, copy.deepcopy(owner[step]))
        else:
            moved = owner.pop(step) if kind == "rename" else copy.deepcopy(owner[step])
            owner[draw(st.sampled_from(_TEXTS))] = moved
    return tree


@st.composite
def candidates(draw: st.DrawFn) -> bytes:
    """The bytes of a bundle that is spoiled in one of five ways, or good."""
    index = draw(st.integers(0, len(GOOD) - 1))
    manifest, members = GOOD[index]
    kind = draw(st.sampled_from(["bytes", "archive", "archive", "text", "tree", "tree", "tree", "tree", "signature"]))
    if kind == "bytes":
        return draw(spoiled_bytes(GOOD_BYTES[index]))
    data = json.dumps(manifest).encode()
    if kind == "archive":
        return draw(spoiled_archive(entries(data, members)))
    if kind == "signature":
        return write(entries(data, members, draw(spoiled_signature(data))))
    data = draw(spoiled_bytes(data)) if kind == "text" else json.dumps(draw(spoiled_tree(manifest))).encode()
    key = draw(st.sampled_from([bundles.KEY, bundles.KEY, bundles.KEY, DEVELOPMENT]))
    return write(entries(data, members, signed(data, key)))
