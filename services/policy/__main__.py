"""Entry point of ``python -m services.policy``."""

from fathom.rpc.host import main
from services.policy.config import Config
from services.policy.server import build

if __name__ == "__main__":
    main("policy", Config, build)
