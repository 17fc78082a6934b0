"""Entry point of ``python -m fathom.services.policy``."""

from fathom.hosting.host import main
from fathom.services.policy.config import Config
from fathom.services.policy.server import build

if __name__ == "__main__":
    main("policy", Config, build)
