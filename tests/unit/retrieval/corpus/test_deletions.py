"""Sources deleted by their key: hidden now, there as of an earlier day, and free to come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from fathom.api.retrieval.v1 import retrieval_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call
from fathom.services.retrieval.corpus.ingest import Chunk, Deletion
from fathom.services.retrieval.documents.model import Document, Filter
from fathom.services.retrieval.documents.versions import CURRENT, UNDATED, Version, find_deleted, find_ends
from fathom.services.retrieval.engine import Engine
from fathom.services.retrieval.server import RetrievalServicer
from fathom.transport.store.memory import MemoryStore
from tests.unit.retrieval.corpus.ingesting import bring

TEXT, CALL = "text/plain", Call("req_1")
MARCH, JUNE, JULY = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 6, 7))
OLD = Chunk(b"The policy rate target is 3.25 percent.", TEXT, "memo.txt", MARCH)
NEW = Chunk(b"The policy rate target is 3.75 percent.", TEXT, "memo.txt", JUNE)


@pytest.fixture
def engine(empty_engine: Engine) -> Engine:
    return empty_engine


async def find(engine: Engine, as_of: datetime | None = None, corpus: str = "main") -> list[Document]:
    _, (hits,) = await engine.search(["policy rate target memo"], 10, Filter(as_of=as_of), corpus=corpus)
    assert not isinstance(hits, errors.FathomError)
    return [hit.document for hit in hits]


async def test_a_deleted_source_is_found_as_of_an_earlier_day_only(engine: Engine) -> None:
    await bring(engine, OLD, NEW)
    (shown,) = await find(engine)
    done = await bring(engine, Deletion("memo.txt", JULY))
    assert (done.deleted, done.added) == (1, 0)
    assert await find(engine) == []
    assert await find(engine, JULY) == []
    for as_of, expected in ((MARCH, "3.25"), (JUNE, "3.75")):
        (found,) = await find(engine, as_of)
        assert expected in found.text
    (gone,) = (await engine.fetch([shown.id]))[1]
    (there,) = (await engine.fetch([shown.id], as_of=JUNE))[1]
    assert isinstance(gone, errors.NotFound)
    assert not isinstance(there, errors.FathomError)


@pytest.mark.parametrize("published", [MARCH, None])
async def test_a_deleted_file_may_come_back_unchanged(engine: Engine, published: datetime | None) -> None:
    file = Chunk(OLD.data, TEXT, "memo.txt", published)
    await bring(engine, file)
    await bring(engine, Deletion("memo.txt"))
    assert await find(engine) == []
    assert (await bring(engine, file)).added == 1
    assert [one.source for one in await find(engine)] == ["memo.txt"]
    if published:
        assert len(await find(engine, JUNE)) == 1, "the one that came back, and not the one before beside it"
    # Deleted and brought again by one ingest.
    other = Chunk(b"Something else.", TEXT, "other.txt")
    done = await bring(engine, other, Deletion("memo.txt"), file, other, file)
    assert (done.deleted, done.added, done.duplicates) == (1, 2, 2)
    assert len(await find(engine)) == 1


async def test_what_is_not_there_or_is_newer_is_not_deleted(engine: Engine) -> None:
    await bring(engine, NEW)
    done = await bring(engine, Deletion("nothing.txt"), Deletion("memo.txt", MARCH), Deletion("memo.txt"), OLD)
    assert (done.deleted, done.rejected) == (1, 2)
    assert "nothing.txt" in done.issues[0].message
    assert "2026-06-01" in done.issues[1].message
    assert (await bring(engine, Deletion("memo.txt"))).deleted == 1
    with pytest.raises(errors.InvalidField, match=r"memo\.txt"):
        await bring(engine, Deletion("memo.txt"))


def test_ends_of_versions_around_deletions() -> None:
    versions = [
        Version("a", "v1", 10),
        Version("a", "v2", 20),
        Version("a", "gone", 30, is_deletion=True),
        Version("a", "v2.3", 20),
    ]
    assert find_ends(versions[:3]) == [20, 30, 30]
    assert find_deleted([*versions[:3], None]) == [True, True, True, False]
    assert find_ends(versions) == [20, 20, 20, CURRENT]
    assert find_deleted(versions) == [False] * 4
    undated = [Version("a", "v1", UNDATED), Version("a", "gone", 30, is_deletion=True), Version("a", "v2", UNDATED)]
    assert find_ends(undated) == [30, 30, CURRENT]


async def test_documents_with_a_key_are_versions_too(engine: Engine) -> None:
    servicer = RetrievalServicer(engine, MemoryStore())

    async def send(*documents: pb.Document) -> pb.IngestResponse:
        async def requests() -> AsyncIterator[pb.IngestRequest]:
            for document in documents:
                yield pb.IngestRequest(corpus="main", document=document)

        done = await servicer.Ingest(requests(), CALL)
        await servicer.ActivateSnapshot(pb.ActivateSnapshotRequest(corpus="main", snapshot=done.snapshot), CALL)
        return done

    first, second = (pb.Document(key="memo-7", title="Memo", text=f"The target is {rate} percent.") for rate in (3, 4))
    await send(first)
    done = await send(second, pb.Document(key="memo-8", id="mine", text="Both."))
    assert (done.added, done.rejected) == (1, 1)
    assert "memo-8" in done.issues[0].message or "mine" in done.issues[0].message
    (found,) = await find(engine)
    assert ("4 percent" in found.text, found.key, found.title) == (True, "memo-7", "Memo")
    long = pb.Document(key="memo-7", title="Memo", text="The policy rate target is under review. " * 200)
    assert (await send(long)).added > 5
    assert len({one.parent for one in await find(engine)} - {""}) == 1


async def test_an_own_document_is_deleted_at_once_and_by_its_owner(engine: Engine) -> None:
    servicer = RetrievalServicer(engine, MemoryStore())
    await engine.import_document("docs_1", OLD, 60)
    assert len(await find(engine, corpus="docs_1")) == 1
    for fields, error in (
        ({"corpus": "docs_2", "source": "memo.txt"}, errors.InvalidField),
        ({"corpus": "main", "source": "memo.txt"}, errors.InvalidField),
        ({"corpus": "docs_1", "source": ""}, errors.InvalidField),
        ({"corpus": "docs_1", "source": "memo.tx"}, errors.NotFound),
    ):
        with pytest.raises(error):
            await servicer.DeleteDocument(pb.DeleteDocumentRequest(**fields), CALL)  # type: ignore[arg-type]
    request = pb.DeleteDocumentRequest(corpus="docs_1", source="memo.txt")
    assert (await servicer.DeleteDocument(request, CALL)).snapshot
    assert await find(engine, corpus="docs_1") == []
    with pytest.raises(errors.NotFound, match="memo"):
        await servicer.DeleteDocument(request, CALL)
