"""Seccomp filter, compiled in the fork server and installed in the worker: an allow-list of system calls.

It is classic BPF. Calls that are not on the list fail with EPERM, as code expects of a call that is forbidden; a few
fail with ENOSYS, since the C library then falls back to an older one. A call for another architecture ends the process.
Source: seccomp(2), linux/filter.h.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fathom.services.sandbox.inside.jail import kernel

CALLS = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 dup3 open
openat openat2 creat fstat stat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents
getdents64 readlink readlinkat getcwd chdir fchdir fcntl flock fsync fdatasync sync_file_range ftruncate truncate
fallocate fadvise64 readahead mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink
symlinkat chmod fchmod fchmodat fchmodat2 umask utime utimes utimensat futimesat copy_file_range sendfile splice tee
vmsplice pipe pipe2 memfd_create getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr mmap munmap mremap
mprotect madvise msync mincore brk mlock munlock mlock2 membarrier pkey_mprotect pkey_alloc pkey_free get_mempolicy
set_mempolicy mbind set_mempolicy_home_node poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl
epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime
timerfd_gettime inotify_init inotify_init1 inotify_add_watch inotify_rm_watch rt_sigaction rt_sigprocmask
rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigreturn rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack kill tkill
tgkill pause alarm getitimer setitimer restart_syscall pidfd_open pidfd_send_signal fork vfork execve execveat exit
exit_group wait4 waitid set_tid_address set_robust_list get_robust_list futex futex_waitv rseq arch_prctl getpid
getppid gettid getpgid getpgrp getsid setpgid setsid getuid geteuid getgid getegid getresuid getresgid getgroups
capget prlimit64 getrlimit setrlimit getrusage times getpriority setpriority sched_yield sched_getaffinity
sched_setaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min sched_getattr
sched_rr_get_interval getcpu uname sysinfo getrandom clock_gettime clock_getres clock_nanosleep nanosleep
gettimeofday time timer_create timer_settime timer_gettime timer_getoverrun timer_delete socketpair bind listen
accept accept4 connect getsockname getpeername getsockopt setsockopt shutdown sendto recvfrom sendmsg recvmsg
sendmmsg recvmmsg
"""
ALLOWED = tuple(CALLS.split())
# clone3 keeps its flags in memory, where a filter cannot look; io_uring makes calls that no filter sees.
ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
NEW_NAMESPACES = 0
for flag in (*kernel.NAMESPACES.values(), kernel.CLONE_NEWTIME):
    NEW_NAMESPACES |= flag
