"""Every rule for files of others, at every door that such a file can come in by: one hand-made file for each rule.

A door is what an honest user calls with another's file. Where a rule is not asked at one, the table has the reason.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from edgeveil.devices import profiles, site
from edgeveil.devices.flashing.wheels import read_inputs
from edgeveil.devices.site import SiteBoard
from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.api import Perturber
from edgeveil.edge_runtime.bundle.archive import read_archive
from edgeveil.edge_runtime.bundle.audit_document import check_audit
from edgeveil.edge_runtime.bundle.audit_schema_1 import as_schema_2
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.cli.main import main as edge
from edgeveil.edge_runtime.cli.options import print_document
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, EdgeVeilError
from edgeveil.edge_runtime.pipeline.pipeline import numbers_in
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.audit import card as cards
from edgeveil.trainer.audit.frozen import open_target
from edgeveil.trainer.audit.rerun import rerun
from edgeveil.trainer.cli.bench_command import bench
from edgeveil.trainer.cli.boards import check, flash
from edgeveil.trainer.cli.bundle_command import bundle_card
from edgeveil.trainer.cli.common import board_profile, print_either
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.sealing import seal as sealing
from edgeveil.trainer.sealing.inspect import inspect
from edgeveil.trainer.sealing.seal import checked_card, countersign, keygen, read_part, seal
from tests.edge_runtime.manifest.test_model_lint import loose, model, node, seeded, tflite
from tests.hostile_bundles import one_artefact, onnx_models
from tests.support import bundles
from tests.support.checkout import ROOT


@pytest.fixture(autouse=True, scope="module")
def _small_runtime():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sealing, "zipapp_bytes", lambda: b"the runtime as a zipapp")
        yield


class Foreign(NamedTuple):
    """A file of another's: as a sealed bundle and its trust, and as an export folder."""

    bundle: Path
    trust: Path
    export: Path


def two_in_one():
    data = bytearray(model(node("Relu", ["image"], ["output"])))
    data[4:8] = b"ORTM"
    return bytes(data)


def honest():
    """An audited export of this version, whose card is made by seal."""
    manifest, members = bundles.artefact_example()
    manifest["provenance"]["edgeveil"] = __version__
    return manifest, members


def absurd():
    """An audit in which a guess from y is right twice as often as ever."""
    manifest, members = bundles.artefact_example()
    document = json.loads(members[bundles.PRIVACY_MEMBER])
    document["chance"]["majority"] = 2.0
    bundles.add_audit(manifest, members, document)
    return manifest, members


def forged(member, change):
    """A bundle of this version whose card or page was changed before it was sealed."""

    def make(folder: Path) -> Foreign:
        keygen(folder / "keys")
        export = bundles.export_folder(folder / "export", honest())
        made = seal(export, folder / "keys" / "signing.key", folder / "honest.veil")
        members = dict(read_archive(made.read_bytes()))
        manifest = json.loads(members.pop("manifest.json"))
        del members["signature.json"]
        members[member] = change(members[member])
        forged = bundles.make_bundle(folder, example=(manifest, members))
        return Foreign(forged.path, forged.trust, export)

    return make


def promising(data):
    document = json.loads(data)
    document["guarantees"] = [{"artefact": "all", "sentence": "Whatever is known: epsilon 0.001 for ever."}]
    return json.dumps(document).encode()


def of(example):
    """The same hand-made example as a bundle and as an export folder."""

    def make(folder: Path) -> Foreign:
        made = bundles.make_bundle(folder, example=copy.deepcopy(example()))
        return Foreign(made.path, made.trust, bundles.export_folder(folder / "export", copy.deepcopy(example())))

    return make


def no_words(data):
    return json.dumps({**json.loads(data), "statement": "Measured by a laboratory."}).encode()


FILES = {
    "no-random": of(lambda: one_artefact.example("onnx", seeded())),
    "no-state": of(lambda: one_artefact.example("tflite", tflite(variable=True))),
    "one-format": of(lambda: one_artefact.example("onnx", two_in_one())),
    "whole": of(lambda: one_artefact.example("onnx", onnx_models.data_in_the_systems_files())),
    "tolerance": of(lambda: loose(16.0)),
    "audit": of(absurd),
    "guarantees": forged(bundles.CARD_MEMBER, promising),
    "card": forged(bundles.CARD_MEMBER, no_words),
    "page": forged(bundles.PAGE_MEMBER, lambda _: b"<!doctype html><h1>CERTIFIED PRIVATE</h1>"),
}


