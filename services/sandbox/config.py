"""Settings of the sandbox; section ``sandbox``, ``FATHOM_SANDBOX_*``. Sessions may only tighten the limits."""

from __future__ import annotations

from pydantic import Field

from fathom.config import Settings

MIB = 1024 * 1024


class Config(Settings):
    """Limits per session, and of the pool."""

    min_isolation: str = Field("none", pattern="^(none|landlock|namespace|guest-kernel|vm)$")
    """Weakest isolation to start with; only ``none`` is built so far, and anything stronger refuses to start."""
    max_sessions: int = Field(16, ge=1)
    """Sessions at once; more are refused with a retry delay."""
    spares: int = Field(1, ge=0, le=8)
    """Workers kept ready, so that a session does not wait for imports."""
    cell_wall_ms: int = Field(30_000, ge=10)
    """Wall-clock milliseconds per cell."""
    cpu_ms: int = Field(120_000, ge=100)
    """CPU milliseconds per session."""
    memory_bytes: int = Field(768 * MIB, ge=64 * MIB)
    """Resident bytes per session, all its processes together; a watchdog keeps it."""
    output_bytes: int = Field(256 * 1024, ge=1024)
    """Kept bytes of stdout and stderr per cell; more is counted and dropped."""
    flood_bytes: int = Field(16 * MIB, ge=4096)
    """Bytes of output after which the worker is killed."""
    cells: int = Field(500, ge=1)
    """Cells per session."""
    scratch_bytes: int = Field(64 * MIB, ge=MIB)
    """Largest single file that a worker may write."""
    frames_bytes: int = Field(256 * MIB, ge=MIB)
    """Arrow bytes of the frames that a session may hold; they are kept for a restart."""
    frame_cells: int = Field(50_000_000, ge=1)
    """Rows times columns of one frame."""
    processes: int = Field(64, ge=1)
    """Processes per session; a watchdog keeps it."""
    idle_s: float = Field(600.0, gt=0)
    """A session that is not used for this long is closed."""
    lifetime_s: float = Field(3600.0, gt=0)
    """A session is closed this long after it was opened, when no cell runs."""
    interrupt_grace_s: float = Field(1.0, gt=0)
    """Between the interrupt of a cell and the end of its worker."""
    start_timeout_s: float = Field(30.0, gt=0)
    """How long a worker may take to get ready."""
