"""Prints what lies on a board's root file system, as JSON: path -> [mode, owner, group, content's hash or target].

Sent to a board. ``sys.argv[1]`` is a JSON list of patterns of paths that are left out, with all below them.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

HERE = Path("/").lstat().st_dev
LEFT_OUT = re.compile("|".join(f"({one})" for one in json.loads(sys.argv[1])))


def walk(folder, found):
    """Add what is below a folder of this file system. No times, which each look changes."""
    for path in sorted(folder.iterdir()):
        if LEFT_OUT.fullmatch(str(path)):
            continue
        status, what = path.lstat(), ""
        if path.is_symlink():
            what = str(path.readlink())
        elif path.is_file():
            whole = hashlib.sha256()
            with path.open("rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    whole.update(block)
            what = whole.hexdigest()
        found[str(path)] = [oct(status.st_mode), status.st_uid, status.st_gid, what]
        if path.is_dir() and not path.is_symlink() and status.st_dev == HERE:
            walk(path, found)
    return found


print(json.dumps(walk(Path("/"), {})))
