"""The Python tool: a cell of another style runs and is corrected, and the rate of styles is kept (row R19)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry, Counter

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from services.planner.tools.python import Python

GOOD = "def total(values):\n    result = sum(values)\n    return result\n\nprint(total([1, 2]))"
LONG = "a = 1\nb = 2\nfor i in range(3):\n    a += i\nprint(a)"


async def test_style_is_corrected_and_counted() -> None:
    ran: list[str] = []

    async def execute(call_id: str, code: str) -> list[pb.ExecuteResponse]:
        ran.append(code)
        return [
            pb.ExecuteResponse(sequence=1, output=pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDOUT, text="3\n")),
            pb.ExecuteResponse(sequence=1, keep_alive=pb.KeepAlive(elapsed_ms=5_000)),
            pb.ExecuteResponse(sequence=2, outcome=pb.Outcome(status=pb.EXECUTE_STATUS_OK, duration_ms=7)),
        ]

    styles = Counter("styles", "Cells by style", ("style",), registry=CollectorRegistry())
    session = SimpleNamespace(execute=execute)
    tool = Python(cast(Any, session), cast(Any, None), styles, "run")
    heads = []
    for number, code in enumerate((GOOD, LONG, GOOD)):
        reply = (await tool(f"call_{number}", {"code": code}))(1)
        assert "3" in reply.body, "silence in between does not hide what was printed"
        heads.append(json.loads(json.dumps(reply.head)))
    assert ran == [GOOD, LONG, GOOD]
    assert ["style" in head for head in heads] == [False, True, False]
    assert "function" in heads[1]["style"]
    counts = {
        sample.labels["style"]: sample.value
        for sample in next(iter(styles.collect())).samples
        if sample.name == "styles_total"
    }
    assert counts == {"functional": 2.0, "other": 1.0}
