"""A board remembers which trust and policy it took last: what is lost or comes out of a backup is refused, and mended.

The reason for each file is in ``edgeveil.edge_runtime.bundle.board_state``: ``Accepted``.
"""

import json

import pytest

from edgeveil.edge_runtime.bundle.board_state import COPY_FILE, STATE_FILE, Accepted, State, read_state
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy, update_trust
from edgeveil.edge_runtime.cli.main import main
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.keys import public_key_line
from tests.edge_runtime.bundle import signed_trust
from tests.edge_runtime.bundle.signed_trust import device, policy_file, public, trust_file
from tests.edge_runtime.bundle.taken_once import counted
from tests.support import bundles

HIDDEN = bundles.numpy_example()[0]["perturber"]["sensitive"]
NEW_ROOT = {"root": ("new",), "first": "root"}


def policy(**more):
    demand = {"sensitive": HIDDEN, "audited": False, "most_attack_over_chance": None}
    return {"schema": 1, "hide": [demand], **more}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Bundles of security versions 1 and 9."""
    folder = tmp_path_factory.mktemp("bundles")

    def version(number):
        return bundles.make_bundle(
            folder, change=lambda manifest, _: manifest.update(security_version=number), name=f"{number}.veil"
        ).path

    return {number: version(number) for number in (1, 9)}


def contents(folder):
    """All but the lock, which names its last holder."""
    return {name: data for name, data in signed_trust.contents(folder).items() if name != "lock"}


def passes(_folder, _bundle):
    """A trial that all pass."""


class Board:
    def __init__(self, root, trust, unsigned=None):
        self.root, self.trust = root, device(root / "trust", trust)
        if unsigned is not None:
            (self.trust / "policy.json").write_bytes(json.dumps(unsigned).encode())
        self.releases = Releases(str(root), lambda floor: open_trust(self.trust, floor=floor))

    def install(self, path):
        return self.releases.install(path.read_bytes(), passes)

    def restore(self, files):
        """Put files of a backup in the place of what is there; None: remove it."""
        for name, data in files.items():
            (self.trust / name).unlink(missing_ok=True)
            if data is not None:
                (self.trust / name).write_bytes(data)

    def refuses_all(self, path, words):
        """Every way in says the same, and nothing changes."""
        before = contents(self.root)
        for way in (
            lambda: open_trust(self.trust),
            lambda: open_trust(self.trust, floor=0),
            lambda: self.install(path),
        ):
            with pytest.raises(BadInput, match=words):
                way()
        self.releases.recover()  # it still comes up, and forgets nothing
        assert contents(self.root) == before


@pytest.fixture
def board(tmp_path, made):
    """Root was rotated from ``root`` to ``new``: version 3, and version 2 of a policy."""
    board = Board(tmp_path / "opt", trust_file(1))
    assert board.install(made[1])
    assert update_policy(str(board.trust), policy_file(1, policy(countersigned=False)))
    board.backup = {path.name: path.read_bytes() for path in board.trust.iterdir()}
    board.chain = [trust_file(1), trust_file(2, ("root", "new"), **NEW_ROOT), trust_file(3, ("new",), **NEW_ROOT)]
    assert update_trust(str(board.trust), b"\n".join(board.chain))
    assert update_policy(str(board.trust), policy_file(2, policy(), ("new",)))
    return board


def test_a_lost_unsigned_policy_is_refused_and_comes_back_signed(tmp_path, made):
    board = Board(tmp_path / "opt", trust_file(1), unsigned=policy())
    assert board.install(made[1])
    assert read_state(str(board.root)).accepted.policy
    (board.trust / "policy.json").unlink()
    board.refuses_all(made[9], r"policy\.json is missing\. To mend it, run edgeveil-edge policy FILE .*trust policy")
    assert update_policy(str(board.trust), policy_file(1, policy())) is True
    assert open_trust(board.trust).policy is not None
    assert board.install(made[9])


def test_an_unsigned_policy_cannot_become_a_weaker_one(tmp_path, made):
    board = Board(tmp_path / "opt", trust_file(1), unsigned=policy())
    assert board.install(made[1])
    (board.trust / "policy.json").write_bytes(json.dumps(policy(countersigned=False)).encode())
    board.refuses_all(made[9], r"policy\.json is not the one that this board took last")


def test_a_board_that_never_had_a_policy_has_none(tmp_path, made):
    board = Board(tmp_path / "opt", trust_file(1))
    assert board.install(made[1])
    assert open_trust(board.trust).policy is None
    assert update_policy(str(board.trust), policy_file(1, policy())) is True
    (board.trust / "policy.json").unlink()
    (board.trust / "policy-signed.json").unlink()
    board.refuses_all(made[9], r"policy\.json is missing")


DOWNGRADES = {
    "the whole backup": lambda board: board.backup,
    "its trust.json": lambda board: {"trust.json": board.backup["trust.json"]},
    "its trust.json and root.pub": lambda board: {n: board.backup[n] for n in ("trust.json", "root.pub")},
    "its policy": lambda board: {n: board.backup[n] for n in ("policy.json", "policy-signed.json")},
    "its policy.json": lambda board: {"policy.json": board.backup["policy.json"]},
    "a trust.json of the same version": lambda _: {"trust.json": trust_file(3, ("new",), audience="x", **NEW_ROOT)},
    "a newer trust.json by the first root key": lambda _: {"trust.json": trust_file(9)},
    "another trust altogether": lambda _: {
        "root.pub": public_key_line(public("thief")).encode(),
        "trust.json": trust_file(9, ("thief",), root=("thief",), first="thief"),
    },
    "no trust.json": lambda _: {"trust.json": None},
    "no policy": lambda _: {"policy.json": None, "policy-signed.json": None},
    "public keys alone": lambda _: {
        **dict.fromkeys(["root.pub", "trust.json", "policy.json", "policy-signed.json"]),
        "maker.pub": public_key_line(bundles.trusted()).encode(),
    },
}


def policy_bytes(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize("what", DOWNGRADES)
def test_what_comes_out_of_a_backup_is_refused(board, made, what, record_property):
    counted(record_property, "open and install, with files put back", what)
    board.restore(DOWNGRADES[what](board))
    board.refuses_all(made[9], r"(is missing|is not the one that this board took last)\. To mend it, ")


@pytest.mark.parametrize("damage", [None, b"", b"garbage", "older"])
@pytest.mark.parametrize("sent", ["the chain", "the same", "the chain with a newer one"])
def test_a_lost_trust_file_comes_back_by_the_owners_files(board, damage, sent):
    last = board.chain[-1]
    board.restore({"trust.json": board.chain[1] if damage == "older" else damage})
    newer = trust_file(4, ("new",), security_version=1, **NEW_ROOT)
    data = {"the chain": board.chain, "the same": [last], "the chain with a newer one": [*board.chain, newer]}[sent]
    assert update_trust(str(board.trust), b"\n".join(data)) is True
    assert (board.trust / "trust.json").read_bytes() == data[-1]
    assert open_trust(board.trust).version == len(data) if len(data) > 1 else 3
    assert update_trust(str(board.trust), data[-1]) is False


THIEF = {
    "version 1 by the first root key": lambda _: trust_file(1),
    "version 3 by the first root key": lambda _: trust_file(3),
    "version 9 by the first root key": lambda _: trust_file(9),
    "a chain by the first root key": lambda _: b"\n".join(trust_file(n) for n in range(1, 10)),
    "the true beginning and a forged end": lambda board: b"\n".join([*board.chain[:2], trust_file(3), trust_file(4)]),
    "the true chain and a forged same version": lambda board: b"\n".join([*board.chain, trust_file(3)]),
    "the true chain and a forged end": lambda board: b"\n".join([*board.chain, trust_file(4)]),
    "the version before": lambda board: b"\n".join(board.chain[:2]),
    "schema 1 by the first root key": lambda _: trust_file(9, schema=1),
    "a newer one without those between": lambda _: trust_file(5, ("new",), **NEW_ROOT),
}


@pytest.mark.parametrize("damage", ["lost", "damaged", "whole", "state.json lost", "copy lost"])
@pytest.mark.parametrize("what", THIEF)
def test_a_lost_trust_file_lets_no_first_root_key_begin_again(board, what, damage, record_property):
    counted(record_property, "trust file sent, the board's own " + damage, what)
    if damage != "whole":
        board.restore({"trust.json": b"garbage" if damage == "damaged" else None})
    for name in {"state.json lost": [STATE_FILE], "copy lost": [COPY_FILE]}.get(damage, []):
        (board.root / name).unlink()
    before = contents(board.root)
    with pytest.raises(BadInput):
        update_trust(str(board.trust), THIEF[what](board))
    assert contents(board.root) == before
    assert update_trust(str(board.trust), b"\n".join(board.chain)) is (damage != "whole")


def test_without_any_state_and_trust_nothing_tells_what_it_took(board):
    board.restore({"trust.json": None})
    for name in (STATE_FILE, COPY_FILE):
        (board.root / name).unlink()
    with pytest.raises(BadInput, match="flash the board again over a channel you trust"):
        update_trust(str(board.trust), trust_file(1))


@pytest.mark.parametrize("lost", [[STATE_FILE], [COPY_FILE], [STATE_FILE, COPY_FILE]])
def test_a_repair_remembers_what_it_can_and_says_what_holds(board, lost, capsys):
    before = read_state(str(board.root))
    for name in lost:
        (board.root / name).write_bytes(b"garbage")
    assert main(["recover", "--repair", "--root", str(board.root)]) == 0
    assert "floor 1, trust of version 3, a policy" in capsys.readouterr().out
    assert read_state(str(board.root)).accepted == before.accepted
    board.restore(board.backup)
    with pytest.raises(BadInput, match="took last"):
        open_trust(board.trust)


def test_a_repair_accepts_no_older_trust_while_one_place_remembers(board, capsys):
    (board.root / STATE_FILE).write_bytes(b"garbage")
    board.restore(board.backup)
    assert main(["recover", "--repair", "--root", str(board.root)]) == 2
    assert "not the one that this board took last" in capsys.readouterr().err
    assert update_trust(str(board.trust), b"\n".join(board.chain)) is True  # the trust is mended first
    assert update_policy(str(board.trust), policy_file(2, policy(), ("new",))) is True
    assert main(["recover", "--repair", "--root", str(board.root)]) == 0


POLICIES = {
    "the version before": policy_file(1, policy()),
    "the version before by the new root key": policy_file(1, policy(), ("new",)),
    "the same version, otherwise": policy_file(2, policy(countersigned=False), ("new",)),
    "a newer one by the first root key": policy_file(3, policy()),
}


@pytest.mark.parametrize("lost", [["policy-signed.json"], ["policy.json"], ["policy.json", "policy-signed.json"], []])
@pytest.mark.parametrize("what", POLICIES)
def test_an_old_policy_is_refused_whatever_was_lost(board, what, lost, record_property):
    counted(record_property, "policy sent, lost: " + (" and ".join(lost) or "nothing"), what)
    board.restore(dict.fromkeys(lost))
    board.releases.recover()
    before = contents(board.root)
    with pytest.raises(BadInput):
        update_policy(str(board.trust), POLICIES[what])
    assert contents(board.root) == before
    assert update_policy(str(board.trust), policy_file(2, policy(), ("new",))) is bool(lost)
    assert open_trust(board.trust).policy is not None
    assert update_policy(str(board.trust), policy_file(3, policy(), ("new",))) is True


def test_a_policy_is_not_taken_by_an_old_trust(board):
    board.restore({"trust.json": board.chain[0]})
    with pytest.raises(BadInput, match=r"trust\.json is not the one that this board took last"):
        update_policy(str(board.trust), policy_file(3, policy()))


def test_a_board_of_before_remembers_at_its_next_start(board):
    """Its state is of schema 1, without a word of trust."""
    for name in (STATE_FILE, COPY_FILE):
        document = json.loads((board.root / name).read_bytes())
        assert document["schema"] == 2  # a board without a ledger can go back to a runtime of 0.2
        del document["accepted"]
        (board.root / name).write_bytes(policy_bytes({**document, "schema": 1}))
    assert read_state(str(board.root)).accepted == Accepted()
    board.releases.recover()
    found = read_state(str(board.root)).accepted
    assert (found.trust_version, found.policy_version, len(found.trust), len(found.policy)) == (3, 2, 1, 1)


def test_an_old_state_beside_a_newer_copy_forgets_nothing(board, made):
    old = json.loads((board.root / STATE_FILE).read_bytes())
    old["accepted"] = {**old["accepted"], "trust_version": 1, "policy_version": 0, "trust": [], "policy": []}
    for name in (STATE_FILE, COPY_FILE):
        kept = (board.root / name).read_bytes()
        (board.root / name).write_bytes(policy_bytes(old))
        board.restore({"trust.json": board.backup["trust.json"]})
        board.releases.recover()  # which writes both places anew
        with pytest.raises(BadInput, match="not the one that this board took last"):
            open_trust(board.trust)
        (board.root / name).write_bytes(kept)


@pytest.mark.parametrize("accepted", [[], {"trust": 3}, {"trust_version": "3"}, {"trust": [3]}, {"other": 1}, None])
def test_a_memory_that_is_none_is_damage(board, accepted, capsys):
    document = json.loads((board.root / STATE_FILE).read_bytes())
    (board.root / STATE_FILE).write_bytes(policy_bytes({**document, "accepted": accepted}))
    assert main(["status", "--root", str(board.root)]) == 4
    assert "state.json is damaged" in capsys.readouterr().err


# The floor, reset by root ---------------------------------------------------------------------------------------------


def reset(version, floor, at=None, signers=("root",)):
    return trust_file(version, signers, floor_reset={"version": at or version, "floor": floor})


@pytest.fixture
def high(tmp_path, made):
    """A board whose floor is 9."""
    board = Board(tmp_path / "opt", trust_file(1))
    assert board.install(made[9])
    assert board.releases.state().floor == 9
    return board


def test_root_resets_the_floor_once(high, made):
    with pytest.raises(BundleRefused, match="takes 9 or later"):
        high.install(made[1])
    assert update_trust(str(high.trust), reset(2, 1)) is True
    assert high.releases.state().floor == 1
    assert high.install(made[1]) is True
    assert high.install(made[9]) is True
    # Neither the same file again nor a later version that still has it, nor a start.
    assert update_trust(str(high.trust), reset(2, 1)) is False
    assert update_trust(str(high.trust), reset(3, 1, at=2)) is True
    high.releases.recover()
    assert high.releases.state().floor == 9


def test_a_floor_that_was_reset_does_not_come_back_by_the_copy(high):
    copy = (high.root / COPY_FILE).read_bytes()
    assert update_trust(str(high.trust), reset(2, 1))
    (high.root / COPY_FILE).write_bytes(copy)  # the power failed between the two
    assert high.releases.state().floor == 1
    high.releases.recover()
    assert json.loads((high.root / COPY_FILE).read_bytes())["floor"] == 1


@pytest.mark.parametrize(
    "data",
    [
        reset(2, 1, signers=("maker",)),
        reset(2, 1, at=3),
        reset(2, -1),
        trust_file(2, floor_reset={"floor": 1}),
        trust_file(2, floor_reset=3),
        reset(1, 1),
    ],
    ids=["not root", "a later version", "negative", "without a version", "a number", "the same version"],
)
def test_no_one_else_resets_the_floor(high, data, record_property):
    counted(record_property, "trust file sent", "a reset of the floor that root did not sign so")
    with pytest.raises(BundleRefused):
        update_trust(str(high.trust), data)
    assert high.releases.state().floor == 9


def test_a_reset_never_raises_the_floor(high):
    assert update_trust(str(high.trust), reset(2, 12))
    assert high.releases.state().floor == 9


def test_the_state_is_as_it_was_but_for_what_it_remembers(high):
    state = high.releases.state()
    assert update_trust(str(high.trust), trust_file(2))
    now = high.releases.state()
    assert (now._replace(accepted=state.accepted), now.accepted.trust_version) == (state, 2)
    assert state != State()


def test_a_bundle_opens_by_the_memory_of_its_board(board, made):
    """The ways in that know no state: verify, run, and the service that reads its trust again."""
    read_bundle(made[1], open_trust(board.trust))
    board.restore(board.backup)
    for command in (["verify", str(made[1]), "--signature-only"], ["verify", str(made[1])]):
        assert main([*command, "--trust", str(board.trust)]) == 2
