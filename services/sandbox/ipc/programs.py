"""Start-up programs of the sandbox's processes, as text for ``python -I -c``.

They stand apart from the modules that they run, so that a process that starts another imports none of its code. With
``-I`` the interpreter ignores the environment and the working folder; the import path comes from the arguments alone.
"""

SUPERVISOR = "import sys; sys.path[:0] = sys.argv[3:]; from fathom.services.sandbox.supervisor.main import main; main()"
"""Arguments: descriptor of the socket to the service front, the front's process id, folders to import from."""

FORK_SERVER = (
    "import sys; sys.path.insert(0, sys.argv[2]); from fathom.services.sandbox.inside.fork_server import main; main()"
)
"""Arguments: descriptor of the control socket, folder to import from, the supervisor's process id."""
