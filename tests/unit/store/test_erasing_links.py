"""Erasure of links: those that a user has made and those that show the user's runs go; nobody else's do."""

from __future__ import annotations

import json

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import Conflict, NotFound
from fathom.operations.links import LINKS, Holding, erase_links, list_links
from fathom.operations.schedules import Owner
from fathom.services.gateway.links.store import Link, LinkStore, hash_token
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.tenant import TenantStore

ANNE, HELD = Owner("fund-7", "user:anne"), Holding({"run_of_anne"}, {"conv_of_anne"})


async def share(whole: MemoryStore, name: str, creator: str, run: str, audience: str = "tenant") -> None:
    about = Link(hash_token(name), run, "", 0, audience, "en", f"Title of {name}", creator, 0.0, 9e9, (run,))
    await LinkStore(TenantStore(whole), whole).add(about)


async def fill(whole: MemoryStore) -> None:
    with calling(Call.new(tenant="fund-7")):
        await share(whole, "own", "user:anne", "run_of_anne", audience="anyone")
        await share(whole, "of a failed run", "user:anne", "run_of_nobody")
        await share(whole, "made by bert", "user:bert", "run_of_anne")
        await share(whole, "bert's", "user:bert", "run_of_bert", audience="anyone")
    with calling(Call.new(tenant="fund-8")):
        await share(whole, "of a namesake", "user:anne", "run_of_anne", audience="anyone")


async def read_titles(whole: MemoryStore) -> list[str]:
    links = [key for key in await whole.keys("") if f"/{LINKS}" in f"/{key}"]
    return sorted([json.loads(await whole.get(key))["title"] for key in links])


async def test_links_of_a_user_and_to_the_users_runs_are_listed_and_erased() -> None:
    whole = MemoryStore()
    await fill(whole)
    with calling(Call.new(tenant="fund-7")):
        store = TenantStore(whole)
        listed = await list_links(store, ANNE, HELD)
        erased = await erase_links(store, whole, ANNE, HELD)
        again = await erase_links(store, whole, ANNE, HELD)
        links = LinkStore(store, whole)
        # Nobody opens it from outside either, and another's still opens.
        with pytest.raises(NotFound):
            await links.find_owner(hash_token("own"))
        assert await links.find_owner(hash_token("bert's")) == "fund-7"
    titles = ["Title of made by bert", "Title of of a failed run", "Title of own"]
    assert sorted(str(link.values["title"]) for link in listed) == titles
    assert sorted(str(link.values["title"]) for link in erased) == titles
    assert again == []
    assert await read_titles(whole) == ["Title of bert's", "Title of of a namesake"]


async def test_all_links_of_a_tenant_go_also_what_another_version_has_written() -> None:
    whole = MemoryStore()
    await fill(whole)
    with calling(Call.new(tenant="fund-7")):
        store = TenantStore(whole)
        await store.put(LINKS + "foreign", b"[1]")
        assert len(await erase_links(store, whole, Owner("fund-7"), Holding(()))) == 5
        assert await store.keys("") == []
    assert await read_titles(whole) == ["Title of of a namesake"]


async def test_a_link_of_an_earlier_version_is_known_by_its_conversation() -> None:
    store = MemoryStore()
    for name, conversation in (("hers", "conv_of_anne"), ("his", "conv_of_bert")):
        values = {"creator": "user:bert", "run_id": "", "conversation_id": conversation, "title": name}
        await store.put(LINKS + name, json.dumps(values).encode())
    assert [link.id for link in await erase_links(store, store, ANNE, HELD)] == ["hers"]


async def test_links_that_are_made_all_the_time_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await share(store, "own", "user:anne", "run_of_anne")

    async def keep(key: str) -> None:
        """Delete nothing, as if the link had been made again."""

    monkeypatch.setattr(store, "delete", keep)
    with pytest.raises(Conflict, match="made all the time"):
        await erase_links(store, store, ANNE, HELD)
