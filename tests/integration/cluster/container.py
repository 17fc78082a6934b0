"""One container as Linux knows it: namespaces, a root of its own, volumes, a user, no capabilities."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.cluster.images import DEVICES, FOLDERS, SETTINGS, SYSTEM, Image
from tests.integration.cluster.manifests import Surroundings, Unsupported, Workload, expand
from tests.support.waiting import eventually

RESOLV = "nameserver {server}\nsearch {namespace}.{domain} {domain} cluster.local\noptions ndots:5\n"


@dataclass
class Container:
    """The only container of a pod: started, asked, told to end."""

    workload: Workload
    pod: str
    address: str
    image: Image
    surroundings: Surroundings
    folder: Path
    """Of this pod: root, volumes, log."""
    claims: Path
    """The folder of volumes that outlive the pod."""
    network: str
    resolv: str
    process: asyncio.subprocess.Process | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def command(self) -> list[str]:
        """Return what runs, as the manifest and the image say."""
        said = self.workload.container
        known = self.surroundings.environment(said, self.pod, self.address)
        command = said.get("command") or list(self.image.entrypoint)
        return [expand(word, known) for word in (*command, *said.get("args", ()))]

    async def start(self) -> None:
        """Starts the container's process; it is process 1 of the pod."""
        self.folder.mkdir(parents=True, exist_ok=True)
        said = self.workload.container
        own = self.surroundings.environment(said, self.pod, self.address)
        self.environment = {**self.image.environment, "HOSTNAME": self.pod, **own}
        script = self.folder / "start.sh"
        script.write_text(self._script())
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                "/usr/bin/nsenter", f"--net={self.network}", "/usr/bin/unshare", "--mount", "--uts", "--ipc", "--pid",
                "--fork", "--kill-child", "/bin/sh", str(script), env=self.environment, cwd="/", stdout=log,
                stderr=log, stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def _script(self) -> str:
        root = self.folder / "root"
        root.mkdir(exist_ok=True)
        lines = ["set -eu", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "mount --make-rprivate /"]
        lines += [
            f"mount -t tmpfs tmpfs {shlex.quote(str(root))}",
            f"cd {shlex.quote(str(root))}",
            f"mkdir -p {' '.join(FOLDERS)}",
            "mkdir -p dev/shm",
        ]
        for name in SYSTEM:
            if Path("/", name).is_symlink():
                lines.append(f"cp -P /{name} {name}")  # its owner, root, has no number in the node of another user
            elif Path("/", name).is_dir():
                lines += bind(Path("/", name), name, read_only=True)
        # A checkout below /tmp would be hidden by the pod's own /tmp: what lies below a volume comes after it.
        volumes = tuple(f"{mount['mountPath']}/" for mount in self.workload.container.get("volumeMounts", ()))
        hidden = {path for path in self.image.binds if path.startswith(volumes)}
        lines += [line for path in self.image.binds if path not in hidden for line in self._bind_image(path)]
        lines += [f"touch dev/{name}; mount --bind /dev/{name} dev/{name}" for name in DEVICES]
        lines += ["mount -t proc proc proc", "mount --rbind /sys sys", "mount -t tmpfs tmpfs dev/shm"]
        lines += [f"cp -L /etc/{name} etc/{name}" for name in SETTINGS if Path("/etc", name).exists()]
        resolv = self.folder / "resolv.conf"
        resolv.write_text(self.resolv)
        lines.append(f"cp {shlex.quote(str(resolv))} etc/resolv.conf")
        lines += self._volumes()
        lines += [line for path in hidden for line in self._bind_image(path)]
        lines += [f"hostname {self.pod}", "pivot_root . old", "cd /", "umount -l /old"]
        if self.workload.container["securityContext"]["readOnlyRootFilesystem"]:
            lines.append("mount -o remount,bind,ro /")  # the mount alone: a remount of tmpfs repeats its owner
        lines += [
            f"cd {shlex.quote(str(self.image.workdir))}",
            "unset OLDPWD",
            f"PATH={shlex.quote(self.environment['PATH'])}",
        ]
        return "\n".join([*lines, f"exec {shlex.join(self._as_user(self.command()))}"]) + "\n"

    def _bind_image(self, path: str) -> list[str]:
        """Return the lines that show a part of the image, read-only."""
        return bind(self.image.binds[path], path[1:], read_only=True)

    def _as_user(self, command: Sequence[str]) -> list[str]:
        """The command as the user of the security context, without capabilities and without a way to gain any."""
        pod, own = self.workload.spec["securityContext"], self.workload.container["securityContext"]
        if own["allowPrivilegeEscalation"] or own["capabilities"] != {"drop": ["ALL"]} or not pod["runAsNonRoot"]:
            raise Unsupported(f"{self.pod}: a container that may become root")
        user = [f"--map-user={pod['runAsUser']}", f"--map-group={pod['runAsGroup']}"]
        return ["/usr/bin/unshare", "--user", *user, "/usr/bin/setpriv", "--no-new-privs", *command]

    def _volumes(self) -> list[str]:
        lines = []
        for number, mount in enumerate(self.workload.container.get("volumeMounts", ())):
            target = str(mount["mountPath"])[1:]
            if set(mount) - {"name", "mountPath", "readOnly"}:
                raise Unsupported(f"{self.pod}: volumeMounts {mount}")
            if mount["name"] in self.workload.claims:
                source = self.claims / f"{mount['name']}-{self.pod}"
                source.mkdir(parents=True, exist_ok=True)
            else:
                (volume,) = [item for item in self.workload.spec["volumes"] if item["name"] == mount["name"]]
                if "persistentVolumeClaim" in volume:
                    # Named as the StatefulSet's own pods name theirs.
                    source = self.claims / volume["persistentVolumeClaim"]["claimName"]
                    lines += bind(source, target, read_only=mount.get("readOnly", False))
                    continue
                source = self.folder / "volumes" / f"{number}-{mount['name']}"
                files = self.surroundings.files(volume)
                if files is None and "emptyDir" not in volume:
                    raise Unsupported(f"{self.pod}: volume {volume}")
                if files is None and volume["emptyDir"].get("medium") == "Memory":
                    size = volume["emptyDir"]["sizeLimit"].removesuffix("i")
                    lines += [f"mkdir -p {target}", f"mount -t tmpfs -o size={size},mode=1777 tmpfs {target}"]
                    continue
                source.mkdir(parents=True, exist_ok=True)
                for name, text in (files or {}).items():
                    (source / name).write_text(text)
            lines += bind(source, target, read_only=mount.get("readOnly", False))
        return lines

    async def inner(self) -> int:
        """Process id, as the node sees it, of the container's process."""
        assert self.process is not None
        process = self.process.pid
        return (await eventually(lambda: children(process)))[0]

    async def execute(self, command: Sequence[str]) -> int:
        """Runs a command in the container, as ``kubectl exec`` does; gives its exit status."""
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                "/usr/bin/nsenter", "--target", str(await self.inner()), "--mount", "--uts", "--ipc", "--pid", "--net",
                *self._as_user(command), env=self.environment, stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            return await process.wait()

    async def stop(self, grace_s: float) -> bool:
        """preStop, SIGTERM, and SIGKILL when the grace is over; True when it ended by itself in time."""
        assert self.process is not None
        if self.process.returncode is not None:
            return True
        try:
            async with asyncio.timeout(grace_s):
                hook = self.workload.container.get("lifecycle", {}).get("preStop")
                if hook is not None:
                    await self.execute(hook["exec"]["command"])
                os.kill(await self.inner(), signal.SIGTERM)
                await self.process.wait()
                return True
        except (ProcessLookupError, FileNotFoundError):
            await self.process.wait()
            return True
        except TimeoutError:
            self.process.kill()  # unshare takes process 1 with it, and that one all others
            await self.process.wait()
            return False

    def remove(self) -> None:
        """Removes what does not outlive the pod, its log excepted."""
        shutil.rmtree(self.folder / "volumes", ignore_errors=True)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def bind(source: Path, target: str, *, read_only: bool) -> list[str]:
    place = shlex.quote(target)
    lines = [f"mkdir -p {place}", f"mount --rbind {shlex.quote(str(source))} {place}"]
    return [*lines, f"mount -o remount,bind,ro {place}"] if read_only else lines


def resolv(server: str, namespace: str, domain: str) -> str:
    return RESOLV.format(server=server, namespace=namespace, domain=domain)


def tail(path: Path, size: int = 2000) -> str:
    """The last words of a log."""
    return path.read_text(errors="replace")[-size:] if path.exists() else ""
