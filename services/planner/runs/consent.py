"""Consent to training on runs: stated by their users, noted in their records."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call
from fathom.core.errors import InvalidField, NotFound, PermissionDenied
from fathom.core.ids import checked_id
from fathom.domain.consent import FROM_PROTO, Asker, Consent, ConsentRecords
from fathom.services.planner.runs.repository import Header, RunRepository

TO_PROTO = {consent: value for value, consent in FROM_PROTO.items()}


async def set_consent(record: RunRepository, request: pb.SetConsentRequest, call: Call) -> None:
    """Record what the caller states; raise ``NotFound``, ``InvalidField`` and ``PermissionDenied``."""
    consent, records = FROM_PROTO.get(request.consent), ConsentRecords(record.store)
    if consent is None:
        raise InvalidField("consent", "must be given or refused")
    if not request.run_id:
        return await records.put_standing(call.principal, consent)
    origin = await record.find_origin(await record.get_header(checked_id("run_id", request.run_id)))
    # Others of the tenant may protect a run, but not give away what somebody else has asked.
    if consent is Consent.GIVEN and origin.principal not in ("", call.principal):
        raise PermissionDenied(f"run {request.run_id} was asked by somebody else, who alone can give consent")
    await records.put_run(request.run_id, consent, call.principal)


async def get_consent(record: RunRepository, request: pb.GetConsentRequest, call: Call) -> pb.GetConsentResponse:
    """Return what holds for a run, or for all runs of the caller; raise ``NotFound``."""
    records = ConsentRecords(record.store)
    if not request.run_id:
        return make_response(await records.get_standing(call.principal), of_run=False)
    found, of_run = await records.find(await find_asker(record, checked_id("run_id", request.run_id)))
    return make_response(found, of_run=of_run)


async def find_asker(record: RunRepository, run_id: str) -> Asker:
    """Return who asked a run, and what was stated with it; raise ``NotFound``."""
    header = await record.get_header(run_id)
    origin = await record.find_origin(header)
    return Asker(header.run_id, origin.principal, FROM_PROTO.get(origin.run_request().consent), origin.run_id)


async def find_run_consent(record: RunRepository, run_id: str) -> Consent | None:
    """Return what holds for a run; None where nothing does, also for a run whose record is gone."""
    try:
        asker = await find_asker(record, run_id)
    except NotFound:
        return None
    return (await ConsentRecords(record.store).find(asker))[0]


def make_response(consent: Consent | None, *, of_run: bool) -> pb.GetConsentResponse:
    found = trajectory.CONSENT_UNSPECIFIED if consent is None else TO_PROTO[consent]
    return pb.GetConsentResponse(consent=found, of_run=of_run)


async def note_asker(record: RunRepository, header: Header, message: trajectory.Trajectory) -> None:
    """Write into a run's trajectory who asked it, and what was stated then."""
    try:
        origin = await record.find_origin(header)
    except NotFound:
        # Nobody can say whose question it was: it stays out of training.
        message.consent = trajectory.CONSENT_REFUSED
        return
    message.principal, message.consent = origin.principal, origin.run_request().consent
    message.origin_run_id = "" if origin.run_id == header.run_id else origin.run_id
