"""Two commands at once, and a power cut at any moment of them: the board is whole, and nothing on it goes back."""

import contextlib
import json
import random
import re
import shutil

import pytest

from edgeveil.edge_runtime.bundle.board_state import COPY_FILE, STATE_FILE
from edgeveil.edge_runtime.bundle.trust_store import (
    SIGNED_POLICY_FILE,
    open_trust,
    read_signed_policy,
    read_trust_file,
    update_policy,
    update_trust,
)
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.releases import runtimes as runtimes_module
from edgeveil.edge_runtime.releases.runtimes import FILE, Runtimes, read_update
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.edge_runtime.signing.roles import Role
from edgeveil.trainer.sealing.keys import write_runtime
from edgeveil.trainer.sealing.trust_file import TrustFolder
from tests.support import bundles, seeds
from tests.support.boards.interleave import run_both
from tests.support.boards.power_cut import Volume, WrittenDown, contents, write_out
from tests.support.once import nightly_but

SECRET = "correct horse"  # noqa: S105 - opens nothing but keys made here
LEAST_STATES = 1500 / 9  # of a pair, on average; none of them twice


@pytest.fixture(autouse=True, scope="module")
def quick():
    """No runtime here can be started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtimes_module, "_check_starts", lambda *_: None)
        yield


@pytest.fixture
def tmp_path(in_memory):
    return in_memory


def releases(root, disk):
    return Releases(str(root), lambda floor: open_trust(root / "trust", floor=floor), disk)


def passes(_folder, _bundle):
    """A trial that all pass."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A board that runs release 1, and the commands that may be run on it, by name."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "test.pub").write_text(public_key_line(bundles.trusted()))
    owner = TrustFolder.init(folder / "root", [folder / "test.pub"], passphrase=SECRET)

    def policy():
        sensitive = bundles.numpy_example()[0]["perturber"]["sensitive"]
        hide = {"sensitive": sensitive, "audited": False, "most_attack_over_chance": None}
        (folder / "policy.json").write_text(json.dumps({"schema": 1, "hide": [hide]}))
        owner.sign_policy(folder / "policy.json", passphrase=SECRET)
        return (owner.folder / "policy-signed.json").read_bytes()

    def bundle(number):
        def change(manifest, _members):
            manifest["security_version"] = number

        return bundles.make_bundle(folder, change=change, name=f"{number}.veil").path.read_bytes()

    def runtime(number):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("edgeveil.trainer.sealing.keys.zipapp_bytes", lambda: b"runtime %d" % number)
            out = folder / f"{number}.runtime"
            write_runtime(owner.folder / "signing.key", out, version=number, passphrase=SECRET)
            return read_update(out.read_bytes(), Role((owner.first,)))

    first_policy = policy()
    data = {number: bundle(number) for number in (1, 2, 3)}
    old_runtime, new_runtime = runtime(1), runtime(2)
    root = folder / "board"
    (root / "trust").mkdir(parents=True)
    for name in ("root.pub", "trust.json"):
        shutil.copy(owner.folder / name, root / "trust")
    releases(root, None).install(data[1], passes)
    Runtimes(str(root)).install(old_runtime, open_trust(root / "trust", floor=0))
    newer_trust = (owner.require(1, passphrase=SECRET).folder / "trust.json").read_bytes()

    def install(number):
        return lambda place, disk: releases(place, disk).install(data[number], passes)

    def changing(what, change):
        def command(place, disk):
            with releases(place, disk).changing(what):
                change(place, disk)

        return command

    commands = {
        "install 2": install(2),
        "install 3": install(3),
        "recover": lambda place, disk: releases(place, disk).recover(),
        "trust": changing("trust", lambda place, _: update_trust(str(place / "trust"), newer_trust)),
        "policy": changing("policy", lambda place, _: update_policy(str(place / "trust"), first_policy)),
        "runtime": changing(
            "runtime",
            lambda place, disk: Runtimes(str(place), disk).install(new_runtime, open_trust(place / "trust", floor=0)),
        ),
    }
    return root, owner.first, commands


def facts(root, key):
    """What a board that comes up says of itself; raises where it is not whole."""
    one = releases(root, WrittenDown())
    one.recover()
    state = one.state()
    assert one.current == state.committed, "on trial after it has come up"
    assert one.read(one.current) is not None, "the release is not whole"
    trust = open_trust(root / "trust", floor=0)
    signed = root / "trust" / SIGNED_POLICY_FILE
    taken = read_signed_policy(signed.read_bytes(), Role((key,)))[0] if signed.exists() else 0
    assert trust.policy is not None or not taken, "a policy that was taken is not in force"
    installed = Runtimes(str(root))
    zipapp = (root / "runtime" / installed.current / FILE).read_bytes()
    assert installed.version(installed.current) == int(zipapp.split()[1]), "the runtime is not whole"
    return {
        "release and floor": (one.read(one.current).manifest.security_version, state.floor),
        "trust": read_trust_file((root / "trust/trust.json").read_bytes(), key).version,
        "policy": taken,
        "runtime": int(zipapp.split()[1]),
    }


def play(world, tmp_path, names, plan, **options):
    """Run commands on a copy of the board: the folder, the log in the paths of the board before, who went when."""
    before, _, commands = world
    root = tmp_path / "play"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(before, root, symlinks=True)

    def quietly(name):
        def command(disk):
            # A command may be refused after the other one: an old release below the new floor, for example.
            with contextlib.suppress(EdgeVeilError):
                commands[name](root, disk)

        return command

    with pytest.MonkeyPatch.context() as patch:
        log, went = run_both([quietly(name) for name in names], plan, patch, **options)
    here, there = str(root), str(before)
    log = [tuple(part.replace(here, there) if isinstance(part, str) else part for part in one) for one in log]
    return root, log, went


