"""Fathom's shared library: service contracts, transports, clients and the command line.

Importing ``fathom`` or ``fathom.clients`` never imports torch, ray, vllm, faiss or pandas.
"""

from importlib.metadata import PackageNotFoundError, version


def distribution_version() -> str:
    """Return the version of the installed distribution, or ``"0+unknown"`` in a bare source tree."""
    try:
        return version("fathom")
    except PackageNotFoundError:
        return "0+unknown"
