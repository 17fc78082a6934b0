"""Settings of the sandbox; section ``sandbox``, ``FATHOM_SANDBOX_*``. Sessions may only tighten the limits."""

from __future__ import annotations

from pydantic import Field

from fathom.config import Settings

MIB = 1024 * 1024


class Config(Settings):
    """Limits per session, and of the pool."""

    min_isolation: str = Field(default="namespace", pattern="^(none|landlock|namespace|guest-kernel|vm)$")
    """Weakest isolation to start with; the service refuses to start below it and says what failed."""
    walls: str = Field(default="namespace", pattern="^(none|seccomp|landlock|namespace)$")
    """Strongest walls to build; for measuring and testing what weaker ones stop."""
    boundary: str = Field(default="", pattern="^(|guest-kernel|vm)$")
    """What the operator has put around the pod: gVisor (guest-kernel) or a virtual machine; checked at start."""
    run_hostile_code_without_any_isolation: bool = False
    """Has to be true for ``min_isolation`` none: cells may then do whatever the service's user may."""
    uid_base: int = Field(default=61_184, ge=1_000)
    """First of the host users that sessions run as when the service is root, one per session; all services on a
    machine lend from the same ones, each to one session at a time."""
    cgroups: bool = True
    """Give each session a control group where this system allows it."""
    objects: bool = True
    """Whether tables come and displays go by reference into the object store; without, both travel in the calls, and
    this service needs neither network of its own nor a key."""
    max_sessions: int = Field(default=16, ge=1)
    """Sessions at once; more are refused with a retry delay."""
    max_sessions_per_tenant: int = Field(default=0, ge=0)
    """Sessions at once of one tenant; 0 means as many as there are."""
    spares: int = Field(default=2, ge=0, le=64)
    """Walled-in workers kept ready, so that a session does not wait for its walls."""
    max_forks: int = Field(default=1_000, ge=1)
    """Sessions after which the fork server is replaced: its children share their address layout."""
    max_age_s: float = Field(default=600.0, gt=0)
    """Seconds after which it is replaced."""
    cell_wall_ms: int = Field(default=30_000, ge=10)
    """Wall-clock milliseconds per cell."""
    cpu_ms: int = Field(default=120_000, ge=100)
    """CPU milliseconds per session."""
    cores: float = Field(default=1.0, gt=0)
    """Cores' worth of CPU time that a session gets at any moment, all its processes together; by its control group."""
    memory_bytes: int = Field(default=768 * MIB, ge=64 * MIB)
    """Resident bytes per session, all its processes together; a watchdog keeps it."""
    output_bytes: int = Field(default=256 * 1024, ge=1024)
    """Kept bytes of stdout and stderr per cell; more is counted and dropped."""
    flood_bytes: int = Field(default=16 * MIB, ge=4096)
    """Bytes of output after which the worker is killed."""
    cells: int = Field(default=500, ge=1)
    """Cells per session."""
    scratch_bytes: int = Field(default=64 * MIB, ge=MIB)
    """Bytes of a session's scratch folder, and so of the largest file in it."""
    scratch_files: int = Field(default=4_096, ge=16)
    """Files and folders of a session's scratch folder."""
    frames_bytes: int = Field(default=256 * MIB, ge=MIB)
    """Arrow bytes of the frames that a session may hold; they are kept for a restart."""
    frame_cells: int = Field(default=50_000_000, ge=1)
    """Rows times columns of one frame."""
    processes: int = Field(default=64, ge=1)
    """Processes per session; a watchdog keeps it."""
    idle_s: float = Field(default=600.0, gt=0)
    """A session that is not used for this long is closed."""
    lifetime_s: float = Field(default=3600.0, gt=0)
    """A session is closed this long after it was opened, when no cell runs."""
    drain_s: float = Field(default=0.0, ge=0)
    """Seconds that open sessions get to end at shutdown, within the grace period; new ones go to other replicas."""
    interrupt_grace_s: float = Field(default=1.0, gt=0)
    """Between the interrupt of a cell and the end of its worker."""
    keep_alive_s: float = Field(default=5.0, gt=0)
    """Silence of a running cell after which its caller is told that it still runs."""
    start_timeout_s: float = Field(default=30.0, gt=0)
    """How long a worker may take to get ready."""
