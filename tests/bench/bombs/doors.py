"""Doors of the services that decode bytes from outside: each with its declared bound of memory, called as services do."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fathom.domain.decoding import Decoder
from tests.bench.bombs.files import GIB, MIB

Open = Callable[[bytes, str], Awaitable[object]]


@dataclass(frozen=True)
class Door:
    """A door: the bytes of memory that it declares, what makes its function ready, and a harmless file for it."""

    bound_bytes: int
    prepare: Callable[[], Open]
    harmless: tuple[bytes, str]


def open_put_frame() -> Open:
    from fathom.services.sandbox.config import Config
    from fathom.services.sandbox.front.tables import make_decoder, read_table

    config = Config()
    decoder = make_decoder(config)

    async def put(data: bytes, kind: str) -> None:
        (await read_table(decoder, "t", data, kind, "", config)).memory.close()

    return put


def open_import_table() -> Open:
    from fathom.services.datafetch.server import IMPORT_LIMITS
    from fathom.services.datafetch.sources.sheet import import_table

    decoder = Decoder(IMPORT_LIMITS)

    async def put(data: bytes, kind: str) -> str:
        sheet, issues = await decoder.run("data", import_table, data, kind, "t", "")
        return f"{len(sheet.columns)} columns, {len(issues)} issues"

    return put


def open_ingest() -> Open:
    from fathom.services.retrieval.corpus.ingest import Chunk, IngestBuffer
    from fathom.services.retrieval.corpus.parse.ocr import OcrLimits
    from fathom.services.retrieval.corpus.rows import list_parsers, read_file
    from fathom.services.retrieval.corpus.whole_files import FileReader, add_whole_file

    reader = FileReader(OcrLimits())

    async def ingest(data: bytes, kind: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            intake = IngestBuffer(Path(folder) / "spool.jsonl", None, list_parsers(), 1 << 30)
            try:
                intake.add_chunk(Chunk(data, kind, "bomb"))
                whole = intake.end_file()
                if whole is not None:
                    await add_whole_file(reader, intake, read_file, whole)
                return f"{intake.added} added; {'; '.join(issue.message[:60] for issue in intake.issues[:1])}"
            finally:
                intake.close()

    return ingest


def open_page() -> Open:
    from fathom.services.retrieval.corpus.parse import Limits
    from fathom.services.retrieval.web.config import WebConfig
    from fathom.services.retrieval.web.fetcher import PAGE_LIMITS, PAGE_TAGS, Reply, read_page

    decoder = Decoder(PAGE_LIMITS)
    limits = Limits(file_bytes=WebConfig().fetch_bytes, html_tags=PAGE_TAGS, seconds=20)

    async def read(data: bytes, kind: str) -> str:
        found = await decoder.run("page", read_page, Reply(kind, data), "https://example.com/", limits)
        return f"{len(found)} found"

    return read


def open_answer() -> Open:
    from fathom.transport.http.body import Body
    from fathom.transport.http.client import Answer, HttpPolicy

    async def read(data: bytes, encoding: str) -> None:
        body = Body(encoding, HttpPolicy.body_bytes, "vendor")
        for start in range(0, len(data), 65_536):
            body.add(data[start : start + 65_536])
        Answer("vendor", 200, {}, body.whole()).json()

    return read


def open_body() -> Open:
    from fathom.services.gateway.bodies import Ask

    async def ask(data: bytes, _: str) -> None:
        Ask.model_validate(json.loads(data))

    return ask


def open_reply() -> Open:
    from mcp_types import jsonrpc_message_adapter

    from fathom.services.planner.mcp.transport import LimitedStream, make_refusal

    class Parts:
        """The reply as a connection brings it."""

        def __init__(self, data: bytes) -> None:
            self._data = data

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(self._data), 65_536):
                yield self._data[start : start + 65_536]

    async def read(data: bytes, _: str) -> None:
        refusal = make_refusal(b'{"id": 1}')
        stream = LimitedStream(Parts(data), re.compile(rb"\n\n"), refusal)
        jsonrpc_message_adapter.validate_json(b"".join([part async for part in stream]))

    return read


def open_frame() -> Open:
    from fathom.services.sandbox.front.json_displays import check_json
    from fathom.services.sandbox.ipc.frames import FRAME_HEADER, NO_NONCE, PLOTLY, PNG, read_head, split_texts
    from fathom.services.sandbox.server import CLEANING
    from fathom.services.sandbox.supervisor.worker.reports import parse_display

    decoder = Decoder(CLEANING)

    async def read(data: bytes, kind: str) -> None:
        if kind == "figure":
            await decoder.run("display", check_json, PLOTLY, data)
        elif kind == "picture":
            parse_display([PNG], data)
        else:
            read_head(data[: FRAME_HEADER.size], NO_NONCE)
            split_texts(data[FRAME_HEADER.size :])

    return read


def open_weights() -> Open:
    from safetensors import safe_open

    from fathom.domain.weights.header import check_header

    async def read(data: bytes, _: str) -> None:
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(data)
            file.flush()
            check_header(Path(file.name))
            with safe_open(file.name, framework="numpy") as handle:
                list(handle.keys())

    return read


def open_snapshot() -> Open:
    from fathom.services.retrieval.documents.table import Table

    async def read(data: bytes, _: str) -> None:
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            file.write(data)
            file.flush()
            Table([], [], Path(file.name))

    return read


def open_arguments() -> Open:
    from fathom.domain.chat.messages import ToolCall
    from fathom.services.planner.tools.arguments import read_arguments

    async def read(data: bytes, _: str) -> None:
        read_arguments(ToolCall(id="1", name="python", arguments_json=data.decode()))

    return read


TEXT = (b"<html><body><p>Net income rose by four per cent in 2023.</p></body></html>", "text/html")
CSV = (b"date,x\n2024-01-31,1\n2024-02-29,2\n", "text/csv")


def make_frame() -> tuple[bytes, str]:
    from tests.support.bombs import make_arrow_bomb

    return make_arrow_bomb(1 << 20), ""


DOORS: Mapping[str, Door] = {
    # Four times frames_bytes, as front/tables.py declares it.
    "PutFrame": Door(4 * 256 * MIB, open_put_frame, make_frame()),
    "ImportTable": Door(2 * GIB, open_import_table, CSV),
    "Ingest": Door(GIB, open_ingest, TEXT),
    "web page": Door(768 * MIB, open_page, TEXT),
    "JSON line": Door(192 * MIB, open_ingest, (b'{"text": "a b c"}\n', "application/jsonl")),
    "HTTP answer": Door(256 * MIB, open_answer, (b"[]", "")),
    "gateway body": Door(64 * MIB, open_body, (b'{"question": "a"}', "")),
    "MCP reply": Door(96 * MIB, open_reply, (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', "")),
    # A figure first: the child that reads one starts with the first.
    "worker frame": Door(96 * MIB, open_frame, (b"{}", "figure")),
    "weights": Door(256 * MIB, open_weights, (b"\x02" + bytes(7) + b"{}", "")),
    "snapshot": Door(32 * MIB, open_snapshot, (b"", "")),
    "tool arguments": Door(32 * MIB, open_arguments, (b"{}", "")),
}


async def try_door(open_door: Open, data: bytes, kind: str) -> str:
    """Return what a door makes of a file, in some words."""
    try:
        said = str(await open_door(data, kind) or "taken")
    except Exception as error:  # whatever a door raises is its answer
        said = f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:90]
