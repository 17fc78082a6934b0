"""Entry point of the service front: ``python -m services.sandbox`` serves until SIGTERM."""

from fathom.rpc.host import main
from services.sandbox.config import Config
from services.sandbox.server import build

if __name__ == "__main__":
    main("sandbox", Config, build)
