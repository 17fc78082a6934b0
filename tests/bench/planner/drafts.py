"""Preview of a streamed answer: processor time of the readers alone, per length, piece and way of writing line breaks."""

from __future__ import annotations

import time

from fathom.domain.chat.drafts import ArgumentDraft
from fathom.domain.chat.hermes import format_tool_call

LINE = "Revenue rose 12.5% to 94.9 billion dollars [1].\n"
LENGTHS = (20_000, 80_000, 320_000)
PIECES = (1, 4)


async def run() -> None:
    print("characters  pieces of  line breaks  ms in all  µs/piece")
    for length in LENGTHS:
        for piece in PIECES:
            for breaks in ("escaped", "raw"):
                text = format_tool_call("finish", {"intent": "to end", "answer": LINE * (length // len(LINE))})
                seconds = read(text if breaks == "escaped" else text.replace("\\n", "\n"), piece)
                each = 1e6 * seconds / (len(text) / piece)
                print(f"{length:10,}  {piece:9}  {breaks:11}  {1e3 * seconds:9.1f}  {each:8.2f}")


def read(text: str, piece: int) -> float:
    """Return the processor seconds that a draft of the text takes."""
    reader = ArgumentDraft("finish", "answer")
    start = time.process_time()
    for place in range(0, len(text), piece):
        reader.feed(text[place : place + piece])
    return time.process_time() - start
