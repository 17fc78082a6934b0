"""The ``fathom`` command and ``python -m fathom``."""

from __future__ import annotations

import sys

from fathom.core.errors import MissingExtra
from fathom.core.extras import name_missing_extra


def main() -> None:
    """Run the command line; without the extra ``cli``, say in one line how to get it and exit with status 1."""
    try:
        with name_missing_extra():
            from fathom.cli.main import main as run
    except MissingExtra as error:
        print(f"error: {error.message} [{error.reason}]", file=sys.stderr)
        raise SystemExit(1) from error
    run()


if __name__ == "__main__":
    main()
