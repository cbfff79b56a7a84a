"""Unpacks the wheels of a flash into a folder next to the releases, and points the link ``site`` at it.

python3 - ARCHIVE SHA256 FOLDER
"""

import hashlib
import os
import shutil
import sys
import zipfile


def unpack(archive: str, sha: str, folder: str) -> None:
    """Unpack into a temporary folder, then rename it: ``folder`` is always complete. Exits if the archive differs."""
    with open(archive, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != sha:
            sys.exit("the wheels on the board differ from those that were sent: flash again")
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
