"""Affinity of a conversation: every choice that each of its turns should get again is made by this key.

Clients and Ray Serve's router choose the replica that has the conversation's prefix in its cache; a replica chooses
the version among several that serve a model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.core.ids import sha256
from fathom.domain.chat.messages import Role
from fathom.domain.chat.proto import ROLES_BACK


def conversation_key(messages: Iterable[tuple[str, str]]) -> str:
    """Return a key shared by all turns of a conversation: a hash of its messages before the first answer.

    ``messages`` are pairs of role and content. Neither the model's name nor the tools are part of the key, because
    they may differ between turns: a caller names a role or the model behind it, and withholds tools for a last answer.
    """
    opening = itertools.takewhile(lambda message: message[0] != Role.ASSISTANT, messages)
    # Separated by characters that no role has, so that the end of one message cannot pass for the beginning of
    # another.
    return sha256("\x00".join(f"{role}\x01{content}" for role, content in opening).encode())


def generation_key(request: pb.GenerateRequest) -> str:
    """Return the conversation key of a request; a role that the contract does not have counts as none."""
    return conversation_key((ROLES_BACK.get(message.role, ""), message.content) for message in request.messages)


def rendezvous_weight(key: str, replica: str) -> str:
    """Return the rank of a replica for a key; the lowest is preferred.

    Rendezvous hashing: all callers agree without communication, and when a replica joins or leaves only its own
    conversations move.
    """
    return sha256(f"{key}\x00{replica}".encode())
