"""A log that cannot be written, as on a full disk, fails no call: its lines are lost, and counted."""

from __future__ import annotations

import errno
import io
import json
import logging
import os

import pytest

from fathom.core.library_logs import LibraryLogHandler, library_logs
from fathom.core.telemetry import Telemetry


class FullDisk(io.StringIO):
    """Takes nothing while it is full."""

    is_full = True

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_full_disk_loses_lines_and_fails_nobody(log_format: str) -> None:
    stream = FullDisk()
    telemetry = Telemetry("test", stream=stream, log_format=log_format)
    for write in (telemetry.log.info, telemetry.log.warning, telemetry.log.error, telemetry.log.exception):
        write("nobody reads this")
    assert telemetry.registry.get_sample_value("fathom_log_lines_lost_total") == 4
    stream.is_full = False
    telemetry.log.info("somebody reads this")
    assert "somebody reads this" in stream.getvalue()
    assert "nobody" not in stream.getvalue()
    assert telemetry.registry.get_sample_value("fathom_log_lines_lost_total") == 4


def test_what_libraries_log_is_a_line_of_the_services_log() -> None:
    stream = io.StringIO()
    telemetry = Telemetry("planner", stream=stream)
    foreign, own = logging.getLogger("foreign.exporter"), logging.getLogger("fathom.tls")
    with library_logs(telemetry.log, "info"):
        foreign.warning("no answer from %s", "collector:4317")
        foreign.info("not of interest")
        own.info("certificates taken over")
    foreign.info("behind the block")
    telemetry.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["level"], one["logger"], one["event"], one["service"]) for one in lines] == [
        ("warning", "foreign.exporter", "no answer from collector:4317", "planner"),
        ("info", "fathom.tls", "certificates taken over", "planner"),
    ]
    assert not any(isinstance(handler, LibraryLogHandler) for handler in logging.getLogger().handlers)
