"""``python -m services.gateway``: runs the gateway until SIGTERM."""

from fathom.rpc.host import main_http
from services.gateway.config import Config
from services.gateway.server import build

if __name__ == "__main__":
    main_http("gateway", Config, build)