def verify(foreign):
    """As the board's command; its exit code says that it is refused, too."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = edge(["verify", str(foreign.bundle), "--trust", str(foreign.trust), "--signature-only"])
    if code:
        assert code == 2
        raise BundleRefused("said", said.getvalue())


def install(foreign):
    folder = foreign.trust.with_name("board")
    folder.mkdir(exist_ok=True)
    board = Releases(str(folder), lambda floor: open_trust(foreign.trust, floor=floor))
    board.install(foreign.bundle.read_bytes(), lambda *_: None)


def sign(foreign):
    countersign(foreign.export, a_key(foreign))


def sealed(foreign):
    seal(foreign.export, a_key(foreign), foreign.bundle.with_name("s.veil"), allow_unaudited=True, replace=True)


def a_key(foreign):
    keys = foreign.bundle.with_name("own keys")
    if not keys.exists():
        keygen(keys)
    return keys / "signing.key"


def rerun_of(foreign):
    rerun(foreign.bundle, run=foreign.export, trust=foreign.trust)


def shown(foreign):
    bundle_card(foreign.bundle, foreign.trust, [foreign.bundle.with_name("dpia.html")])


DOORS = {
    "perturb": lambda foreign: Perturber.open(foreign.bundle, trust=foreign.trust),
    "verify": verify,
    "install": install,
    "flash": lambda foreign: read_inputs(foreign.bundle, "workstation", foreign.trust, None),
    "inspect": lambda foreign: inspect(foreign.bundle, foreign.trust),
    "card": shown,
    "audit --verify": rerun_of,
    "audit BUNDLE": lambda foreign: open_target(
        foreign.bundle, run=foreign.export, trust=foreign.trust, artefact="auto"
    ),
    "audit EXPORT": lambda foreign: open_target(foreign.export, run=foreign.export, trust=None, artefact="auto"),
    "audit --sign": sign,
    "seal": sealed,
}
REFUSAL = {
    "no-random": "RandomUniformLike draws from a generator",
    "no-state": "keeps a value between frames",
    "one-format": "ONNX Runtime's own format",
    "whole": "its weights are in another file",
    "tolerance": "a quarter of the range",
    "audit": r"chance\.majority: expected 0 to 1, got 2",
    "guarantees": "the privacy card: it says something else",
    "card": "The card of the privacy card of .* is not the one of its audit",
    "page": "The page of the privacy card of .* is not the one of its audit",
}
MADE = "the card is made there, from the audit"
UNSEEN = "it shows no card, and holds nothing by its words: verdict and guarantees are compared"
NOT_ASKED = {
    ("audit", "audit EXPORT"): "it takes the place of the audit that is there",
    **{
        (rule, door): MADE
        for rule in ("guarantees", "card", "page")
        for door in ("audit EXPORT", "audit --sign", "seal")
    },
    **{
        (rule, door): UNSEEN
        for rule in ("card", "page")
        for door in ("perturb", "verify", "install", "flash", "audit BUNDLE")
    },
    ("page", "audit --verify"): "it reads the card and not its page",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The file of a rule, made once."""
    known = {}

    def make(rule):
        if rule not in known:
            known[rule] = FILES[rule](tmp_path_factory.mktemp(rule))
        return known[rule]

    return make


def test_the_table_has_every_rule_and_only_known_doors():
    assert set(FILES) == set(REFUSAL)
    assert {door for _, door in NOT_ASKED} <= set(DOORS)
    assert {rule for rule, _ in NOT_ASKED} <= set(FILES)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("rule", FILES)
def test_a_foreign_file_is_refused_at_the_door(made, monkeypatch, rule, door):
    monkeypatch.setattr(Run, "open", lambda _: None)
    foreign = made(rule)
    before = sorted(foreign.export.rglob("*"))
    if (rule, door) in NOT_ASKED:
        said = ""
        try:
            DOORS[door](foreign)
        except (EdgeVeilError, AttributeError) as error:  # these hand-made ones have no run to end well with
            said = str(error)
        assert not re.search(REFUSAL[rule], said)
        return
    with pytest.raises(BundleRefused, match=REFUSAL[rule]):
        DOORS[door](foreign)
    assert sorted(foreign.export.rglob("*")) == before


def test_a_file_that_breaks_no_rule_is_taken(tmp_path):
    """So that what is refused above is refused for its rule."""
    made = forged(bundles.PAGE_MEMBER, lambda page: page)(tmp_path)
    for door in ("verify", "install", "flash", "inspect", "card", "audit --sign", "seal"):
        DOORS[door](made)


