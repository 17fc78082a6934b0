"""Lanes of calls as the API names them."""

from __future__ import annotations

from fathom.api.common.v1 import common_pb2 as common
from fathom.core.call import Lane

LANES = {
    Lane.INTERACTIVE: common.LANE_INTERACTIVE,
    Lane.EVALUATION: common.LANE_EVALUATION,
    Lane.TRAINING: common.LANE_TRAINING,
}
