"""Admission control of an upstream."""

from fathom.core.admission.admission import MAX_RETRY_S, Admission, AdmissionObserver, Limits, Place
from fathom.core.admission.queue import OLDEST_EVERY, Claimant, LaneQueue, Turn
from fathom.core.admission.quota import Quota, QuotaSetting
from fathom.core.admission.shares import Share

__all__ = [
    "MAX_RETRY_S",
    "OLDEST_EVERY",
    "Admission",
    "AdmissionObserver",
    "Claimant",
    "LaneQueue",
    "Limits",
    "Place",
    "Quota",
    "QuotaSetting",
    "Share",
    "Turn",
]
