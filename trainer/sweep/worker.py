"""One point in a process of its own: folder and task (JSON) as arguments, its document as JSON on stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from edgeveil.trainer.sweep.engines import Task


def main() -> None:
    """Compute the point and print its document."""
    task = Task(**json.loads(sys.argv[2]))
    answer = sys.stdout
    sys.stdout = sys.stderr  # output of libraries is not part of the document
    json.dump(task.run(Path(sys.argv[1])), answer, allow_nan=False)


if __name__ == "__main__":
    main()
