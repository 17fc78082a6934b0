"""gRPC writes a line at every fork, unless it is told not to before it is imported."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from fathom.cli import main
assert "grpc" not in sys.modules, "gRPC reads the setting when it is imported"
sys.argv = ["fathom", "version"]
try:
    main.main()
except SystemExit:
    pass
import os
assert os.environ["GRPC_ENABLE_FORK_SUPPORT"] == "0"
"""


def test_the_command_line_silences_grpcs_forks_before_it_is_imported() -> None:
    environ = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
