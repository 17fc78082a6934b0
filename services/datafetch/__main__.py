"""``python -m services.datafetch``: runs datafetch until SIGTERM."""

from fathom.rpc.host import main
from services.datafetch.config import Config
from services.datafetch.server import build

if __name__ == "__main__":
    main("datafetch", Config, build)
