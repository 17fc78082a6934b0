"""Fathom's shared library: service contracts, transports, clients and the command line.

Importing ``fathom`` or ``fathom.clients`` never imports torch, ray, vllm, faiss or pandas.
"""

# The one place that names the version: the package's metadata, the images' labels and the gateway's OpenAPI document
# read it here, and tests/contract/test_version.py compares the chart and CHANGELOG.md with it.
__version__ = "0.2.0"