# TIOCSTI and TIOCLINUX type into a terminal as if its user did.
AF_UNIX, TIOCSTI, TIOCLINUX, PR_SET_DUMPABLE = 1, 0x5412, 0x541C, 4
NETWORKED = frozenset({"bind", "listen", "accept", "accept4", "connect"})
MEMORY_FILES = frozenset({"memfd_create"})
SIGNALS = frozenset(
    {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal"}
)
FORKS = frozenset({"clone", "fork", "vfork"})
# Allowed with the caller's own number only, where other processes can be named.
OF_OTHERS = frozenset({"prlimit64", "sched_setaffinity", "setpriority"})

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
KILL, ALLOW, ERRNO, ASK = 0x80000000, 0x7FFF0000, 0x00050000, 0x7FC00000
# SECCOMP_SET_MODE_FILTER; SECCOMP_FILTER_FLAG_NEW_LISTENER, and with SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (Linux 5.19
# on), so that a timer that fires often does not make a fork ask again and again.
SET_FILTER, LISTEN, LISTEN_UNDISTURBED = 1, 1 << 3, 1 << 3 | 1 << 5
NUMBER_AT, ARCH_AT, FIRST_ARGUMENT_AT, SECOND_ARGUMENT_AT = 0, 4, 16, 24
# Numbers from here on are the x32 ABI's: the same calls under other numbers than those on the list.
X32 = 0x40000000


def encode_instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def encode_refusal(code: int) -> bytes:
    return encode_instruction(RETURN, ERRNO | code)


def find_numbers(names: Iterable[str]) -> Iterator[int]:
    """Yield the numbers of those calls that this architecture has."""
    for name in names:
        try:
            yield kernel.find_call_number(name)
        except KeyError:
            continue


def build_argument_rule(
    name: str, argument_at: int, tests: list[tuple[int, int]], *, allow_match: bool, permit: int = ALLOW
) -> list[bytes]:
    """Return the rule for one call by the low half of one argument; ``tests`` are pairs of comparison and value.

    ``permit`` is what a call that is not forbidden gets.
    """
    # Flags are forbidden by name and the rest passes; kinds of sockets are allowed by name and the rest fails.
    hit, miss = (permit, ERRNO | errno.EPERM) if allow_match else (ERRNO | errno.EPERM, permit)
    body = [encode_instruction(LOAD, argument_at)]
    for code, value in tests:
        body += [encode_instruction(code, value, 0, 1), encode_instruction(RETURN, hit)]
    body.append(encode_instruction(RETURN, miss))
    return [encode_instruction(EQUAL, number, 0, len(body)) + b"".join(body) for number in find_numbers((name,))]


def compile_filter(*, alone: bool, memory_files: bool, signals: bool = True, asks: bool = False) -> bytes:
    """Return the filter for a worker that is ``alone`` in namespaces of its own, or beside processes of others.

    Only the former may make, bind and connect local sockets; the latter changes no limits, priorities and processors
    but its own, since the kernel would let it change those of every process of its user, and has its files grow by
    writing alone, since they lie on the host's disk. Without ``memory_files`` files in memory cannot be made: only a
    control group counts what they hold while nobody has them mapped. Without ``signals`` none can be sent, for kernels
    that cannot keep them inside. A filter that ``asks`` has the listener decide about each new process and thread.
    """
    start = [
        # First of all: under another architecture the same number is another call.
        encode_instruction(LOAD, ARCH_AT),
        encode_instruction(EQUAL, kernel.AUDIT_ARCH[kernel.ARCH], 1, 0),
        encode_instruction(RETURN, KILL),
        encode_instruction(LOAD, NUMBER_AT),
        encode_instruction(AT_LEAST, X32, 0, 1),
        encode_instruction(RETURN, KILL),
    ]
    new = [(ANY_BIT, NEW_NAMESPACES)]
    fork = ASK if asks else ALLOW
    # What the kernel looks at after an answer are the caller's registers, which nobody can have changed meanwhile.
    rules = build_argument_rule("clone", FIRST_ARGUMENT_AT, new, allow_match=False, permit=fork)
    rules += build_argument_rule("ioctl", SECOND_ARGUMENT_AT, [(EQUAL, TIOCSTI), (EQUAL, TIOCLINUX)], allow_match=False)
    rules += build_argument_rule("prctl", FIRST_ARGUMENT_AT, [(EQUAL, PR_SET_DUMPABLE)], allow_match=False)
    # Without a network namespace of its own a worker must not have even local sockets, since a path can lead to a
    # server of the host's.
    if alone:
        rules += build_argument_rule("socket", FIRST_ARGUMENT_AT, [(EQUAL, AF_UNIX)], allow_match=True)
    else:
        # Process 0 is the caller itself.
        rules += build_argument_rule("prlimit64", FIRST_ARGUMENT_AT, [(EQUAL, 0)], allow_match=True)
        rules += build_argument_rule("sched_setaffinity", FIRST_ARGUMENT_AT, [(EQUAL, 0)], allow_match=True)
        rules += build_argument_rule("setpriority", SECOND_ARGUMENT_AT, [(EQUAL, 0)], allow_match=True)
    for number in find_numbers(ABSENT):
        rules.append(encode_instruction(EQUAL, number, 0, 1) + encode_refusal(errno.ENOSYS))
    if not alone:
        # Gigabytes of the host's disk in a millisecond, before anything could count them; the C library writes instead.
        for number in find_numbers(("fallocate",)):
            rules.append(encode_instruction(EQUAL, number, 0, 1) + encode_refusal(errno.EOPNOTSUPP))
    left_out = (
        (frozenset() if alone else NETWORKED | OF_OTHERS)
        | (frozenset() if memory_files else MEMORY_FILES)
        | (frozenset() if signals else SIGNALS)
    )
    for name in ALLOWED:
        if name in left_out:
            continue
        action = fork if name in FORKS else ALLOW
        rules += [
            encode_instruction(EQUAL, number, 0, 1) + encode_instruction(RETURN, action)
            for number in find_numbers((name,))
        ]
    return b"".join((*start, *rules, encode_refusal(errno.EPERM)))


class Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def install(compiled: bytes) -> None:
    """Filter the system calls of the caller and all its descendants, for good; needs no_new_privs."""
    wanted = Program(len(compiled) // 8, compiled)
    kernel.raise_on_error(int(kernel.LIBC.prctl(22, 2, ctypes.byref(wanted))), "seccomp")


def install_asking(compiled: bytes) -> int:
    """Install a filter that asks, and return the descriptor of its listener; -1 where the kernel has none to give."""
    wanted = Program(len(compiled) // 8, compiled)
    for flags in (LISTEN_UNDISTURBED, LISTEN):
        with suppress(OSError, KeyError):
            return kernel.call("seccomp", SET_FILTER, flags, ctypes.byref(wanted))
    return -1
