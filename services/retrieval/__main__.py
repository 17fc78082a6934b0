"""``python -m services.retrieval``: runs the retrieval service until SIGTERM."""

from fathom.rpc.host import main
from services.retrieval.config import Config
from services.retrieval.server import build

if __name__ == "__main__":
    main("retrieval", Config, build)
