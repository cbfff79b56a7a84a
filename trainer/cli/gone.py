"""Verbs and options that were removed, each with the sentence that the command line answers."""

from __future__ import annotations

import re

# By what was typed, without ``edgeveil`` and its arguments. Commit baecb1ef is the last one that had them.
GONE = {
    "fleet accept": "`edgeveil fleet accept` was removed with the boards' reports: an MQTT sink publishes TOPIC/status "
    "(commit baecb1ef had it).",
    "fleet replace": "`edgeveil fleet replace` was removed: set the new board up as docs/how-to/replace-a-board.md "
    "describes, then run edgeveil fleet FILE flash (commit baecb1ef had it).",
    "fleet trust": "`edgeveil fleet trust` was removed: run edgeveil-edge trust trust-chain.json on each board, see "
    "docs/how-to/rotate-root-keys.md (commit baecb1ef had it).",
    "fleet status --reports": "--reports was removed: edgeveil fleet FILE status asks each board, and an MQTT sink "
    "publishes TOPIC/status (commit baecb1ef had it).",
    "fleet status --silent-after": "--silent-after was removed with --reports: watch the age of TOPIC/status at your "
    "broker (commit baecb1ef had it).",
    "estimate --reference": "--reference was removed with the estimates: edgeveil estimate shows the nearest published "
    "rows (commit baecb1ef had it).",
    "flash --report-to": "--report-to was removed: an MQTT sink publishes TOPIC/status, and Mender and RAUC report "
    "updates (commit baecb1ef had it).",
    "flash --report-logs": "--report-logs was removed with --report-to: edgeveil logs --on TARGET prints the log "
    "(commit baecb1ef had it).",
}


def gone(error: Exception) -> str | None:
    """The sentence for the removed verb or option that the parser's ``error`` is about; None for any other error."""
    words: list[str] = []
    context = getattr(error, "ctx", None)
    while context is not None and context.parent is not None:
        words.insert(0, context.info_name)
        context = context.parent
    verb = re.match(r"No such command '([^']+)'", str(error))
    return GONE.get(" ".join([*words, verb.group(1) if verb else getattr(error, "option_name", "")]))
