"""Fathom's shared library: the contract, its transports, the clients and the command line.

Importing ``fathom`` or ``fathom.clients`` never imports torch, ray, vllm, faiss or pandas.
"""

from importlib.metadata import PackageNotFoundError, version


def distribution_version() -> str:
    """Version of the installed distribution, or ``"0+unknown"`` in a bare source tree."""
    try:
        return version("fathom")
    except PackageNotFoundError:
        return "0+unknown"
