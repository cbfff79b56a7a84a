"""Makes the empty ledger of a service, as its user: in that user's folder, root touches no name.

python3 - RUNTIME PLACE USER [anew]: a ledger that is there then gets a dated name.
"""

import os
import pwd
import sys


def main(runtime: str, place: str, user: str, anew: str = "") -> None:
    """Make the folder of ``place``, then become ``user`` for good and have the runtime make the ledger there.

    Only root may change the folder above, so no other user set the name that is opened here. Exits if it is a link.
    """
    sys.path.insert(0, runtime)  # the installed one, which is root's; all of it is loaded while this is root
    from edgeveil.edge_runtime.errors import EdgeVeilError
    from edgeveil.edge_runtime.ext.ledger.book import create
    from edgeveil.edge_runtime.util.atomic import set_aside

    owner, folder = pwd.getpwnam(user), os.path.dirname(place)
    if not os.path.lexists(folder):
        os.makedirs(folder, 0o755)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        sys.exit("error: expected a folder for the ledger at {}: {}".format(folder, error.strerror))
    os.fchown(handle, owner.pw_uid, owner.pw_gid)
    os.fchmod(handle, 0o755)
    os.setgroups([])
    os.setgid(owner.pw_gid)
    os.setuid(owner.pw_uid)
    try:
        if anew:
            set_aside(place)
        create(place)
    except EdgeVeilError as error:
        sys.stderr.write("error: {}\n".format(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
