"""``python -m services.reward``: runs the reward service until SIGTERM."""

from fathom.rpc.host import main
from services.reward.config import Config
from services.reward.server import build

if __name__ == "__main__":
    main("reward", Config, build)
