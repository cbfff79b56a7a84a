"""Commands and options of earlier versions that were deleted: each is refused with one sentence, which names what
replaces it. A key is a command (``fleet replace``) or an option of one (``recipe new --of``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from edgeveil.edge_runtime.errors import BadInput

if TYPE_CHECKING:
    pass


_ROUNDS = (
    "training by rounds over MQTT was deleted: estimate from private reports with edgeveil collect, or train on "
    "recorded or simulated private gradients with edgeveil.trainer.ext.local.lpsgd; commit baecb1ef has it"
)
GONE = {
    "accept": "taps of an operator were deleted: a service compares what it sends with its audit by itself (shift in "
    "/healthz, on_shift of a policy); commit baecb1ef has them",
    "federate": _ROUNDS,
    "recipe new --of": _ROUNDS,
    "fleet accept": "boards' reports were deleted: an MQTT sink publishes TOPIC/status; commit baecb1ef has them",
    "fleet replace": "set the new board up as docs/how-to/replace-a-board.md describes, then run edgeveil fleet FILE "
    "flash; commit baecb1ef has it",
    "fleet trust": "run edgeveil-edge trust trust-chain.json on each board, see docs/how-to/rotate-root-keys.md; "
    "commit baecb1ef has it",
    "fleet status --reports": "edgeveil fleet FILE status asks each board, and an MQTT sink publishes TOPIC/status; "
    "commit baecb1ef has it",
    "fleet status --silent-after": "watch the age of TOPIC/status at your broker; commit baecb1ef has it",
    "estimate --reference": "edgeveil estimate shows the nearest published rows; commit baecb1ef has it",
    "flash --report-to": "an MQTT sink publishes TOPIC/status, and Mender and RAUC report updates; "
    "commit baecb1ef has it",
    "flash --report-logs": "edgeveil logs --on TARGET prints the log; commit baecb1ef has it",
}


class Commands(TyperGroup):
    """A group of commands that refuses the deleted ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As usual. Raises ``BadInput`` for a deleted command, or a deleted option of one."""
        path = f"{_path(ctx)} {args[0]}".strip()
        options = [f"{path} {word.partition('=')[0]}" for word in args[1:] if word.startswith("--")]
        for word in (path, *options):
            if word in GONE:
                raise BadInput(f"edgeveil {word}: {GONE[word]}.")
        return super().resolve_command(ctx, args)


def _path(ctx: Any) -> str:
    """The commands that lead to this group, without arguments between them."""
    return "" if ctx.parent is None else f"{_path(ctx.parent)} {ctx.info_name}".strip()
