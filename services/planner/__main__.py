"""Entry point of ``python -m fathom.services.planner``, which runs the planner until SIGTERM."""

from fathom.hosting.host import main
from fathom.services.planner.config import Config
from fathom.services.planner.server import build

if __name__ == "__main__":
    main("planner", Config, build)
