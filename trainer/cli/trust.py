"""``edgeveil trust``: who may sign for a fleet's boards."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput, nearest
from edgeveil.trainer.cli.common import Json, NoPassphrase, new_passphrase, passphrase_of, print_either, print_view
from edgeveil.trainer.cli.tree import trust
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    from edgeveil.trainer.sealing.trust_file import TrustFolder


class RoleName(str, Enum):
    """The roles of a trust file."""

    maker = "maker"
    auditor = "auditor"
    release = "release"
    runtime = "runtime"
    settings = "settings"
    root = "root"


Folder = Annotated[
    Path, typer.Argument(help="Folder of root.pub and trust.json (and of one root key): keep it offline.")
]
RoleOption = Annotated[
    RoleName,
    typer.Option(
        "--role",
        help="maker: bundles; auditor: audits; release: the index of updates; runtime: edge runtimes; settings; root.",
    ),
]
Threshold = Annotated[
    int | None, typer.Option(min=1, help="How many keys of the role must sign; default: as many as today.")
]
Named = Annotated[str, typer.Argument(help="Name of the key, or at least its first 8 digits.")]


@trust.command(
    epilog="Examples: edgeveil trust init root --key keys/signing.pub --audience ward-7; edgeveil trust init root "
    "--key keys/signing.pub --key root=ann.pub --key root=bob.pub --key root=eve.pub --threshold 2"
)
def init(
    folder: Folder,
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            help="signing.pub of a key that may sign bundles, or ROLE=signing.pub: auditor, release, runtime, "
            "settings, root.",
        ),
    ],
    audience: Annotated[str, typer.Option(help="Name of the board or fleet, for bundles made out to it alone.")] = "",
    product: Annotated[str, typer.Option(help="Name of its update index; default: that of the first index.")] = "",
    threshold: Annotated[int, typer.Option(min=1, help="How many of the root keys must sign.")] = 1,
    no_passphrase: NoPassphrase = False,
    as_json: Json = False,
) -> None:
    """Make the first trust file, and a root key unless its holders are named. The first flash puts it on a board."""
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    named: dict[str, list[Path]] = {role.value: [] for role in RoleName}
    for text in key:
        role, equals, path = text.partition("=")
        named[role if equals and role in named else "maker"].append(Path(path if equals and role in named else text))
    roots = named["root"]
    if not named["maker"]:
        raise BadInput("A key that may sign bundles was expected: --key signing.pub, without a role before it.")
    trust_folder = TrustFolder.init(
        folder,
        named["maker"],
        audience=audience,
        product=product,
        passphrase=None if roots else new_passphrase(none=no_passphrase),
        roots=roots,
        threshold=threshold,
        others={role: paths for role, paths in named.items() if role not in ("maker", "root")},
    )
    _print(trust_folder, as_json)


@trust.command(epilog="Example: edgeveil trust add root keys2/signing.pub --role auditor")
def add(
    folder: Folder,
    key: Annotated[Path, typer.Argument(help="signing.pub of the key.")],
    role: RoleOption = RoleName.maker,
    threshold: Threshold = None,
    as_json: Json = False,
) -> None:
    """Give one more key a role: by default, it may sign bundles."""
    passphrase = _passphrase(folder)
    _print(_open(folder).add(key, role=role.value, threshold=threshold, passphrase=passphrase), as_json)


@trust.command(epilog="Example: edgeveil trust remove root key-1f2e3d4c --role auditor")
def remove(
    folder: Folder, key: Named, role: RoleOption = RoleName.maker, threshold: Threshold = None, as_json: Json = False
) -> None:
    """Take a role from a key. It may get it again; revoke is for ever and for all roles."""
    passphrase = _passphrase(folder)
    _print(_open(folder).remove(key, role=role.value, threshold=threshold, passphrase=passphrase), as_json)


@trust.command(epilog="Example: edgeveil trust revoke root key-1f2e3d4c")
def revoke(folder: Folder, key: Named, as_json: Json = False) -> None:
    """Revoke a key for ever. Boards refuse what it signed as soon as they have the new trust file."""
    _print(_open(folder).revoke(key, passphrase=_passphrase(folder)), as_json)


@trust.command(epilog="Example: edgeveil trust rotate root --key new/signing.pub")
def rotate(
    folder: Folder,
    key: Annotated[list[Path] | None, typer.Option("--key", help="signing.pub of a new root key; repeat it.")] = None,
    threshold: Annotated[int, typer.Option(min=1, help="How many of the new root keys must sign.")] = 1,
    as_json: Json = False,
) -> None:
    """Replace the root keys: holders of the old ones and of the new ones sign (edgeveil trust sign)."""
    _print(_open(folder).rotate(key or (), threshold, passphrase=_passphrase(folder)), as_json)


@trust.command(epilog="Example: edgeveil trust sign root --key ann/signing.key")
def sign(
    folder: Folder,
    key: Annotated[str, typer.Option(help="signing.key of a root key, or its pkcs11: address.")],
    as_json: Json = False,
) -> None:
    """Add one root key's signature to what waits in the folder; enough of them put it in force."""
    _print(_open(folder).sign(key, passphrase=passphrase_of(key)), as_json)


