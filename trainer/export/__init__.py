"""From a run to a signed bundle. ``export(run, profiles, out)`` is the way in; heavy imports wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.export.folder import ExportFolder

__all__ = ["export"]


def export(
    run: Path, profiles: Sequence[str], out: Path, *, all_formats: bool = False, emit: str = "frame"
) -> ExportFolder:
    """Export a run for boards: see ``trainer.export.make.export``."""
    from trainer.export.make import export as make

    return make(run, profiles, out, all_formats=all_formats, emit=emit)
