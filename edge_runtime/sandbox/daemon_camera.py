"""The process that asks a camera's daemon for frames has that daemon's socket, and no network, file or program.

NVIDIA's CSI cameras belong to nvargus-daemon, which answers at a socket in the file system. The inside may open no
socket at all, so another process asks: in a network namespace of its own, with sockets of the file system alone.
"""

import os
import platform
from typing import Optional

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sandbox import account as accounts
from edgeveil.edge_runtime.sandbox import allowed_calls, hardening, landlock, namespaces, seccomp
from edgeveil.edge_runtime.sandbox.account import Account


def enter(account: Optional[Account]) -> None:
    """Cut this process off from all but sockets of the file system and devices, as ``account`` or as nobody.

    All code must be loaded and the pipeline be made: afterwards no program starts. Raises ``OSError`` if the system
    refuses the account, ``BadInput`` if it would remain root.
    """
    hardening.no_terminal()
    separate = namespaces.without_network()
    if account is not None:
        accounts.become(account)
    elif os.geteuid() == 0:
        accounts.become(accounts.nobody())
    if 0 in (os.getuid(), os.geteuid()):
        raise BadInput("the process that asks for a camera's frames does not run as root: name a user, --inside-user")
    if not separate:
        namespaces.without_network(user=True)
    hardening.limit_memory(machine.process_limit_bytes())
    hardening.no_new_privileges()
    hardening.set_capabilities(0)
    hardening.no_core_dumps()
    hardening.end_with_parent()  # a change of user or rights undid both
    # It may read, for its library's settings, and write to devices; no file is made anywhere.
    landlock.restrict(["/"], ["/dev"])
    seccomp.restrict(allowed_calls.by_daemon(), platform.machine())
