"""A seccomp filter made of rules: every call that they do not allow fails, in all threads of this process."""

import ctypes
import errno
import struct
from typing import List

from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sandbox.allowed_calls import Condition, Rules
from edgeveil.edge_runtime.sandbox.call_numbers import NEWEST, numbers

# machine: what the kernel calls its calls (linux/audit.h)
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "armv7l": 0x40000028, "armv6l": 0x40000028}
_SECCOMP = {"x86_64": 317, "aarch64": 277, "armv7l": 383, "armv6l": 383}
_SET_FILTER, _ALL_THREADS = 1, 1
# Classic BPF: load a word of the call's record; and; jump if equal, if greater or equal; return
_LOAD, _AND, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSE, _ABSENT = _ERROR | errno.EACCES, _ERROR | errno.ENOSYS
_X32 = 0x40000000  # a second set of numbers for the same calls on x86-64
_PRIVATE = 0xF0000  # 32-bit ARM has a few calls of its own beyond all others
_ARGUMENTS = 16  # offset of the first of six 64-bit arguments; the low half comes first on all of these


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def program(rules: Rules, machine: str) -> bytes:
    """The filter as the kernel reads it, for ``platform.machine()``; empty if its system calls are not known."""
    # A 64-bit kernel under a 32-bit system reports its own architecture.
    if machine == "aarch64" and struct.calcsize("P") == 4:
        machine = "armv7l"
    known = numbers(machine)
    if known is None:
        return b""
    steps = [
        _step(_LOAD, 4),  # the architecture of the call
        _step(_JUMP_EQ, _AUDIT[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, 0),  # its number
    ]
    if machine == "x86_64":
        steps += [_step(_JUMP_GE, _X32, 0, 1), _step(_RETURN, _REFUSE)]
    listed = rules.refused if rules.allowed is None else rules.allowed - set(rules.checked)
    answer = _REFUSE if rules.allowed is None else _ALLOW
    for name in sorted(listed & set(known)):
        steps += [_step(_JUMP_EQ, known[name], 0, 1), _step(_RETURN, answer)]
    for name in sorted(set(rules.checked) & set(known)):
        body = _checks(rules.checked[name])
        steps += [_step(_JUMP_EQ, known[name], 0, len(body))] + body
    if rules.allowed is None:
        steps.append(_step(_RETURN, _ALLOW))
    else:
        # A C library that is told that a call does not exist does without it; clone3 hides its flags from a filter.
        steps += [_step(_JUMP_EQ, known["clone3"], 2, 0), _step(_JUMP_GE, _PRIVATE, 2, 0)]
        steps += [_step(_JUMP_GE, NEWEST + 1, 0, 1), _step(_RETURN, _ABSENT), _step(_RETURN, _REFUSE)]
    return b"".join(steps)


def _checks(conditions: List[Condition]) -> List[bytes]:
    """Steps that return: allowed if all conditions hold."""
    steps: List[bytes] = []
    for condition in conditions:
        left = len(condition.pairs)
        for mask, value in condition.pairs:
            left -= 1
            # Where it fits, past the other pairs, of three steps each, and the refusal that follows the last.
            steps += [_step(_LOAD, _ARGUMENTS + 8 * condition.argument), _step(_AND, mask)]
            steps.append(_step(_JUMP_EQ, value, 3 * left + 1, 0))
        steps.append(_step(_RETURN, _REFUSE))
    return steps + [_step(_RETURN, _ALLOW)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def restrict(rules: Rules, machine: str) -> bool:
    """Put every thread of this process behind the filter, for ever; returns whether the system did so."""
    steps = program(rules, machine)
    if not steps or not hardening.no_new_privileges():
        return False
    record = _Program(len(steps) // 8, steps)
    call = ctypes.CDLL(None, use_errno=True).syscall
    number = _SECCOMP["armv7l" if struct.calcsize("P") == 4 else machine]
    return bool(call(number, _SET_FILTER, _ALL_THREADS, ctypes.byref(record)) == 0)