def test_a_guess_without_a_figure_is_refused_in_words():
    """It was a TypeError, which ends a service at a reload."""
    audit = json.loads((ROOT / "tests/support/audit_of_0_2.json").read_text())
    document = as_schema_2(audit)
    about = {"speaks_of": audit["speaks_of"], "pipeline": audit["pipeline"]}
    about |= {name: audit["data"][name] for name in ("target", "sensitive")}
    check_audit(document, **about)
    for one in document["findings"]:
        if one.get("more", {}).get("kind") == "guess":
            one["value"] = None
    with pytest.raises(BundleRefused, match="expected 0 to 1, got"):
        check_audit(document, **about)


def leaves(value, at=()):
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(one, (*at, key))
    else:
        yield at, value


def test_every_leaf_of_a_card_changed_alone_is_refused(tmp_path):
    made = forged(bundles.PAGE_MEMBER, lambda page: page)(tmp_path)
    bundle = read_bundle(made.bundle, open_trust(made.trust))
    name = bundle.manifest.privacy.card
    document = json.loads(bundle.members[name])
    checked_card(bundle)
    places = list(leaves(document))
    assert len(places) > 100
    for at, value in places:
        changed = copy.deepcopy(document)
        owner = changed
        for key in at[:-1]:
            owner = owner[key]
        owner[at[-1]] = f"{value}!" if isinstance(value, str) else (value or 0) + 1
        members = {**bundle.members, name: strict_json.dumps(changed)}
        with pytest.raises(BundleRefused, match="is not the one of its audit"):
            checked_card(bundle._replace(members=members))


def test_a_card_of_another_version_is_not_shown_whatever_it_says(tmp_path, monkeypatch):
    made = FILES["card"](tmp_path)
    monkeypatch.setattr(cards, "__version__", "9.9")
    view = inspect(made.bundle, made.trust, full=True)
    assert view.card["statement"] == cards.STATEMENT
    assert "laboratory" not in view.text()


# What of a file reaches a terminal, what of a folder is sealed, and arrays.


def test_nothing_that_a_file_says_commands_a_terminal(tmp_path, capsys):
    hidden = "\x1b]0;a\x07\x9b2J\u202e\r"
    for number, (name, domain) in enumerate((("Relu\n" + hidden, "own" + hidden), ("Nope" + hidden, ""))):
        example = one_artefact.example("onnx", model(node(name, ["image"], ["output"], domain=domain)))
        made = bundles.make_bundle(tmp_path / str(number), example=example)
        assert edge(["verify", str(made.path), "--trust", str(made.trust)]) == 2
    said = "".join(capsys.readouterr())
    assert all(line.startswith(("note: ", "error: ")) for line in said.splitlines())
    say(hidden)
    print_either({}, hidden, as_json=False)
    print_document({}, lambda _: [hidden], as_json=False)
    said += "".join(capsys.readouterr())
    assert {"Relu", "Nope"} <= set(re.findall("Relu|Nope", said))
    assert all(one.isprintable() or one == "\n" for one in said)


REPLACED = {
    "golden/draws.noise.npy": Path.symlink_to,
    "golden": Path.symlink_to,
    "export.json": lambda path, _: os.mkfifo(path),
    "manifest.json": lambda path, _: path.write_text("[" * 10**5),
}


@pytest.mark.parametrize("name", REPLACED)
def test_an_export_folder_gives_nothing_but_its_own_files(tmp_path, name):
    """A link to the key of the one who seals was sealed, and so sent to everybody."""
    folder = bundles.export_folder(tmp_path / "export")
    ExportFolder.open(folder)
    elsewhere = (folder / name).rename(tmp_path / "elsewhere")
    REPLACED[name](folder / name, elsewhere)
    with pytest.raises(BadInput, match=r"is a link, no file|is not JSON"):
        ExportFolder.open(folder)


def test_a_pipe_in_place_of_a_signature_holds_nothing_up(tmp_path):
    os.mkfifo(tmp_path / "countersignature.json")
    with pytest.raises(BadInput, match="no regular file"):
        read_part(tmp_path / "countersignature.json")


def test_an_array_that_is_none_is_refused_in_words(tmp_path):
    whole = bundles.npy(np.zeros((2, 2), np.float32))
    broken = [whole.replace(b"(2, 2)", b"(9**9)"), whole.replace(b"'<f4'", b"'|O' "), whole[:40], b"PK\x03\x04", b""]
    broken += [whole.replace(b"(2, 2), }  ", b"(1099511627776,), }"[:11]), bundles.npy(np.array(["x"]))]
    manifest, members = bundles.numpy_example()
    for name in (manifest["golden"]["input"], manifest["tables"]["means"]["file"]):
        for data in broken:
            with pytest.raises(BundleRefused, match=f"{name} is no array of numbers"):
                numbers_in({**members, name: data}, name)
    made = bundles.make_bundle(tmp_path, change=lambda _, files: files.update({name: broken[0]}))
    with pytest.raises(BundleRefused, match="is no array of numbers"):
        Perturber.open(made.path, trust=made.trust)


