"""``edgeveil trust``: who may sign for a fleet's boards."""

from __future__ import annotations

import hashlib
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli.common import Json, NoPassphrase, PassphraseFile, new_passphrase, passphrase_of, print_view
from edgeveil.trainer.progress import say

if TYPE_CHECKING:
    from edgeveil.trainer.sealing.trust_file import TrustFolder

trust = typer.Typer(
    help="Who may sign what for your boards: root keys that stay offline, and the versioned list that they sign.",
    no_args_is_help=True,
)


class RoleName(str, Enum):
    """The roles of a trust file."""

    maker = "maker"
    auditor = "auditor"
    release = "release"
    runtime = "runtime"
    root = "root"


Folder = Annotated[
    Path, typer.Argument(help="Folder of root.pub and trust.json (and of one root key): keep it offline.")
]
RoleOption = Annotated[
    RoleName,
    typer.Option(
        "--role", help="maker: bundles; auditor: audits; release: the index of updates; runtime: edge runtimes; root."
    ),
]
Threshold = Annotated[
    int | None, typer.Option(min=1, help="How many keys of the role must sign; default: as many as today.")
]
Named = Annotated[str, typer.Argument(help="Name of the key, or at least its first 8 digits.")]
Roots = Annotated[list[Path] | None, typer.Option("--root-key", help="signing.pub of a root key's holder; repeat it.")]


@trust.command(
    epilog="Examples: edgeveil trust init root --key keys/signing.pub --audience ward-7; edgeveil trust init root "
    "--key keys/signing.pub --root-key ann.pub --root-key bob.pub --root-key eve.pub --threshold 2"
)
def init(
    folder: Folder,
    key: Annotated[list[Path], typer.Option("--key", help="signing.pub of a key that may sign bundles; repeat it.")],
    audience: Annotated[str, typer.Option(help="Name of the board or fleet, for bundles made out to it alone.")] = "",
    product: Annotated[str, typer.Option(help="Name of its update index; default: that of the first index.")] = "",
    auditor: Annotated[list[Path] | None, typer.Option(help="signing.pub of an auditor; repeat it.")] = None,
    release: Annotated[
        list[Path] | None, typer.Option(help="signing.pub of a key for the index of updates; default: the makers'.")
    ] = None,
    runtime: Annotated[
        list[Path] | None, typer.Option(help="signing.pub of a key for edge runtimes; repeat it.")
    ] = None,
    root: Roots = None,
    threshold: Annotated[int, typer.Option(min=1, help="How many of the root keys must sign.")] = 1,
    passphrase_file: PassphraseFile = None,
    no_passphrase: NoPassphrase = False,
) -> None:
    """Make the first trust file, and a root key unless its holders are named. The first flash puts it on a board."""
    from edgeveil.edge_runtime.bundle.trust_file import AUDITOR, RELEASE, RUNTIME
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    passphrase = None if root else new_passphrase(passphrase_file, none=no_passphrase)
    made = TrustFolder.init(
        folder,
        key,
        audience=audience,
        product=product,
        passphrase=passphrase,
        roots=root or (),
        threshold=threshold,
        others={AUDITOR: auditor or (), RELEASE: release or (), RUNTIME: runtime or ()},
    )
    _print(made)


