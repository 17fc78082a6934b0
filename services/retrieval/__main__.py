"""``python -m services.retrieval``: runs retrieval until SIGTERM."""

from fathom.rpc.host import main
from services.retrieval.config import Config
from services.retrieval.server import build

if __name__ == "__main__":
    main("retrieval", Config, build)
