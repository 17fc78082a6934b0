"""``python -m fathom.services.gateway``: runs the gateway until SIGTERM."""

from fathom.hosting.host import main_http
from fathom.services.gateway.config import Config
from fathom.services.gateway.server import build

if __name__ == "__main__":
    main_http("gateway", Config, build)