@trust.command(epilog="Example: edgeveil trust add root keys2/signing.pub --role auditor")
def add(
    folder: Folder,
    key: Annotated[Path, typer.Argument(help="signing.pub of the key.")],
    role: RoleOption = RoleName.maker,
    threshold: Threshold = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Give one more key a role: by default, it may sign bundles."""
    passphrase = _passphrase(folder, passphrase_file)
    _print(_open(folder).add(key, role=role.value, threshold=threshold, passphrase=passphrase))


@trust.command(epilog="Example: edgeveil trust remove root key-1f2e3d4c --role auditor")
def remove(
    folder: Folder,
    key: Named,
    role: RoleOption = RoleName.maker,
    threshold: Threshold = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Take a role from a key. It may get it again; revoke is for ever and for all roles."""
    passphrase = _passphrase(folder, passphrase_file)
    _print(_open(folder).remove(key, role=role.value, threshold=threshold, passphrase=passphrase))


@trust.command(epilog="Example: edgeveil trust revoke root key-1f2e3d4c")
def revoke(folder: Folder, key: Named, passphrase_file: PassphraseFile = None) -> None:
    """Revoke a key for ever. Boards refuse what it signed as soon as they have the new trust file."""
    _print(_open(folder).revoke(key, passphrase=_passphrase(folder, passphrase_file)))


@trust.command(epilog="Example: edgeveil trust rotate root --root-key new/signing.pub")
def rotate(
    folder: Folder,
    root: Roots = None,
    threshold: Annotated[int, typer.Option(min=1, help="How many of the new root keys must sign.")] = 1,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Replace the root keys: holders of the old ones and of the new ones sign (edgeveil trust sign)."""
    _print(_open(folder).rotate(root or (), threshold, passphrase=_passphrase(folder, passphrase_file)))


@trust.command(epilog="Example: edgeveil trust sign root --key ann/signing.key")
def sign(
    folder: Folder,
    key: Annotated[str, typer.Option(help="signing.key of a root key, or its pkcs11: address.")],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Add one root key's signature to what waits in the folder; enough of them put it in force."""
    _print(_open(folder).sign(key, passphrase=passphrase_of(key, passphrase_file)))


@trust.command(epilog="Example: edgeveil trust upgrade root")
def upgrade(folder: Folder, passphrase_file: PassphraseFile = None) -> None:
    """Bring a trust folder of version 0.1 or 0.2 to roles. Its boards take the new trust.json over; no way back."""
    _print(_open(folder).upgrade(passphrase=_passphrase(folder, passphrase_file)))


@trust.command(epilog="Example: edgeveil trust require root 5")
def require(
    folder: Folder,
    security_version: Annotated[int, typer.Argument(help="The least security version that boards accept.")],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Raise the least security version that boards accept."""
    _print(_open(folder).require(security_version, passphrase=_passphrase(folder, passphrase_file)))


@trust.command("reset-floor", epilog="Example: edgeveil trust reset-floor root 3")
def reset_floor(
    folder: Folder,
    floor: Annotated[int, typer.Argument(min=0, help="The least security version that boards accept from then on.")],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Lower the floor of boards, once, to go back to an older release; they take it with edgeveil-edge trust."""
    _print(_open(folder).reset_floor(floor, passphrase=_passphrase(folder, passphrase_file)))


@trust.command("set", epilog="Example: edgeveil trust set root --product hall --index-stale-days 30")
def settings(
    folder: Folder,
    product: Annotated[
        str | None, typer.Option(help="Name of the bundles and of the update index that boards take.")
    ] = None,
    index_stale_days: Annotated[
        int | None, typer.Option(min=0, max=3650, help="Stop the service so long after the last new index; 0: never.")
    ] = None,
    runtime: Annotated[
        list[str] | None,
        typer.Option(help="Edge runtimes that may run as root: .pyz files or their SHA-256, all of them."),
    ] = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Change what boards hold the index of updates and their runtime to."""
    changes: dict[str, Any] = {} if product is None else {"product": product}
    if index_stale_days is not None:
        changes["index_stale_days"] = index_stale_days or None
    if runtime is not None:
        changes["runtimes"] = tuple(sorted({_runtime(one) for one in runtime}))
    if not changes:
        raise BadInput("A setting was expected: --product, --index-stale-days or --runtime.")
    _print(_open(folder).settle(passphrase=_passphrase(folder, passphrase_file), **changes))


@trust.command(epilog="Example: edgeveil trust policy root policy.json")
def policy(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(help="policy.json: what bundles must hide (docs/how-to/trust-and-policy.md).")
    ],
    passphrase_file: PassphraseFile = None,
) -> None:
    """Sign a policy for boards in use (edgeveil-edge policy installs it). New boards get it with their first flash."""
    version = _open(folder).sign_policy(file, passphrase=_passphrase(folder, passphrase_file))
    waits = folder / "policy-pending.json"
    if waits.exists():
        print(f"Version {version} of the policy waits in {waits} for more signatures.")
        _ask_to_sign(folder)
    else:
        print(f"Version {version} of the policy is {folder / 'policy-signed.json'}.")


@trust.command(epilog="Example: edgeveil trust show root")
def show(folder: Folder, as_json: Json = False) -> None:
    """Print roles, keys, thresholds and versions, and the fingerprints to compare with those of a board."""
    print_view(_open(folder), as_json=as_json)


def _open(folder: Path) -> TrustFolder:
    from edgeveil.trainer.sealing.trust_file import TrustFolder

    return TrustFolder.open(folder)


def _passphrase(folder: Path, file: Path | None) -> str | None:
    """That of the root key in the folder; None where its holders keep theirs elsewhere."""
    from edgeveil.trainer.sealing.keys import KEY_FILE

    return passphrase_of(folder / KEY_FILE, file) if (folder / KEY_FILE).exists() else None


def _print(made: TrustFolder) -> None:
    print(made.text())
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
