"""Runs a session with Python and the checkout in another folder, and prints what it saw as JSON; started by a test as
root with FOLDER WALLS OWNER UID.

Both are bound there in a mount namespace of this process's own, read-only, so that nothing on the machine is changed
or copied. OWNER is who the folder belongs to, who alone may enter its parent; UID is who the service runs as.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path[:0] = [str(ROOT / "libs"), str(ROOT)]

CELLS = {
    "prefix": "import sys\nsys.prefix",
    "runtime": "import wsgiref.simple_server, yaml\nyaml.__file__",
    "figure": "import plotly.express as px\npx.line(x=[1, 2], y=[1, 3])",
    "temporary": "import tempfile\nwith tempfile.NamedTemporaryFile() as file: file.write(b'x')",
    "tmp": "open('/tmp/x', 'w').write('x')",
    "read-only": "open(sys.prefix + '/x', 'w')",
}


def move(folder: Path, owner: int) -> str:
    """Shows this Python and this checkout in the folder; gives the path of the interpreter there."""
    from fathom.services.sandbox.inside.jail import kernel
    from tests.integration.sandbox.programs.as_nobody import open_the_way

    kernel.find_call_number("mount_setattr")  # loads its table now: the mount below may hide this Python
    open_the_way([sys.base_prefix, sys.prefix, str(ROOT)])
    top = next(parent for parent in folder.parents if parent.exists())
    sources = {name: os.open(path, os.O_PATH) for name, path in ((".venv", sys.prefix), ("checkout", str(ROOT)))}
    kernel.mount("tmpfs", str(top), "tmpfs", 0, "mode=1777")
    folder.mkdir(parents=True)
    for name, source in sources.items():
        (folder / name).mkdir()
        kernel.mount(f"/proc/self/fd/{source}", str(folder / name), "", kernel.MS_BIND | kernel.MS_REC)
        kernel.set_mount(str(folder / name), kernel.MOUNT_ATTR_RDONLY, recursive=True)
        os.close(source)
    if owner:
        os.chown(folder, owner, owner)
        os.chown(folder.parent, owner, owner)
        folder.parent.chmod(0o750)
    return str(folder / ".venv/bin/python")


async def look(walls: str) -> dict[str, object]:
    """Return how the cells ended, and what each of them showed."""
    from fathom.core.telemetry import Telemetry
    from fathom.services.sandbox.config import Config
    from fathom.services.sandbox.metrics import Metrics
    from fathom.services.sandbox.supervisor.engine import Engine
    from fathom.services.sandbox.supervisor.events import Display, Outcome

    telemetry = Telemetry("sandbox", stream=io.StringIO())
    config = Config(min_isolation=walls, walls=walls, spares=0)
    engine = Engine(config, telemetry.log, Metrics.register(telemetry.registry).note)
    await engine.start()
    try:
        seen: dict[str, object] = {"missing": engine.report.missing}
        session = await engine.create()
        for name, code in CELLS.items():
            events = [event async for event in session.execute("", code, 0)]
            assert isinstance(events[-1], Outcome)
            shown = [event.media_type for event in events if isinstance(event, Display)]
            seen[name] = [events[-1].status.name, *shown, events[-1].result.strip("'") or events[-1].error_name]
        return seen
    finally:
        await engine.close()


def main(folder: str, walls: str, owner: str, uid: str) -> None:
    if Path(sys.prefix).is_relative_to(folder):
        print(json.dumps(asyncio.run(look(walls))))
        return
    python = move(Path(folder), int(owner))
    if int(uid):
        os.setgroups([])
        os.setresgid(int(uid), int(uid), int(uid))
        os.setresuid(int(uid), int(uid), int(uid))
    program = f"{folder}/checkout/{Path(__file__).relative_to(ROOT)}"
    os.execv(python, [python, program, folder, walls, owner, uid])


if __name__ == "__main__":
    main(*sys.argv[1:])
