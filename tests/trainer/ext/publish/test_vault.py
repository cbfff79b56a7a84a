"""The vault: whole or not at all at every SIGKILL, and nothing left of who was erased."""

import os
import signal
import time

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.util.atomic import WriteFailed
from edgeveil.trainer.ext.publish.master_key import Cipher, MasterKey, Scope
from edgeveil.trainer.ext.publish.vault import Publication, Vault, erase, holdings, rotated
from tests.support.once import nightly_but

KEY = MasterKey(bytes(range(64)))
SCOPE = Scope("university", "visitor", 1)
LEAF_OF_AN_INDEX = 10  # SQLite's file format, section 1.6
OLD = [f"visitor {number}" for number in range(200)]
NEW = [f"guest {number}" for number in range(200)]


@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path / "vault", KEY) as opened:
        publish(opened, OLD)
        yield opened


def publish(vault, people):
    """Salts for people, and a publication that holds them."""
    with vault.change():
        vault.normalise_as("visitor", ["nfkc", "case"])
        salts = vault.salts("visitor", people)
        vault.record({Publication("title", SCOPE): salts})
    return salts


def files(folder):
    """All bytes of the vault's files, whatever their names."""
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def traces(vault, person):
    """The bytes of a subject's row: its index, its salt and its sealed identifier."""
    salt = vault.salt("visitor", person)
    (sealed,) = vault._base.execute("SELECT sealed FROM subject WHERE salt = ?", (salt,)).fetchone()
    return vault._name("visitor", person), salt, bytes(sealed)


def test_a_subject_is_found_again_and_never_by_its_name(vault, tmp_path):
    salts = publish(vault, [*OLD[:3], *NEW])
    assert salts[:3] == [vault.salt("visitor", person) for person in OLD[:3]]
    assert [vault.identifier("visitor", salt) for salt in salts] == [*OLD[:3], *NEW]
    assert len(set(salts)) == len(salts)
    assert b"visitor 1" not in files(tmp_path)
    assert b"guest" not in files(tmp_path)
    assert (tmp_path / "vault").stat().st_mode & 0o777 == 0o600


def test_an_error_within_a_change_undoes_it(vault):
    def broken_off():
        with vault.change():
            vault.salts("visitor", NEW)
            raise KeyError

    with pytest.raises(KeyError):
        broken_off()
    with pytest.raises(BadInput, match="no such subject"):
        vault.salt("visitor", NEW[0])


def test_after_an_erasure_no_byte_of_the_row_is_left(tmp_path):
    with Vault(tmp_path / "vault", KEY) as vault:
        for start in range(0, 3000, 500):  # pages are split and moved
            publish(vault, [f"visitor {number}" for number in range(start, start + 500)])
        stays = traces(vault, "visitor 7")
        for number in range(10, 20):
            gone = traces(vault, f"visitor {number}")
            assert all(one in files(tmp_path) for one in gone)
            vault.erase("visitor", f"visitor {number}")
            assert not any(one in files(tmp_path) for one in gone)
            with pytest.raises(BadInput, match="was erased"):
                vault.identifier("visitor", gone[1])
        assert all(one in files(tmp_path) for one in stays)
        assert vault.holding(gone[1]) == []
    assert not any(one in files(tmp_path) for one in gone)


def test_an_erasure_finds_what_a_split_page_left_behind(tmp_path):
    path = tmp_path / "vault"
    with Vault(path, KEY) as vault:
        publish(vault, OLD)
        salt = vault.salt("visitor", OLD[3])
    data = bytearray(path.read_bytes())
    for page in range(0, len(data), 4096):
        kind, cells, begin = data[page], *(int.from_bytes(data[page + at : page + at + 2], "big") for at in (3, 5))
        gap = page + 8 + 2 * cells
        if kind == LEAF_OF_AN_INDEX and begin - (gap - page) > len(salt):
            data[gap : gap + len(salt)] = salt  # between the cells and their list, where SQLite keeps nothing
            break
    planted = data.count(salt)
    path.write_bytes(data)
    with Vault(path, KEY) as vault:
        assert files(tmp_path).count(salt) == planted > 2
        vault.erase("visitor", OLD[3])
        assert files(tmp_path).count(salt) == 0


def test_erase_says_first_what_to_ask_of_each_recipient(vault):
    seen = []
    pseudonym = Cipher(KEY, SCOPE).seal(vault.salt("visitor", OLD[5]))
    assert [one.pseudonym for one in holdings(vault, KEY, "visitor", "Visitor 5")] == [pseudonym]
    erase(vault, KEY, "visitor", "VISITOR 5", first=seen.extend)
    assert pseudonym in seen[0].request()
    assert seen[0].request().startswith("university: please delete")
    with pytest.raises(BadInput, match="erased"):
        holdings(vault, KEY, "visitor", OLD[5])


def test_who_was_erased_and_comes_again_is_another_subject(vault):
    before = vault.salt("visitor", OLD[0])
    vault.erase("visitor", OLD[0])
    assert publish(vault, OLD[:1]) != [before]


