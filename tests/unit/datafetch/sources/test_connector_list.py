"""The list of connectors: what can be connected, whether its key is here, and how its last tries went."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import DependencyFailed, InvalidField, NotFound
from fathom.domain.contact import Contact
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.discovery.connectors import list_connectors
from fathom.services.datafetch.discovery.probing import choose_request, probe_connector
from fathom.services.datafetch.sources import DataRequest, Kind, NoData, VendorOff, Vendors, load_records
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.flow import Lane, LanePolicy
from fathom.services.datafetch.warehouse.elsewhere import Database
from tests.support.clock import Clock
from tests.unit.datafetch.sources.test_connector_vendors import Fake

PRICES = DataRequest(Kind.PRICES, "600519")


def index(config: Config, vendors: Vendors | None = None) -> dict[str, pb.Connector]:
    return {one.name: one for one in list_connectors(config, vendors).connectors}


def test_vendors_that_are_off_are_listed_with_what_they_would_give() -> None:
    found = index(Config())
    assert set(found) == set(load_records())
    assert not any(one.is_enabled or one.HasField("contact") for one in found.values())
    offers = {(offer.kind, *offer.markets) for offer in found["baostock"].offers}
    assert offers == {("prices", "cn"), ("statements", "cn")}
    assert all(one.offers for one in found.values())


def test_keys_are_said_to_be_here_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRED_API_KEY", raising=False)
    assert index(Config())["fred"].credential == common.CREDENTIAL_MISSING
    monkeypatch.setenv("FRED_API_KEY", "very-secret")
    found = list_connectors(Config(), None)
    assert {one.name: one.credential for one in found.connectors}["fred"] == common.CREDENTIAL_SET
    assert b"very-secret" not in found.SerializeToString()
    no_variable = Config(connectors=ConnectorsConfig(fred_key_env=""))
    assert index(no_variable)["fred"].credential == common.CREDENTIAL_MISSING
    assert index(Config())["edgar"].credential == common.CREDENTIAL_MISSING
    assert index(Config())["yfinance"].credential == common.CREDENTIAL_UNSPECIFIED


def test_a_database_is_named_and_its_address_is_not() -> None:
    config = Config.model_validate({"databases": {"desk": "postgresql://me:very-secret@host/desk"}})
    found = list_connectors(config, None)
    desk = next(one for one in found.connectors if one.name == "desk")
    assert (desk.is_database, desk.is_enabled, desk.setting) == (True, True, "datafetch.databases.desk")
    assert b"very-secret" not in found.SerializeToString()


async def test_the_last_answer_and_the_last_failure_are_told() -> None:
    down, empty = (
        Fake("akshare", error=DependencyFailed("akshare", "down")),
        Fake("baostock", error=NoData("baostock", PRICES)),
    )
    config = Config(connectors=ConnectorsConfig(per_second=1e6, circuit_failures=1))
    vendors = Vendors([down, empty, Fake("yfinance")], config.connectors)
    for name, error in (("akshare", DependencyFailed), ("baostock", NotFound)):
        with pytest.raises(error):
            await vendors.ask(name, PRICES, date(2020, 1, 2))
    found = index(config, vendors)
    akshare, baostock, untried = found["akshare"], found["baostock"], found["yfinance"]
    assert (akshare.is_enabled, akshare.is_paused, akshare.contact.failure) == (True, True, "akshare: down")
    assert (akshare.contact.HasField("tried"), akshare.contact.HasField("answered")) == (True, False)
    # A vendor that has nothing works.
    assert (baostock.contact.HasField("answered"), baostock.contact.HasField("failed")) == (True, False)
    assert (untried.is_enabled, untried.contact) == (True, common.Contact())


async def test_moments_are_those_of_the_clock_and_an_answer_keeps_the_failure_before() -> None:
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    clock = Clock()
    lane = Lane("vendor", LanePolicy(per_second=1e6), clock, contact=Contact(lambda: now))

    async def fails() -> None:
        raise DependencyFailed("vendor", "down")

    async def works() -> str:
        return "here"

    with pytest.raises(DependencyFailed):
        await lane.run(fails)
    await lane.run(works)
    message = lane.contact.to_proto()
    assert [getattr(message, name).ToDatetime(UTC) for name in ("tried", "answered", "failed")] == [now, now, now]
    assert message.failure == "vendor: down"


def test_a_failures_words_are_bounded() -> None:
    contact = Contact()
    contact.note_failure("x" * 10_000)
    assert len(contact.failure) == 300


async def test_a_vendor_is_tried_past_its_cache_and_says_why_it_fails() -> None:
    up, down = Fake("akshare", [1.0]), Fake("baostock", error=DependencyFailed("baostock", "answers 403"))
    nothing = Fake("yfinance", error=NoData("yfinance", PRICES))
    vendors = Vendors([up, down, nothing], ConnectorsConfig())
    for _ in range(2):
        found = await probe_connector(pb.ProbeConnectorRequest(name="akshare"), vendors, {}, None)
        assert (found.is_answering, found.failure) == (True, "")
    assert up.calls == 2
    refused = await probe_connector(pb.ProbeConnectorRequest(name="baostock"), vendors, {}, None)
    assert (refused.is_answering, refused.failure) == (False, "baostock: answers 403")
    assert vendors.lane("baostock").contact.failure == "baostock: answers 403"
    # That there is nothing is an answer.
    assert (await probe_connector(pb.ProbeConnectorRequest(name="yfinance"), vendors, {}, None)).is_answering
    with pytest.raises(VendorOff, match="fred is off"):
        await probe_connector(pb.ProbeConnectorRequest(name="fred"), vendors, {}, None)
    with pytest.raises(NotFound, match="no vendor 'nobody'"):
        await probe_connector(pb.ProbeConnectorRequest(name="nobody"), vendors, {}, None)
    with pytest.raises(NotFound, match="no database 'desk'"):
        await probe_connector(pb.ProbeConnectorRequest(name="desk", is_database=True), vendors, {}, None)
    with pytest.raises(InvalidField, match="name"):
        await probe_connector(pb.ProbeConnectorRequest(), vendors, {}, None)


async def test_a_database_that_is_away_is_named_with_the_cause() -> None:
    # Nothing listens on the first port of all.
    desk = Database("desk", "postgresql://reader:very-secret@127.0.0.1:1/desk", 1, 1.0)
    found = await probe_connector(pb.ProbeConnectorRequest(name="desk", is_database=True), None, {"desk": desk}, None)
    assert not found.is_answering
    assert "desk" in found.failure
    assert "very-secret" not in found.failure


def test_every_vendor_has_something_small_to_be_asked() -> None:
    for name in load_records():
        assert choose_request(name).symbol
