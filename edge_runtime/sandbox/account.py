"""Another user for a process that the service starts as root."""

import os
import pwd
import resource
from typing import List, NamedTuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sandbox import hardening

Account = NamedTuple("Account", [("uid", int), ("gid", int), ("groups", List[int]), ("home", str)])


def find_account(name: str) -> Account:
    """The account ``name`` with all its groups. Raises ``BadInput`` if this process cannot become it."""
    if os.geteuid() != 0:
        raise BadInput("only root can start a process as the user {}: run it as root".format(name))
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        problem = "expected a user of this system; there is no {}: add one with useradd --system".format(name)
        raise BadInput(problem) from None
    if user.pw_uid == 0:
        raise BadInput("expected a user other than root for the process with the camera; got {}".format(name))
    return Account(user.pw_uid, user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid), user.pw_dir)


def become(account: Account) -> None:
    """Run as that account from now on, irrevocably. Raises ``OSError`` if the system refuses.

    The process may then lock memory without limit, which only root can grant.
    """
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (ValueError, OSError):
        pass  # a container may forbid it; the inside reports whether its memory is locked
    os.setgroups(account.groups)
    os.setgid(account.gid)
    os.setuid(account.uid)
    os.environ["HOME"] = account.home
    hardening.no_new_privileges()
    # A change of user undoes both.
    hardening.no_core_dumps()
    hardening.end_with_parent()
