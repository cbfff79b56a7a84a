"""A seccomp filter made of rules: every call that they do not allow fails, in all threads of this process."""

import ctypes
import errno
import struct
from typing import Dict, List, Optional

from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.edge_runtime.sandbox.allowed_calls import Condition, Rules

# The numbers of system calls: x86-64, 64-bit ARM, 32-bit ARM; ``-`` where the architecture has none of that name.
#
# From the kernel's tables, by libseccomp's ``scmp_sys_resolver``; a test compares them with it.


ARCHITECTURES = {"x86_64": 0, "aarch64": 1, "armv7l": 2, "armv6l": 2}
NEWEST = 450  # numbers above it are of calls that came later: they do not exist here, and C libraries do without

_TABLE = """
_llseek - - 140
_newselect - - 142
accept 43 202 285
accept4 288 242 366
access 21 - 33
acct 163 89 51
add_key 248 217 309
adjtimex 159 171 124
bind 49 200 282
bpf 321 280 386
brk 12 214 45
cacheflush - - 983042
chroot 161 51 61
clock_getres 229 114 264
clock_getres_time64 - - 406
clock_gettime 228 113 263
clock_gettime64 - - 403
clock_nanosleep 230 115 265
clock_nanosleep_time64 - - 407
clock_settime 227 112 262
clone 56 220 120
clone3 435 435 435
close 3 57 6
connect 42 203 283
delete_module 176 106 129
dup 32 23 41
dup2 33 - 63
dup3 292 24 358
epoll_create1 291 20 357
epoll_ctl 233 21 251
epoll_pwait 281 22 346
epoll_wait 232 - 252
eventfd2 290 19 356
execve 59 221 11
execveat 322 281 387
exit 60 93 1
exit_group 231 94 248
faccessat 269 48 334
faccessat2 439 439 439
fanotify_init 300 262 367
fcntl 72 25 55
fcntl64 - - 221
finit_module 313 273 379
flock 73 32 143
fsetxattr 190 7 228
fsmount 432 432 432
fsopen 430 430 430
fstat 5 80 108
fstat64 - - 197
fstatat64 - - 327
fstatfs 138 44 100
fstatfs64 - - 267
futex 202 98 240
futex_time64 - - 422
get_robust_list 274 100 339
getcwd 79 17 183
getdents 78 - 141
getdents64 217 61 217
getegid 108 177 50
getegid32 - - 202
geteuid 107 175 49
geteuid32 - - 201
getgid 104 176 47
getgid32 - - 200
getpeername 52 205 287
getpid 39 172 20
getppid 110 173 64
getrandom 318 278 384
getrlimit 97 163 -
getrusage 98 165 77
getsockname 51 204 286
getsockopt 55 209 295
gettid 186 178 224
gettimeofday 96 169 78
getuid 102 174 24
getuid32 - - 199
init_module 175 105 128
io_uring_enter 426 426 426
io_uring_register 427 427 427
io_uring_setup 425 425 425
ioctl 16 29 54
kcmp 312 272 378
kexec_file_load 320 294 401
kexec_load 246 104 347
keyctl 250 219 311
link 86 - 9
linkat 265 37 330
lseek 8 62 19
lsetxattr 189 6 227
lstat 6 - 107
lstat64 - - 196
madvise 28 233 220
membarrier 324 283 389
mknod 133 - 14
mknodat 259 33 324
mlock 149 228 150
mlockall 151 230 152
mmap 9 222 -
mmap2 - - 192
mount 165 40 21
move_mount 429 429 429
mprotect 10 226 125
mq_notify 244 184 278
mq_open 240 180 274
mq_timedreceive 243 183 277
mq_timedsend 242 182 276
mq_unlink 241 181 275
mremap 25 216 163
msgctl 71 187 304
msgget 68 186 303
msgrcv 70 188 302
msgsnd 69 189 301
munlock 150 229 151
munmap 11 215 91
name_to_handle_at 303 264 370
nanosleep 35 101 162
newfstatat 262 79 -
open 2 - 5
open_by_handle_at 304 265 371
open_tree 428 428 428
openat 257 56 322
perf_event_open 298 241 364
personality 135 92 136
pidfd_getfd 438 438 438
pidfd_open 434 434 434
pidfd_send_signal 424 424 424
pipe2 293 59 359
pivot_root 155 41 218
poll 7 - 168
ppoll 271 73 336
ppoll_time64 - - 414
prctl 157 167 172
pread64 17 67 180
preadv 295 69 361
prlimit64 302 261 369
process_madvise 440 440 440
process_vm_readv 310 270 376
process_vm_writev 311 271 377
pselect6 270 72 335
pselect6_time64 - - 413
ptrace 101 117 26
quotactl 179 60 131
read 0 63 3
readlink 89 - 85
readlinkat 267 78 332
readv 19 65 145
reboot 169 142 88
recv - - 291
recvfrom 45 207 292
recvmsg 47 212 297
request_key 249 218 310
restart_syscall 219 128 0
rseq 334 293 398
rt_sigaction 13 134 174
rt_sigprocmask 14 135 175
rt_sigreturn 15 139 173
sched_getaffinity 204 123 242
sched_getparam 143 121 155
sched_getscheduler 145 120 157
sched_yield 24 124 158
seccomp 317 277 383
select 23 - -
semctl 66 191 300
semget 64 190 299
semop 65 193 298
semtimedop 220 192 312
semtimedop_time64 - - 420
send - - 289
sendmmsg 307 269 374
sendmsg 46 211 296
sendto 44 206 290
set_robust_list 273 99 338
set_tid_address 218 96 256
set_tls - - 983045
setdomainname 171 162 121
sethostname 170 161 74
setitimer 38 103 104
setns 308 268 375
setresuid 117 147 164
setresuid32 - - 208
setrlimit 160 164 75
setsockopt 54 208 294
settimeofday 164 170 79
setxattr 188 5 226
shmat 30 196 305
shmctl 31 195 308
shmget 29 194 307
shutdown 48 210 293
sigaltstack 131 132 186
sigreturn - - 119
socket 41 198 281
socketpair 53 199 288
stat 4 - 106
stat64 - - 195
statfs 137 43 99
statfs64 - - 266
statx 332 291 397
swapoff 168 225 115
swapon 167 224 87
symlink 88 - 83
symlinkat 266 36 331
sysinfo 99 179 116
syslog 103 116 103
tgkill 234 131 268
time 201 - -
ugetrlimit - - 191
umount2 166 39 52
uname 63 160 122
unshare 272 97 337
userfaultfd 323 282 388
vhangup 153 58 111
write 1 64 4
writev 20 66 146
"""


def numbers(machine: str) -> Optional[Dict[str, int]]:
    """The number of each call that ``machine`` (``platform.machine()``) has; None for another architecture."""
    if machine not in ARCHITECTURES:
        return None
    column = 1 + ARCHITECTURES[machine]
    rows = (line.split() for line in _TABLE.strip().splitlines())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


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
    if "clone" in rules.checked:
        # A C library that is told that a call does not exist does without it; clone3 hides its flags from a filter.
        steps += [_step(_JUMP_EQ, known["clone3"], 0, 1), _step(_RETURN, _ABSENT)]
    for name in sorted(listed & set(known)):
        steps += [_step(_JUMP_EQ, known[name], 0, 1), _step(_RETURN, answer)]
    for name in sorted(set(rules.checked) & set(known)):
        body = _checks(rules.checked[name])
        steps += [_step(_JUMP_EQ, known[name], 0, len(body))] + body
    if rules.allowed is None:
        steps.append(_step(_RETURN, _ALLOW))
    else:
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