def test_a_rotation_keeps_everybody_and_back_is_the_same(vault):
    salts = [vault.salt("visitor", person) for person in OLD]
    first = list(map(Cipher(KEY, SCOPE).seal, salts))
    with vault.change():
        second = rotated(first, KEY, SCOPE, to=2, vault=vault)
        third = rotated(second, KEY, SCOPE._replace(epoch=2), to=3, vault=vault)
        assert rotated(third, KEY, SCOPE._replace(epoch=3), to=1, vault=vault) == first
    assert len({*first, *second, *third}) == 3 * len(OLD)
    cipher = Cipher(KEY, SCOPE._replace(epoch=3))
    assert [vault.identifier("visitor", cipher.open(one)) for one in third] == OLD
    assert [one.scope.epoch for one in vault.holding(salts[0])] == [1, 2, 3, 1]


def test_a_rotation_refuses_a_row_of_somebody_who_was_erased(vault):
    pseudonyms = [Cipher(KEY, SCOPE).seal(vault.salt("visitor", person)) for person in OLD[:3]]
    vault.erase("visitor", OLD[1])
    with pytest.raises(BadInput, match="1 row is of people who were erased"), vault.change():
        rotated(pseudonyms, KEY, SCOPE, to=2, vault=vault)


def test_what_is_refused(vault, tmp_path):
    with pytest.raises(BadInput, match="in use by another command"):
        Vault(tmp_path / "vault", KEY)
    with pytest.raises(BadInput, match="one person would become two"), vault.change():
        vault.normalise_as("visitor", ["nfkc"])
    with pytest.raises(BadInput, match='it has "visitor"'):
        holdings(vault, KEY, "guest", "ann")
    vault.close()
    with pytest.raises(BadInput, match="of another key"):
        Vault(tmp_path / "vault", MasterKey(bytes(64)))
    (tmp_path / "text").write_text("no vault" * 200)
    with pytest.raises(BadInput, match="is no vault"):
        Vault(tmp_path / "text", KEY)
    with pytest.raises(WriteFailed, match="make the folder first"):
        Vault(tmp_path / "none" / "vault", KEY)


def insert(vault):
    publish(vault, NEW)


def rotate(vault):
    pseudonyms = [Cipher(KEY, SCOPE).seal(vault.salt("visitor", person)) for person in OLD]
    with vault.change():
        rotated(pseudonyms, KEY, SCOPE, to=2, vault=vault)


def erase_one(vault):
    vault.erase("visitor", OLD[9])


def state(vault):
    """All rows, as one value."""
    tables = ("subject", "publication", "held")
    return tuple(tuple(vault._base.execute(f"SELECT * FROM {name} ORDER BY 1, 2")) for name in tables)  # noqa: S608


def killed(path, work, *, statement=None, after_s=None):
    """Run ``work`` in a process of its own that is killed at its n-th statement or after a time; whether it was."""
    child = os.fork()
    if child == 0:
        vault, seen = Vault(path, KEY), []

        def count(_):
            seen.append(None)
            if len(seen) == statement:
                os.kill(os.getpid(), signal.SIGKILL)

        vault._base.set_trace_callback(count)
        try:
            work(vault)
        except BaseException:
            os._exit(1)
        os._exit(0)
    if after_s is not None:
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


@pytest.mark.parametrize("work", nightly_but((insert, rotate, erase_one), erase_one))
def test_a_vault_that_is_killed_is_the_old_or_the_new_one(work, tmp_path):
    path = tmp_path / "vault"
    with Vault(path, KEY) as vault:
        publish(vault, OLD)
        before, gone = state(vault), traces(vault, OLD[9])
        seen, begun = [], time.monotonic()
        vault._base.set_trace_callback(seen.append)
        work(vault)
        took = time.monotonic() - begun
    last = len(seen)
    points = [{"statement": 1 + last * at // 12} for at in range(12)] + [{"after_s": took * at / 4} for at in range(8)]
    outcomes = []
    for point in points:
        path.unlink()
        with Vault(path, KEY) as vault:
            put(vault, before)
        fell = killed(path, work, **point)
        with Vault(path, KEY) as vault:
            after = state(vault)
            if work is erase_one:
                assert (after == before) or not any(one in files(tmp_path) for one in gone)
            assert after == before or is_new(work, before, after)
            outcomes.append((fell, after == before))
    assert (True, True) in outcomes
    assert sum(fell for fell, _ in outcomes) >= 12


def put(vault, rows):
    """Exactly these rows."""
    with vault.change():
        vault.normalise_as("visitor", ["nfkc", "case"])
        for name, many in zip(("subject", "publication", "held"), rows, strict=True):
            for row in many:
                marks = ", ".join("?" * len(row))
                vault._base.execute(f"INSERT INTO {name} VALUES ({marks})", row)  # noqa: S608


def is_new(work, before, after):
    """Whether all of the work is there, and all that was before (but for who was erased)."""
    (subjects, _, held), (now, published, holding) = before, after
    if work is erase_one:
        return len(now) == len(subjects) - 1 and len(holding) == len(held) - 1 and set(now) < set(subjects)
    more = len(NEW) if work is insert else 0
    known = set(subjects) <= set(now) and set(held) <= set(holding)
    return known and len(now) == len(subjects) + more and len(published) == 2 and len(holding) == 2 * len(OLD)
