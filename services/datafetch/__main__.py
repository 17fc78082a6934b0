"""Entry point of ``python -m services.datafetch``: serve until SIGTERM."""

from fathom.rpc.host import main
from services.datafetch.config import Config
from services.datafetch.server import build

if __name__ == "__main__":
    main("datafetch", Config, build)
