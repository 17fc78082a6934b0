"""A log that cannot be written, as on a full disk, fails no call: its lines are lost, and counted."""

from __future__ import annotations

import errno
import io
import os

import pytest

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
