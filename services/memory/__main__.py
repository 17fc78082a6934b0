"""``python -m services.memory``: runs the memory service until SIGTERM."""

from fathom.rpc.host import main
from services.memory.config import Config
from services.memory.server import build

if __name__ == "__main__":
    main("memory", Config, build)
