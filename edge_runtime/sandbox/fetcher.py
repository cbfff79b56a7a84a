"""The process that fetches a network camera's frames has a network, and no file, program or process of this device.

It reads a stranger's bytes, and RTSP is decoded there. A seccomp filter leaves it sockets of the internet alone, and
Landlock the system's files and, where the kernel knows that, TCP to the camera's port. It has no capability, and is
never root.
"""

import os
import platform
import ssl
from typing import List, Optional

from edgeveil.edge_runtime import camera_address
from edgeveil.edge_runtime.sandbox import allowed_calls, hardening, isolation, landlock, seccomp
from edgeveil.edge_runtime.sandbox.isolation import Account, runtime_files

RESOLVER = "/etc/resolv.conf"
_DNS = 53
_NAMES = ("/etc/gai.conf", "/etc/host.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", RESOLVER)
_TLS = ("/etc/ssl/certs", "/etc/ssl/openssl.cnf")


def enter(source: str, account: Optional[Account], *, own_port: Optional[int] = None) -> None:
    """Cut this process off from all but the network, as ``account``, or as ``nobody`` where it was started as root.

    ``source`` is the address of the camera, ``own_port`` one of the loopback that this process listens on. All code
    must be loaded: the user may not be able to read it. Raises ``OSError`` if the system refuses the account,
    ``BadInput`` if it would remain root.
    """
    hardening.no_terminal()
    refusal = "the process that fetches a camera's frames does not run as root: name a user, --inside-user"
    isolation.leave_root(account, refusal)
    hardening.no_files()
    isolation.give_up_rights()
    ports = [camera_address.parse(source).port, _DNS]
    rules = allowed_calls.fetching(os.getpid())
    if own_port is not None:
        ports.append(own_port)
        rules = allowed_calls.accepting(rules)
    landlock.restrict(_readable(), [], ports)
    seccomp.restrict(rules, platform.machine())


def resolver_state() -> Optional[int]:
    """What changes when the list of name servers is replaced by another file, which this process could not read."""
    try:
        return os.stat(RESOLVER).st_ino
    except OSError:
        return None


def _readable() -> List[str]:
    """The runtime, what names are looked up with, and the authorities that certificates are checked against."""
    known = ssl.get_default_verify_paths()
    named = [os.environ.get(name) for name in (known.openssl_cafile_env, known.openssl_capath_env)]
    authorities = [known.cafile, known.capath] + named
    return runtime_files() + list(_NAMES + _TLS) + [path for path in authorities if path]
