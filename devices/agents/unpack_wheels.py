"""Unpacks the wheels of a flash into a folder beside the releases, and has the link ``site`` name it.

python3 - ARCHIVE SHA256 FOLDER
"""

import hashlib
import os
import shutil
import sys
import zipfile


def unpack(archive: str, sha: str, folder: str) -> None:
    """Unpack beside the folder's name and rename: that name is never the name of a part. Exits where a byte differs."""
    with open(archive, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != sha:
            sys.exit("the wheels came out different on the board")
    shutil.rmtree(folder + ".new", ignore_errors=True)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder + ".new")
    os.sync()
    if not os.path.isdir(folder):
        os.rename(folder + ".new", folder)
    link = os.path.join(os.path.dirname(folder), "site")
    if os.path.lexists(link + ".tmp"):
        os.unlink(link + ".tmp")
    os.symlink(os.path.basename(folder), link + ".tmp")
    os.rename(link + ".tmp", link)
    os.sync()


if __name__ == "__main__":
    unpack(*sys.argv[1:])
