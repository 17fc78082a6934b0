"""``python -m fathom.services.reward``: runs the reward service until SIGTERM."""

from fathom.hosting.host import main
from fathom.services.reward.config import Config
from fathom.services.reward.server import build

if __name__ == "__main__":
    main("reward", Config, build)