def cuts(before, log, place, states, known=None):
    """(whether all was over, a folder) for each state that a power cut may leave, and none twice. Those before the end
    that are in ``known`` are left out, and what comes is put there."""
    before_end, at_end = set() if known is None else known, set()
    volume, rng = Volume(before), random.Random(seeds.seed(0))  # noqa: S311 - states to try, not secrets
    for step in range(len(log) + 1):
        if step:
            volume.apply(log[step - 1])
        for tree in volume.states(rng, states):
            came, found = at_end if step == len(log) else before_end, contents(tree)
            if found in came:
                continue
            came.add(found)
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            write_out(tree, place)
            yield step == len(log), place


def problem(folder, key, allowed, over):
    """What is wrong with a board that comes up; None where nothing is."""
    try:
        found = facts(folder, key)
    except (AssertionError, EdgeVeilError, OSError, AttributeError, TypeError, ValueError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
    if over is not None and found != over:
        return f"{found} in the place of {over}"
    wrong = {name: value for name, value in found.items() if value not in allowed[name]}
    return f"{wrong} came of nothing" if wrong else None


def ranges(world, tmp_path, names):
    """What each fact may be: before, after one of the commands, and after both."""
    before, key, _ = world
    first = tmp_path / "first"
    shutil.rmtree(first, ignore_errors=True)
    shutil.copytree(before, first, symlinks=True)
    found = [facts(first, key)]
    for order in (names, names[::-1]):
        root, _, _ = play(world, tmp_path, list(order), [(0, 10**3)])
        found.append(facts(root, key))
    for name in names:
        root, _, _ = play(world, tmp_path, [name, "recover"], [(0, 10**3)])
        found.append(facts(root, key))
    return {fact: [one[fact] for one in found] for fact in found[0]}, found[1:3]


PAIRS = [
    ("install 2", "install 3"),
    ("install 3", "recover"),
    ("install 2", "trust"),
    ("install 3", "policy"),
    ("trust", "policy"),
    ("install 2", "runtime"),
    ("policy", "runtime"),
    ("trust", "runtime"),
    ("recover", "policy"),
]
BY_DAY = (("install 2", "install 3"), ("trust", "policy"))


def plans(most):
    """Every way to stop the first command and then the second one after so many operations."""
    return [[(0, i), (1, j)] for i in range(most) for j in (1, 2, 5, 12, 10**3)]


@pytest.mark.parametrize("pairs", [BY_DAY, pytest.param(PAIRS, marks=pytest.mark.nightly)], ids=len)
def test_whatever_two_commands_do_at_once_and_whenever_the_power_fails(world, tmp_path, pairs):
    """Every interleaving at the file layer that the lock leaves, and every state that a power cut in it may leave."""
    before, key, _ = world
    states, orders = 0, 0
    for names in pairs:
        allowed, ends = ranges(world, tmp_path, names)
        seen, known = set(), set()
        for plan in [*plans(8), *([(1, i), (0, 1), (1, 10**3)] for i in range(8))]:
            root, log, went = play(world, tmp_path, list(names), plan)
            order = tuple(_operations(log))
            if order in seen:
                continue
            seen.add(order)
            after = facts(root, key)
            assert after in ends, (names, plan, after)
            for over, folder in cuts(before, log, tmp_path / "cut", 8, known):
                states += 1
                assert problem(folder, key, allowed, after if over else None) is None, (names, plan, went)
        orders += len(seen)
    print(f"{states} states of {orders} orders")
    assert orders >= 2 * len(pairs)
    assert states >= LEAST_STATES * len(pairs)


def test_without_the_lock_it_would_be_seen(world, tmp_path):
    _, key, _ = world
    _, ends = ranges(world, tmp_path, PAIRS[0])
    wrong = []
    for plan in plans(40):
        root, _, _ = play(world, tmp_path, list(PAIRS[0]), plan, with_lock=False)
        wrong.append(problem(root, key, {name: [one[name] for one in ends] for name in ends[0]}, None))
        if wrong[-1]:
            break
    assert wrong[-1], "two installs at once without a lock, and nobody would notice"


# By day those of an installation: test_store.py
@pytest.mark.parametrize("name", nightly_but(("install 3", "trust", "policy", "runtime"), "policy"))
def test_every_single_fsync_is_needed(world, tmp_path, name):
    before, key, _ = world
    allowed, _ = ranges(world, tmp_path, (name, "recover"))
    root, log, _ = play(world, tmp_path, [name, "recover"], [(0, 10**3)])
    after = facts(root, key)
    # The last commands are those of the board that came up again, which had nothing to do.
    log = log[: max(n for n, one in enumerate(log) if one[0] == "rename") + 2]
    syncs = [number for number, one in enumerate(log) if one[0] in ("sync", "sync_folder")]
    assert len(syncs) >= 2
    for number in syncs[1:] if name.startswith("install") else syncs:
        less = log[:number] + log[number + 1 :]
        noticed = any(
            (over and not _kept_twice(folder)) or problem(folder, key, allowed, after if over else None)
            for over, folder in cuts(before, less, tmp_path / "cut", 4)
        )
        assert noticed, f"{log[number][0]} of {log[number][1]} could be left out and nobody would notice"


def _operations(log):
    """Of each operation, what it is and on which file; names that are drawn by chance are left out."""
    return [(kind, re.sub(r"\.[0-9a-f]{12}-", "", str(rest[0]))) for kind, *rest in log]


def _kept_twice(folder):
    """Whether the state is in both places."""
    return (folder / STATE_FILE).read_bytes() == (folder / COPY_FILE).read_bytes()
