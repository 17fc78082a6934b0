"""Entry point of ``python -m fathom.services.datafetch``: serve until SIGTERM."""

from fathom.hosting.host import main
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.server import build

if __name__ == "__main__":
    main("datafetch", Config, build)
