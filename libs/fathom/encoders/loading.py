"""One load at a time of models of transformers, whoever loads and whatever the model.

The library replaces functions of its own classes while it loads, so that of two loads at once one may leave them
replaced for ever: tied weights are then no longer tied (seen with 5.19). A process has one such library, so it has
one lock.
"""

from __future__ import annotations

import threading

LOADING = threading.Lock()
"""Held around every ``from_pretrained`` and every making of a network by the library."""
