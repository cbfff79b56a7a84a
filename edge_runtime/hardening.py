"""What a process that sees raw frames does to itself before the first one."""

import ctypes
import resource

_PR_SET_DUMPABLE = 4


def no_core_dumps():
    """Keep memory out of crash dumps and away from debuggers of the same user, as far as this system lets us."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        # Where dumps are piped to a program, the limit alone does not hold them.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: the limit is what there is
