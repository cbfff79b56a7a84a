"""The output of commands: one JSON document, or lines for people."""

import json
import sys
from typing import Any, Callable, Dict, Iterable, Optional, TextIO

EXIT_CODES = "exit codes: 0 done, 2 your mistake, 3 figures not valid, 4 the device failed, 70 stopped, 130 interrupted"
Document = Dict[str, Any]


def print_document(
    document: Document,
    lines: Callable[[Document], Iterable[str]],
    *,
    as_json: bool,
    file: Optional[TextIO] = None,
) -> None:
    """Print one document on stdout (or ``file``): as JSON, or as the ``lines`` made of it."""
    file = file or sys.stdout
    text = json.dumps(document, sort_keys=True, allow_nan=False) if as_json else "\n".join(lines(document))
    encoding = file.encoding or "utf-8"  # a path need not be text in it
    file.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    file.flush()
