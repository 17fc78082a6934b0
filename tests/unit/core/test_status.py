"""Every typed error survives the trip through google.rpc.Status; headers survive theirs."""

from __future__ import annotations

import grpc
import pytest

from fathom.api.common.v1.common_pb2 import ErrorReason
from fathom.core import errors
from fathom.core.call import Call, Lane
from fathom.core.config import ConfigError
from fathom.transport.status import from_grpc, from_status, to_status

SAMPLES: list[errors.FathomError] = [
    errors.InvalidField("a.b", "is wrong"),
    errors.PayloadTooLarge(3, 2),
    errors.ContextTooLong("far", 8_192, "8,300 tokens"),
    errors.NotFound("company", "Appel", ["Apple", "AMD"]),
    errors.Conflict("no"),
    errors.SessionLost("s1", "oom"),
    errors.VersionMismatch("tiny", 2, 1),
    errors.FailedPrecondition("model 'rules' takes no weights", metadata={"model": "rules"}),
    errors.MissingExtra("torch", "policy"),
    errors.UpstreamRefused("searxng", 403, "no JSON here"),
    errors.UnreadableContent("example.org", "example.org sent image/png", "image/png"),
    errors.NotImplementedYet("x.Y", "later"),
    errors.CorruptData("k", "checksum"),
    errors.NotReady("warming", retry_after_s=1.5),
    errors.DependencyFailed("policy", "gone"),
    errors.Overloaded("full", 0.25),
    errors.DeadlineExceeded("late"),
    errors.Cancelled("gone"),
    errors.Unauthenticated("no token"),
    errors.PermissionDenied("for operators"),
    errors.Internal("broken"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_round_trip(error: errors.FathomError) -> None:
    # Over the wire a status has code, reason and details: from these the same class is made again.
    back = from_status(to_status(error))
    assert type(back) is type(error)
    assert (back.message, dict(back.metadata), back.retry_after_s, back.transient) == (
        error.message,
        dict(error.metadata),
        error.retry_after_s,
        error.transient,
    )


def test_reasons_are_those_of_the_contract_and_each_has_a_class() -> None:
    # The contract's reasons and our classes are the same set: neither may grow alone.
    names = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.DESCRIPTOR.values_by_name} - {"UNSPECIFIED"}
    assert {type(error).reason for error in SAMPLES} == names


def test_an_error_of_settings_comes_back_as_a_wrong_field_without_a_name() -> None:
    # The caller cannot mend a server's settings, but learns what is wrong.
    back = from_status(to_status(ConfigError("environment variable OPENAI_API_KEY is not set")))
    assert isinstance(back, errors.InvalidField)
    assert (back.field, back.message) == ("", "environment variable OPENAI_API_KEY is not set")


def test_attributes_come_back() -> None:
    field = from_status(to_status(errors.InvalidField("a.b", "is wrong")))
    assert isinstance(field, errors.InvalidField)
    assert field.field == "a.b"
    missing = from_status(to_status(errors.NotFound("company", "Appel", ["Apple", "AMD"])))
    assert isinstance(missing, errors.NotFound)
    assert missing.nearest == ("Apple", "AMD")
    refused = from_status(to_status(errors.UpstreamRefused("searxng", 403, "no JSON here")))
    assert isinstance(refused, errors.UpstreamRefused)
    assert (refused.culprit, refused.status, refused.transient) == ("searxng", 403, False)


def test_headers_carry_the_call() -> None:
    call = Call.new(lane=Lane.TRAINING, tenant="t-1", timeout_s=5)
    back = Call.from_headers(call.headers())
    assert (back.request_id, back.lane, back.tenant) == (call.request_id, Lane.TRAINING, "t-1")
    # Half a second for the time that the test itself takes.
    assert back.remaining_s() == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize(
    ("header", "value"),
    [("fathom-lane", "vip"), ("fathom-deadline-ms", "soon"), ("fathom-tenant", "a b"), ("fathom-request-id", "../x")],
)
def test_bad_headers_are_named(header: str, value: str) -> None:
    with pytest.raises(errors.InvalidField) as bad:
        Call.from_headers({header: value})
    assert bad.value.field == header


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
# Status codes of a server that stops: nothing was wrong with the request.
def test_a_call_that_a_leaving_server_dropped_may_be_tried_again(code: grpc.StatusCode) -> None:
    dropped = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "")
    error = from_grpc(dropped, "memory", "GetWindow")
    assert isinstance(error, errors.DependencyFailed)
    assert error.transient
    assert error.metadata["culprit"] == "memory"
