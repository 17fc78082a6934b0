"""Process-wide lock for loading transformers models.

The library replaces functions of its own classes while it loads. Of two concurrent loads one may leave them replaced
for ever, after which tied weights are no longer tied (seen with 5.19). A process has one such library, hence one lock.
"""

from __future__ import annotations

import threading

# Held around every from_pretrained and every construction of a network by the library.
LOADING = threading.Lock()