# Keys of trust set: those of one signature, and those of which each is a signature of its own.
TOGETHER = {
    "product": "name of the bundles and of the update index that boards take",
    "index-stale-days": "stop the service so long after the last new index (0: never)",
    "runtime": "edge runtime that may run as root, a .pyz file or its SHA-256; once for each of them",
}
ALONE = {
    "require": "the least security version that boards accept; it goes up alone",
    "floor": "lower the floor of boards to that security version, once, to go back to an older release; they take it "
    "with edgeveil-edge trust",
    "policy": "sign policy.json, what bundles must hide (docs/how-to/trust-and-policy.md), for boards in use: "
    "edgeveil-edge policy installs it. New boards get it with their first flash",
}


@trust.command(
    "set",
    epilog="Examples: edgeveil trust set root product=hall index-stale-days=30; edgeveil trust set root require=5; "
    "edgeveil trust set root floor=3; edgeveil trust set root policy=policy.json; edgeveil trust set root --upgrade",
)
def settings(
    folder: Folder,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE...",
            help=f"{'; '.join(f'{key}: {text}' for key, text in TOGETHER.items())}. "
            f"Alone, {'; '.join(f'{key}: {text}' for key, text in ALONE.items())}.",
        ),
    ] = None,
    upgrade: Annotated[
        bool,
        typer.Option(
            "--upgrade",
            help="Bring a folder of version 0.1 or 0.2 to roles. Its boards take the new trust.json over; no way back.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Change what boards hold bundles, the index of updates and their runtime to."""
    given = _changes(changes or ())
    if bool(given.keys() & TOGETHER.keys()) + len(given.keys() & ALONE.keys()) + upgrade != 1:
        together, alone = ("=, ".join(keys) for keys in (TOGETHER, ALONE))
        raise BadInput(f"One change was expected: {together}= together, or {alone}= or --upgrade alone.")
    passphrase, opened = _passphrase(folder), _open(folder)
    if "policy" in given:
        _policy(opened, Path(given["policy"][-1]), passphrase, as_json)
    elif "require" in given:
        _print(opened.require(_number("require", given), passphrase=passphrase), as_json)
    elif "floor" in given:
        _print(opened.reset_floor(_number("floor", given), passphrase=passphrase), as_json)
    elif upgrade:
        _print(opened.upgrade(passphrase=passphrase), as_json)
    else:
        values: dict[str, Any] = {"product": given["product"][-1]} if "product" in given else {}
        if "index-stale-days" in given:
            values["index_stale_days"] = _number("index-stale-days", given, most=3650) or None
        if "runtime" in given:
            values["runtimes"] = tuple(sorted({_runtime(one) for one in given["runtime"]}))
        _print(opened.settle(passphrase=passphrase, **values), as_json)


def _changes(words: Sequence[str]) -> dict[str, list[str]]:
    """The values of each key. Raises ``BadInput`` for a word that is no KEY=VALUE of a key that there is."""
    given: dict[str, list[str]] = {}
    keys = (*TOGETHER, *ALONE)
    for word in words:
        key, equals, value = word.partition("=")
        if key not in keys or not equals:
            near = nearest(key, keys)
            meant = f" Did you mean {near}=?" if near else ""
            raise BadInput(f"Expected KEY=VALUE with a key of {', '.join(keys)}; got {word}.{meant}")
        given.setdefault(key, []).append(value)
    twice = [key for key, values in given.items() if len(values) > 1 and key != "runtime"]
    if twice:
        raise BadInput(f"{twice[0]}: one value was expected; got {len(given[twice[0]])}.")
    return given


def _number(key: str, given: Mapping[str, Sequence[str]], most: int = 2**31 - 1) -> int:
    (text,) = given[key]
    if not (text.isascii() and text.isdigit() and int(text[:20]) <= most):
        raise BadInput(f"{key}: a whole number from 0 to {most} was expected; got {text}.")
    return int(text)


def _policy(opened: TrustFolder, file: Path, passphrase: str | None, as_json: bool) -> None:
    version = opened.sign_policy(file, passphrase=passphrase)
    waits = opened.folder / "policy-pending.json"
    text = f"Version {version} of the policy is {opened.folder / 'policy-signed.json'}."
    if waits.exists():
        text = f"Version {version} of the policy waits in {waits} for more signatures."
    print_either({"schema": 1, "policy_version": version, "waits": waits.exists()}, text, as_json=as_json)
    if waits.exists():
        _ask_to_sign(opened.folder)


@trust.command(epilog="Example: edgeveil trust show root")
def show(folder: Folder, as_json: Json = False) -> None:
    """Print roles, keys, thresholds and versions, and the fingerprints to compare with those of a board."""
    print_view(_open(folder), as_json=as_json)


def _open(folder: Path) -> TrustFolder:
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    return TrustFolder.open(folder)


def _passphrase(folder: Path) -> str | None:
    """That of the root key in the folder; None where its holders keep theirs elsewhere."""
    from edgeveil.trainer.sealing.keys import KEY_FILE

    return passphrase_of(folder / KEY_FILE) if (folder / KEY_FILE).exists() else None


def _print(made: TrustFolder, as_json: bool) -> None:
    print_view(made, as_json=as_json)
    if made.pending is not None:
        _ask_to_sign(made.folder)


def _ask_to_sign(folder: Path) -> None:
    say(f"Next: its holders run edgeveil trust sign {folder} --key signing.key")


def _runtime(text: str) -> str:
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return text
    try:
        return hashlib.sha256(Path(text).read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(f"Expected an edge runtime or its SHA-256; {text} cannot be read: {error.strerror}.") from None
