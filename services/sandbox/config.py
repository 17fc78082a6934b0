"""Settings of the sandbox (section ``sandbox``, ``FATHOM_SANDBOX_*``), for service front and supervisor.

Sessions may only tighten the limits.
"""

from __future__ import annotations

from pydantic import Field

from fathom.core.call import DEFAULT_TENANT
from fathom.core.config import Settings

MIB = 1024 * 1024


class Config(Settings):
    """Limits per session and of the pool, and the isolation that is required."""

    min_isolation: str = Field(default="namespace", pattern="^(none|landlock|namespace|guest-kernel|vm)$")
    """Weakest isolation to start with; below it the service refuses to start and names what failed."""
    walls: str = Field(default="namespace", pattern="^(none|seccomp|landlock|namespace)$")
    """Strongest walls to build; weaker ones serve to measure and test what they stop."""
    boundary: str = Field(default="", pattern="^(|guest-kernel|vm)$")
    """Boundary put by the operator around the pod, gVisor (guest-kernel) or a virtual machine; checked at start."""
    run_hostile_code_without_any_isolation: bool = False
    """Must be true for ``min_isolation`` none: cells may then do whatever the service's user may."""
    # systemd gives ids from here on to no account of a person or a package, only to services for as long as they run.
    uid_base: int = Field(default=61_184, ge=1_000)
    """First of the host users that sessions run as when the service is root, one per session.

    All services on a machine share the range; each user is lent to one session at a time.
    """
    cgroups: bool = True
    """Give each session a control group where this system allows it."""
    objects: bool = True
    """Accept tables and return displays by reference into the object store.

    If false, both travel in the calls, and the service needs neither a network of its own nor a key.
    """
    max_sessions: int = Field(default=16, ge=1)
    """Maximum number of sessions at once; further ones wait for one to end."""
    max_waiting: int = Field(default=256, ge=0)
    """Maximum number of requests that wait for a session; further ones are refused with a retry delay."""
    wait_s: float = Field(default=20.0, gt=0)
    """Longest wait for a session in seconds; then the request is refused with a retry delay."""
    reserved_sessions: int = Field(default=2, ge=0)
    """Sessions kept for interactive callers, until none has come for ten minutes."""
    max_sessions_per_tenant: int = Field(default=0, ge=0)
    """Maximum number of sessions at once of one tenant; 0 leaves a quarter of ``max_sessions`` to the others."""
    spares: int = Field(default=2, ge=0, le=64)
    """Workers kept ready behind their walls, so that a session does not wait for them to be built."""
    max_forks: int = Field(default=1_000, ge=1)
    """Sessions after which the fork server is replaced, since its children share their address layout."""
    max_age_s: float = Field(default=600.0, gt=0)
    """Seconds after which the fork server is replaced."""
    cell_wall_ms: int = Field(default=30_000, ge=10)
    """Wall-clock milliseconds per cell."""
    # The kernel's account of a process goes on from cell to cell, so that the limit is the session's.
    cpu_ms: int = Field(default=120_000, ge=100)
    """CPU milliseconds per session."""
    cores: float = Field(default=1.0, gt=0)
    """CPU cores that a session, all its processes together, may use at any moment; enforced by its control group."""
    memory_bytes: int = Field(default=768 * MIB, ge=64 * MIB)
    """Resident bytes per session, all its processes together; enforced by a watchdog, and a control group if any."""
    output_bytes: int = Field(default=256 * 1024, ge=1024)
    """Bytes of stdout and stderr kept per cell; the rest is counted and dropped."""
    flood_bytes: int = Field(default=16 * MIB, ge=4096)
    """Bytes of output of a cell after which the worker is killed."""
    cells: int = Field(default=500, ge=1)
    """Cells per session."""
    scratch_bytes: int = Field(default=64 * MIB, ge=MIB)
    """Bytes of a session's scratch folder, and so of the largest file in it."""
    scratch_files: int = Field(default=4_096, ge=16)
    """Files and folders of a session's scratch folder."""
    frames_bytes: int = Field(default=256 * MIB, ge=MIB)
    """Arrow bytes of all frames of a session; they are kept for a restart."""
    frame_cells: int = Field(default=50_000_000, ge=1)
    """Maximum of rows times columns of one frame."""
    processes: int = Field(default=64, ge=1)
    """Maximum number of processes per session; enforced by a watchdog, and a control group if any."""
    idle_s: float = Field(default=600.0, gt=0)
    """Seconds without use after which a session is closed."""
    lifetime_s: float = Field(default=3600.0, gt=0)
    """Seconds after its opening when a session is closed, unless a cell runs."""
    drain_s: float = Field(default=0.0, ge=0)
    """Seconds that open sessions get to end at shutdown, within the grace period; new ones go to other replicas."""
    # Time that counts on a busy machine: a worker that only waits for a processor must not lose its variables.
    interrupt_grace_s: float = Field(default=5.0, gt=0)
    """Seconds between the interrupt of a cell and the kill of its worker."""
    keep_alive_s: float = Field(default=5.0, gt=0)
    """Seconds without output of a running cell after which its caller gets a keep-alive message."""
    start_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds that a worker may take to become ready."""
    # Where every pod of a node starts at once, imports that take seconds took more than one minute. Whoever gives up
    # before the platform's own limit (the chart's startupSeconds, 300) is only started again, and takes longer still.
    import_timeout_s: float = Field(default=270.0, gt=0)
    """Seconds that the imports of the fork server may take."""

    def tenant_sessions(self, tenant: str) -> int | None:
        """Return how many sessions a tenant may have at once; None bounds it by nothing but ``max_sessions``.

        An installation without tenants, whose callers all are the default one, leaves no sessions to others.
        """
        if self.max_sessions_per_tenant:
            return self.max_sessions_per_tenant
        if tenant in ("", DEFAULT_TENANT):
            return None
        return self.max_sessions - self.max_sessions // 4
