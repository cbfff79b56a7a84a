"""Another user for a process that the service starts as root."""

import ctypes
import os
import pwd
import resource
from typing import List, NamedTuple

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sandbox import hardening

_NOBODY = 65534  # everywhere; not looked up, which may ask another process
_PR_SET_KEEPCAPS, _CAP_SETUID = 8, 1 << 7

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


def nobody() -> Account:
    """The account of nobody, with no group but its own."""
    return Account(_NOBODY, _NOBODY, [], "/nonexistent")


def become(account: Account, *, files_of_root: bool = False) -> None:
    """Run as that account from now on, irrevocably. Raises ``OSError`` if the system refuses.

    The process may then lock memory without limit, which only root can grant. ``files_of_root``: it still counts as
    their owner where it opens files, and as nothing more, until its next change of user.
    """
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (ValueError, OSError):
        pass  # a container may forbid it; the inside reports whether its memory is locked
    os.setgroups(account.groups)
    os.setgid(account.gid)
    if files_of_root:
        hardening.prctl(_PR_SET_KEEPCAPS, 1)
    # The saved one too, from which there would be a way back.
    os.setresuid(*[account.uid] * 3)
    if files_of_root:
        hardening.set_capabilities(_CAP_SETUID)
        ctypes.CDLL(None).setfsuid(0)
        hardening.set_capabilities(0)
    os.environ["HOME"] = account.home
    hardening.no_new_privileges()
    # A change of user undoes both.
    hardening.no_core_dumps()
    hardening.end_with_parent()
