"""Secrets in a command's arguments: overwritten where process lists read them, and said once."""

import ctypes
import os
import sys
from typing import Iterable, List, Optional

# Of /proc/PID/stat, counted from the field behind the name, which may hold anything.
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 45, 46


def hide_secrets(source: Optional[str], sinks: Iterable[str]) -> None:
    """Overwrite in this process's own arguments what may be a secret of its source and sinks, and say what cures it."""
    texts = [text for text in [source] + list(sinks) if text and ("://" in text or text.startswith("preview:"))]
    if not texts:
        return
    from edgeveil.edge_runtime.sinks.uri import without_secrets

    shown = [without_secrets(text) for text in texts]
    overwrite([text for text, rest in zip(texts, shown) if text != rest])
    if source and source in texts and "?" in source:
        _say("--source has a query", '"source" in the file of --config')
    if any(text.startswith("preview:") and "token=" in text for text in texts):
        _say("--sink preview: has token=", "token_file=FILE")


def overwrite(secrets: List[str]) -> None:
    """Put asterisks in the place of each of these texts in this process's arguments, where the system allows it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        begin, end = int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_END])
    except (OSError, ValueError, IndexError):
        return  # no such system: the note says what cures it
    if not 0 < begin < end:
        return
    arguments = ctypes.string_at(begin, end - begin)
    for secret in secrets:
        data = os.fsencode(secret)
        at = arguments.find(data)
        while at >= 0:
            ctypes.memset(begin + at, ord("*"), len(data))
            at = arguments.find(data, at + len(data))


def _say(what: str, cure: str) -> None:
    sys.stderr.write(
        "note: {}, which may be a secret: the shell's history has it, and process lists showed it until now. Give it "
        "as {}.\n".format(what, cure)
    )
