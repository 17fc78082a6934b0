"""Runs a command in an image's root as a restricted pod would: ``python pod.py ROOT UID CONFIG COMMAND…``, as root in
namespaces of its own (``unshare --mount --net --pid --fork``). Imports nothing but the standard library.

The root is read-only, the chart's volumes are empty, the user is not root and gains no privileges, and there is no
network but the pod's own loopback. CONFIG is JSON: volumes (paths) and env.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS, IFF_UP, PR_SET_NO_NEW_PRIVS = 0x8914, 1, 38


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def main(root: str, user: int, volumes: list[str], env: dict[str, str], command: list[str]) -> None:
    loopback_up()
    # Else the mounts below would show in the host's own tree.
    mount("--make-rprivate", "/")
    mount("--bind", root, root)
    # A bind mount takes its flags only from a second call.
    mount("-o", "remount,ro,bind", root)
    mount("-t", "proc", "proc", f"{root}/proc")
    mount("--rbind", "/dev", f"{root}/dev")
    for volume in volumes:
        mount("-t", "tmpfs", "-o", f"mode=1777,uid={user},gid={user}", "tmpfs", root + volume)
    libc = ctypes.CDLL(None, use_errno=True)
    os.chroot(root)
    os.chdir("/var/cache/fathom")
    # Groups and user in this order: afterwards there is no right to change them.
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    given = json.loads(sys.argv[3])
    os.environ["PATH"] = given["env"]["PATH"] + ":" + os.environ["PATH"]
    main(sys.argv[1], int(sys.argv[2]), given["volumes"], given["env"], sys.argv[4:])
