"""Entry point of the service front: ``python -m fathom.services.sandbox`` serves until SIGTERM."""

from fathom.hosting.host import main
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.server import build

if __name__ == "__main__":
    main("sandbox", Config, build)
