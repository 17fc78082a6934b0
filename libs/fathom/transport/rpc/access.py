"""Owners of the things that each RPC reads and changes: one declaration per RPC, and one rule that every call passes.

What a tenant has is kept under names bound to it (``fathom.core.call.bind``, ``fathom.transport.store.tenant``), so
that the id of another tenant's thing finds nothing: NOT_FOUND, as for an unknown id. What all tenants share is changed
by operators only. Writes and refusals are logged as ``audit``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from google.protobuf.message import Message

from fathom.core import errors
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.contract import Method
from fathom.transport.rpc.interceptors import Exchange, find_code

# Outcomes that are logged of reads too: somebody asked for what is not his, or not there.
REFUSALS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND"})
MAX_RESOURCE_CHARS = 200


class Scope(StrEnum):
    """Owner of the things that an RPC is about."""

    SHARED = "shared"
    """Reads what all tenants share: models, corpora, catalogues, tools."""
    TENANT = "tenant"
    """Reads or changes what belongs to the caller's tenant."""
    OPERATOR = "operator"
    """Changes what all tenants share; for operators."""


@dataclass(frozen=True)
class Access:
    """Declaration of one RPC: its scope, the dotted request field that names the thing, and whether it changes it."""

    scope: Scope
    resource: str = ""
    writes: bool = False


def reads(resource: str = "") -> Access:
    """Declare a read of the tenant's things."""
    return Access(Scope.TENANT, resource)


def writes(resource: str) -> Access:
    """Declare a change of the tenant's things."""
    return Access(Scope.TENANT, resource, writes=True)


def operates(resource: str) -> Access:
    """Declare a change of what all tenants share."""
    return Access(Scope.OPERATOR, resource, writes=True)


SHARED = Access(Scope.SHARED)
DECLARED: Mapping[str, Mapping[str, Access]] = MappingProxyType(
    {
        "datafetch": {
            "Query": reads(),
            "GetTable": reads("sheet_id"),
            "GetSheet": reads("sheet_id"),
            "RunSql": reads("sheet_ids"),
            "ExportTable": reads("sheet_id"),
            "ImportTable": writes("data.key"),
            "ProposeMeaning": reads("sheet_id"),
            "ApplyMeaning": writes("sheet_id"),
            "ResolveEntities": SHARED,
            "MatchIndicators": SHARED,
            "ListSources": SHARED,
            "ListConnectors": SHARED,
            "ProbeConnector": SHARED,
            "ListFrameworks": SHARED,
            "GetFrameworkFile": SHARED,
            "CheckFramework": SHARED,
            "ReadQuestion": reads("sheet_ids"),
            "SearchCatalog": SHARED,
            "EncodeTexts": SHARED,
        },
        "memory": {
            "AppendTurn": writes("conversation_id"),
            "GetWindow": reads("conversation_id"),
            "ListTurns": reads("conversation_id"),
            "ListConversations": reads(),
            "UpdateConversation": writes("conversation_id"),
            "DeleteConversation": writes("conversation_id"),
            "SearchMemory": reads(),
            "ListFacts": reads(),
            "PutFact": writes("fact.id"),
            "DeleteFact": writes("fact_id"),
            "RecordStance": writes("stance.entity"),
            "ListStances": reads("entities"),
            "DeleteStance": writes("stance_id"),
            "RecordFeedback": writes("run_id"),
            "ListFeedback": reads(),
            "ExportMemory": reads("scope.principal"),
            "EraseMemory": writes("scope.principal"),
            "AddReviewItems": writes("request_id"),
            "ListReviewQueues": reads(),
            "ClaimReviewItem": writes("after_id"),
            "DecideReviewItem": writes("item_id"),
            "UndoReviewDecision": writes("item_id"),
            "ListReviewDecisions": reads(),
        },
        "planner": {
            "Run": writes("request_id"),
            "WatchRun": reads("run_id"),
            "StopRun": writes("run_id"),
            "ResumeRun": writes("run_id"),
            "ReplayRun": reads("run_id"),
            "BranchRun": writes("run_id"),
            "GetRun": reads("run_id"),
            "ListRuns": reads(),
            "UpdateTodo": writes("run_id"),
            "SetConsent": writes("run_id"),
            "GetConsent": reads("run_id"),
            "RouteQuestion": SHARED,
            "ListTools": SHARED,
            "ListToolServers": SHARED,
            "ProbeToolServer": SHARED,
            "ListPrompts": SHARED,
            "Rollout": writes("request_id"),
            "SubmitRollout": writes("rollout.request_id"),
            "WatchRollout": reads("rollout_id"),
            "StopRollout": writes("rollout_id"),
        },
        "policy": {
            "Generate": SHARED,
            "ScoreTokens": SHARED,
            "GetModel": SHARED,
            "ListModels": SHARED,
            "LoadWeights": operates("model"),
            "PauseGeneration": operates("model"),
            "ResumeGeneration": operates("model"),
            "Tokenize": SHARED,
            "Detokenize": SHARED,
        },
        "retrieval": {
            "Search": reads("run"),
            "Fetch": reads("enforce_seen_by_run"),
            "Ingest": operates("corpus"),
            "ImportDocument": writes("corpus"),
            "DeleteDocument": writes("corpus"),
            "ListCorpora": SHARED,
            "ListSnapshots": SHARED,
            "CreateSnapshot": operates("corpus"),
            "ActivateSnapshot": operates("corpus"),
        },
        "reward": {
            "Score": SHARED,
            "ListGraders": SHARED,
            "JudgePairs": SHARED,
            "ScoreProcess": SHARED,
            "UpdateModel": operates("batch.key"),
        },
        "sandbox": {
            "CreateSession": writes("request_id"),
            "PutFrame": writes("session_id"),
            "Execute": writes("session_id"),
            "ListVariables": reads("session_id"),
            "Interrupt": writes("session_id"),
            "Restart": writes("session_id"),
            "CloseSession": writes("session_id"),
            "PutFile": writes("session_id"),
            "GetFile": reads("session_id"),
            "ListFiles": reads("session_id"),
            "GetIsolation": SHARED,
        },
    }
)


