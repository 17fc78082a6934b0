"""The sandbox's check for ``fathom doctor``."""

from __future__ import annotations

import importlib.util
import io

from fathom.cli.doctor.findings import Finding
from fathom.core.errors import FathomError


async def check_isolation() -> list[Finding]:
    """Build and probe one session of the jail for the model's Python, as the sandbox does when it starts."""
    if importlib.util.find_spec("IPython") is None or importlib.util.find_spec("plotly") is None:
        return []
    from fathom.core.config import load
    from fathom.core.telemetry import Telemetry
    from fathom.services.sandbox.config import Config
    from fathom.services.sandbox.supervisor.engine import Engine

    quiet = Telemetry("doctor", stream=io.StringIO())
    try:
        config = load(Config, "sandbox", overrides={"spares": 0})
        engine = Engine(config, quiet.log, lambda *_: None)
        await engine.start()
    except FathomError as error:
        return [Finding("sandbox", False, error.message, "see the message")]
    level, missing = engine.report.level.word, "; ".join(engine.report.missing)
    await engine.close()
    return [Finding("sandbox", True, f"isolation {level}" + (f", without {missing}" if missing else ""))]
