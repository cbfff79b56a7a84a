"""Pseudonyms: how many a second, the vault with 1e5 people, nobody lost by rotations, nothing left after an erasure.

Records docs/results/publishing/pseudonyms.json; the page is docs/results/publishing.md. Seconds are of this process
alone; those of the vault are by the clock too, in which the disk and other programs are waited for, of the shortest of
three tries. Beside them stands SQLite alone, with the same settings and rows. Ends with 3 where something is slower or
lost.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.pseudonym import Cipher, Scope
from edgeveil.trainer.pseudonyms.rotation import rotated
from edgeveil.trainer.pseudonyms.vault import SALT, TABLES, Publication, Vault
from edgeveil.trainer.pseudonyms.vault_file import VaultFile
from scripts.reproduce import record

RESULT = Path("docs/results/publishing/pseudonyms.json")
PEOPLE, ERASED, TRIES = 100_000, 20, 3
NAME, SEALED = 32, 30  # bytes of the other columns of a row
LEAST_PER_S, MOST_INSERT_S = 2e5, 4.0
SCOPE = Scope("university", "visitor", 1)


def main() -> int:
    """Run all, and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    asked = script.parse_args()
    key = MasterKey(os.urandom(64))
    document = {**record.here(), "people": PEOPLE, "speed": _speed(key), "scopes": _scopes(key)}
    with tempfile.TemporaryDirectory() as folder:
        speed = {"ours": _inserted(key, Path(folder)), "sqlite_alone": _sqlite_alone(Path(folder))}
        document["vault"] = {"insert": speed, **_vault(key, Path(folder) / "kept")}
    checks = {
        "fast": document["speed"]["seal_per_s"] >= LEAST_PER_S,
        "inserted": document["vault"]["insert"]["ours"]["s"] <= MOST_INSERT_S,
        **document["scopes"],
        **{
            name: document["vault"][name]
            for name in ("all_revealed", "rotations_keep_all", "no_trace", "erased_is_said")
        },
    }
    document["checks"] = checks
    record.write(asked.out, script.made_by(asked), document)
    for name, held in checks.items():
        if not held:
            print(f"not held: {name}")
    return 0 if all(checks.values()) else 3


def _timed(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[Any, float]:
    begun = clock()
    found = work()
    return found, clock() - begun


def _speed(key: MasterKey) -> dict[str, float]:
    salts, cipher = [os.urandom(SALT) for _ in range(PEOPLE)], Cipher(key, SCOPE)
    made, seal_s = _timed(lambda: [cipher.seal(salt) for salt in salts])
    opened, open_s = _timed(lambda: [cipher.open(one) for one in made])
    if opened != salts:
        raise AssertionError("a pseudonym opened as another salt")
    return {"seal_per_s": round(PEOPLE / seal_s), "open_per_s": round(PEOPLE / open_s)}


def _scopes(key: MasterKey) -> dict[str, bool]:
    salts = [os.urandom(SALT) for _ in range(1000)]
    ours = Cipher(key, SCOPE)
    others = [
        Cipher(key, SCOPE._replace(**one)) for one in ({"recipient": "ministry"}, {"field": "door"}, {"epoch": 2})
    ]
    made = {ours.seal(salt) for salt in salts}
    common = any(made & {other.seal(salt) for salt in salts} for other in others)
    return {
        "no_common_value": not common,
        "others_refuse": all(_refuses(other, one) for other in others for one in made),
    }


def _refuses(cipher: Cipher, pseudonym: str) -> bool:
    try:
        cipher.open(pseudonym)
    except BadInput:
        return True
    return False


def _people() -> list[str]:
    return [f"visitor {number}" for number in range(PEOPLE)]


def _insert(vault: Vault, people: list[str]) -> list[bytes]:
    with vault.change():
        vault.normalise_as("visitor", [])
        return vault.salts("visitor", people)


def _inserted(key: MasterKey, folder: Path) -> dict[str, float]:
    tries = []
    for number in range(TRIES):
        with Vault(folder / f"vault-{number}", key) as vault:
            tries.append(_both(partial(_insert, vault, _people())))
    return _shortest(tries)


def _sqlite_alone(folder: Path) -> dict[str, float]:
    """The same rows without a key: what no vault on SQLite can be faster than."""
    tries = []
    for number in range(TRIES):
        rows = sorted((os.urandom(NAME), os.urandom(SALT), os.urandom(SEALED)) for _ in range(PEOPLE))
        file = VaultFile(folder / f"alone-{number}")
        file.base.executescript(TABLES)

        def insert(file: VaultFile = file, rows: list[tuple[bytes, ...]] = rows) -> None:
            with file.change():
                file.base.executemany("INSERT INTO subject VALUES (?, ?, ?)", rows)

        tries.append(_both(insert))
        file.base.close()
    return _shortest(tries)


def _both(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds by the clock, and of this process."""
    (_, clock_s), cpu_s = _timed(lambda: _timed(work, time.perf_counter))
    return {"s": round(clock_s, 2), "cpu_s": round(cpu_s, 2)}


def _shortest(tries: list[dict[str, float]]) -> dict[str, float]:
    return min(tries, key=lambda one: one["s"])


def _vault(key: MasterKey, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    people = _people()
    with Vault(folder / "vault", key) as vault:
        salts = _insert(vault, people)
        first = list(map(Cipher(key, SCOPE).seal, salts))
        revealed = [vault.identifier("visitor", Cipher(key, SCOPE).open(one)) for one in first]
        with vault.change():
            vault.record({Publication("first", SCOPE): salts})
            second = rotated(first, key, SCOPE, to=2, vault=vault)
            third = rotated(second, key, SCOPE._replace(epoch=2), to=3, vault=vault)
            back = rotated(third, key, SCOPE._replace(epoch=3), to=1, vault=vault)
        traces = []
        said = True
        for number in range(0, PEOPLE, PEOPLE // ERASED):
            traces += [salts[number], *_row(vault, salts[number])]
            vault.erase("visitor", people[number])
            said &= _is_erased(vault, salts[number])
        stays = _row(vault, salts[1])
        left = b"".join(path.read_bytes() for path in folder.iterdir())
    return {
        "all_revealed": revealed == people,
        "rotations_keep_all": back == first and not set(first) & {*second, *third},
        "erased": ERASED,
        "no_trace": not any(one in left for one in traces) and all(one in left for one in stays),
        "erased_is_said": said,
    }


def _row(vault: Vault, salt: bytes) -> list[bytes]:
    """The other bytes of a subject's row."""
    return [*vault._base.execute("SELECT name, sealed FROM subject WHERE salt = ?", (salt,)).fetchone()]


def _is_erased(vault: Vault, salt: bytes) -> bool:
    try:
        vault.identifier("visitor", salt)
    except BadInput as error:
        return "erased" in str(error)
    return False


if __name__ == "__main__":
    record.run(main)