def test_a_text_that_is_nested_without_end_is_refused_in_words(tmp_path):
    place = tmp_path / "deep.toml"
    place.write_text("a = " + "[" * 5000)
    (tmp_path / "run.json").write_text("[" * 10**5)
    for read, path in ((profiles.load, place), (site.load, place), (Recipe.find, place), (Run.open, tmp_path)):
        with pytest.raises(BadInput, match=r"is not (valid )?TOML|there is none \(maximum recursion"):
            read(path)


# Profiles of boards.


BOARD = (ROOT / "devices/profiles/workstation.toml").read_text()


def profile(folder, after, line):
    """The file of a stranger's board: the workstation's with a line more."""
    path = folder / "nice-board.toml"
    path.write_text(BOARD.replace(after, after + line + "\n" * after.endswith("\n"), 1))
    return str(path)


SENSORS, SERVICE = "[sensors]\n", "[service]\n"
PROFILES = {
    "command": ((SENSORS, 'throttled = "!touch /tmp/x"'), "would run on the board: throttled = !touch /tmp/x"),
    "environment": ((SERVICE, 'environment = {X = "1"}'), "would run on the board: X=1"),
    "library": ((SERVICE, 'environment = {LD_PRELOAD = "/tmp/x.so"}'), "sets LD_PRELOAD, by which other code"),
    "python": ((SERVICE, 'environment = {PYTHONPATH = "/tmp/x"}'), "sets PYTHONPATH, by which other code"),
    "file": ((SENSORS, 'power_mw = "/etc/shadow"'), "would run on the board: power_mw = /etc/shadow"),
    "device": ((SENSORS, 'power_mw = "/sys/../dev/watchdog"'), "would run on the board: power_mw = /sys/../dev"),
    "interpreter": (('python = "/', "home/mallory/"), "would run on the board: python = /home/mallory/usr/bin/python3"),
    "group": (('name = "workstation"\n', 'accelerator_group = "disk"'), "would run on the board: group = disk"),
    "root": ((SERVICE, 'camera_user = "root"'), "service.camera_user must be the name of a user other than root"),
    "one user": ((SERVICE, 'camera_user = "edgeveil"'), "must be three users"),
    "compiler": (('name = "workstation"\n', 'compiler = "./helper"'), "compiler must be the name of a compiler"),
}
ALWAYS = ("library", "python", "root", "one user", "compiler")  # refused whatever is allowed
SITE = SiteBoard("b", "ssh://pi@b")
READERS = {
    "load": profiles.load,
    "flash": lambda path: flash(SITE, Path("x.veil"), path, Path("trust")),
    "board check": lambda path: check(SITE, path),
    "bench": lambda path: bench(SITE, Path("x.veil"), profile=path),
    "allowed": lambda path: profiles.load(path, commands=True),
}


@pytest.mark.parametrize("door", READERS)
@pytest.mark.parametrize("rule", PROFILES)
def test_a_foreign_profile_runs_nothing(tmp_path, rule, door):
    line, refusal = PROFILES[rule]
    path = profile(tmp_path, *line)
    if door == "allowed" and rule not in ALWAYS:
        assert READERS[door](path).commands()
        return
    with pytest.raises(BadInput, match=refusal):
        READERS[door](path)


def test_what_is_allowed_is_named(tmp_path, capsys):
    line, _ = PROFILES["command"]
    assert board_profile(profile(tmp_path, *line), True).commands()
    assert "runs on the board: throttled = !touch /tmp/x" in capsys.readouterr().err


# What a run's folder has.


def test_no_audit_keeps_or_reads_anything_in_a_runs_folder():
    """The folder is handed over by the one who is audited; ``results.own_folder`` is the auditor's."""
    product = [path for part in ("trainer", "devices") for path in (ROOT / part).rglob("*.py")]
    assert [path for path in product if "audit-cache" in path.read_text()] == []


def test_every_text_for_people_is_printed_by_the_function_that_holds_a_terminal_harmless():
    files = [one for one in (ROOT / "trainer/cli").glob("*.py") if one.name not in ("__init__.py", "common.py")]
    lines = [line.strip() for one in files for line in one.read_text().splitlines()]
    written = [line for line in lines if re.search(r"\bprint\(|std(out|err)\.write\(", line) and "shown(" not in line]
    # The version; what is JSON, or TOML to be saved.
    assert sorted(written) == [
        'print(f"edgeveil {__version__}")',
        "sys.stdout.write(Recipe.text(recipe))",
        "sys.stdout.write(text)",
    ]
