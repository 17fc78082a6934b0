"""A store in which each tenant sees its own objects only."""

from __future__ import annotations

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import NotFound
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.tenant import TenantStore, list_tenants

A, B = Call.new(tenant="fund-7"), Call.new(tenant="fund-8")


async def test_a_key_is_another_object_to_each_tenant() -> None:
    store = TenantStore(MemoryStore())
    for call, data in ((None, b"operator"), (A, b"a"), (B, b"b")):
        with calling(call or Call.new()):
            stored = await store.put("runs/1.json", data)
            assert stored.key == "runs/1.json"
    with calling(A):
        assert await store.get("runs/1.json") == b"a"
        await store.delete("runs/1.json")
        assert await store.head("runs/1.json") is None
    with calling(B):
        assert await store.get("runs/1.json") == b"b"
    assert await store.get("runs/1.json") == b"operator"


@pytest.mark.parametrize("prefix", ["", "t", "tables/", "runs/"])
async def test_lists_hold_the_tenants_own_keys(prefix: str) -> None:
    store = TenantStore(MemoryStore())
    names = ["runs/1", "runs/2", "tables/1"]
    for call in (Call.new(), A, B):
        with calling(call):
            for name in names:
                await store.put(name, b"")
    for call in (Call.new(), A):
        with calling(call):
            expected = [name for name in names if name.startswith(prefix)]
            assert await store.keys(prefix) == expected
            assert [item.key for item in await store.list(prefix)] == expected
    with calling(A):
        assert await store.keys("runs/", after="runs/1", limit=5) == ["runs/2"]


@pytest.mark.parametrize("call", [Call.new(), B], ids=["default", "other"])
async def test_no_key_leads_into_another_tenants_folder(call: Call) -> None:
    inner = MemoryStore()
    store = TenantStore(inner)
    with calling(A):
        stored = await store.put("tables/secret.pb", b"secret")
    assert await inner.get("tenants/fund-7/tables/secret.pb") == b"secret"
    with calling(call):
        for key in (stored.key, "tenants/fund-7/tables/secret.pb"):
            with pytest.raises(NotFound) as missing:
                await store.get(key, stored.sha256)
            assert missing.value.metadata["name"] == key
        for act in (store.keys, store.list, store.head, store.delete):
            with pytest.raises(NotFound):
                await act("tenants/fund-7/")
        with pytest.raises(NotFound):
            await store.put("tenants/fund-7/tables/secret.pb", b"mine")
    assert await inner.get("tenants/fund-7/tables/secret.pb") == b"secret"


async def test_tenants_are_listed_once_each() -> None:
    inner = MemoryStore()
    store = TenantStore(inner)
    names = ["a", "a-b", "a0", "a_b", "fund-7"]
    for tenant in ("default", *names):
        with calling(Call.new(tenant=tenant)):
            for key in ("runs/1", "runs/2", "z"):
                await store.put(key, b"")
    assert sorted(await list_tenants(inner)) == sorted(names)
    assert await list_tenants(MemoryStore()) == []
