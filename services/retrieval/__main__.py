"""``python -m fathom.services.retrieval``: runs the retrieval service until SIGTERM."""

from fathom.hosting.host import main
from fathom.services.retrieval.config import Config
from fathom.services.retrieval.server import build

if __name__ == "__main__":
    main("retrieval", Config, build)
