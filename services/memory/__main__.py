"""``python -m fathom.services.memory``: runs the memory service until SIGTERM."""

from fathom.hosting.host import main
from fathom.services.memory.config import Config
from fathom.services.memory.server import build

if __name__ == "__main__":
    main("memory", Config, build)
