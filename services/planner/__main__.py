"""Entry point of ``python -m services.planner``, which runs the planner until SIGTERM."""

from fathom.rpc.host import main
from services.planner.config import Config
from services.planner.server import build

if __name__ == "__main__":
    main("planner", Config, build)
