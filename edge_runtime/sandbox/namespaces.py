"""A network namespace of this process's own."""

import ctypes

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


def without_network(user: bool = False) -> bool:
    """Enter a network namespace of one's own; returns whether the system allows it.

    ``user``: and a user namespace, in which an ordinary user may do so.
    """
    flags = _CLONE_NEWNET | _CLONE_NEWUSER if user else _CLONE_NEWNET
    try:
        return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)
    except (OSError, AttributeError):
        return False
