"""An audit's journal: what its attacks answered is kept until the audit is done."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.attacks.journal import Journal
from edgeveil.trainer.audit.document import PACKAGES
from edgeveil.trainer.progress import say
from edgeveil.trainer.results import locked
from edgeveil.trainer.runs.versions import package_versions


def versions() -> str:
    """What computes an answer, as text: with other versions it may be another."""
    return repr(sorted(package_versions(PACKAGES).items()))


@contextmanager
def kept_answers(folder: Path, *, resume: bool) -> Iterator[Journal]:
    """The journal in ``folder``, which goes when the block is done, and stays where it is broken off.

    Raises ``BadInput`` where an audit that was broken off left answers there, unless ``resume``.
    """
    with locked(folder, "audit"):
        journal = Journal(folder, made_by=versions())
        if len(journal) and not resume:
            raise BadInput(
                f"An audit of these rows with this budget and seed was broken off; answers of "
                f"{counted(len(journal), 'attack')} "
                f"are kept. Add --resume to continue it, or remove {folder} to begin anew."
            )
        try:
            yield journal
        except KeyboardInterrupt:
            say(
                f"Answers of {counted(len(journal), 'attack')} are kept in {folder}; the same command "
                f"with --resume continues."
            )
            raise
        shutil.rmtree(folder, ignore_errors=True)