def access_of(method: Method) -> Access:
    """Return the declaration of an RPC; raise ``Internal`` for one that has none."""
    try:
        return DECLARED[method.service][method.name]
    except KeyError:
        # A refusal: an RPC that nobody has thought about must not serve everybody.
        raise errors.Internal(f"{method.service}.{method.name} declares no access") from None


@dataclass(frozen=True)
class Gate:
    """Lets a call pass if its RPC's declaration allows it, and logs writes and refusals."""

    telemetry: Telemetry

    def begin(self, exchange: Exchange) -> None:
        method = exchange.method
        if access_of(method).scope is Scope.OPERATOR and not exchange.call.is_operator:
            raise errors.PermissionDenied(
                f"{method.service}.{method.name} changes what all tenants share; only operators may call it"
            )

    def end(self, exchange: Exchange, error: BaseException | None) -> BaseException | None:
        access, code = access_of(exchange.method), find_code(error)
        if access.writes or code in REFUSALS:
            resource = name_resource(exchange.request, access.resource)
            log_audit(self.telemetry, exchange.method, exchange.call, resource, code)
        return error


def log_audit(telemetry: Telemetry, method: Method, call: Call, resource: str, outcome: str) -> None:
    """Log who did, or tried, what to which thing."""
    telemetry.log.info(
        "audit",
        tenant=call.tenant,
        principal=call.principal,
        rpc=f"{method.service}.{method.name}",
        resource=resource,
        outcome=outcome,
        request_id=call.request_id,
    )


def name_resource(request: Message | AsyncIterator[Message], path: str) -> str:
    """Return the value of a dotted field, those of a repeated one joined; "" for no path and for a stream."""
    if not path or not isinstance(request, Message):
        return ""
    value: Any = request
    for name in path.split("."):
        value = getattr(value, name)
    text = value if isinstance(value, str) else ",".join(map(str, value))
    return text[:MAX_RESOURCE_CHARS]
