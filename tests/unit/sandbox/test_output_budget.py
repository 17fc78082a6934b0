"""Head and tail of a cell's output within a byte budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fathom.services.sandbox.supervisor.events import Gap, Output
from fathom.services.sandbox.supervisor.output import OutputBudget


def pass_through(transcript: OutputBudget, pieces: list[tuple[str, bytes]]) -> list[Output | Gap]:
    now = [Output(stream, text) for stream, data in pieces if (text := transcript.take(stream, data))]
    return [*now, *transcript.finish()]


def text(events: list[Output | Gap], stream: str) -> str:
    return "".join(event.text for event in events if isinstance(event, Output) and event.stream == stream)


def test_head_gap_and_tail() -> None:
    # Eight bytes: three quarters from the beginning, the rest from the end, where errors stand.
    transcript = OutputBudget(8)
    assert pass_through(transcript, [("stdout", b"0123456789")]) == [
        Output("stdout", "012345"),
        Gap("stdout", 2),
        Output("stdout", "89"),
    ]
    assert (transcript.seen_bytes, transcript.dropped_bytes) == (10, 2)


def test_what_fits_is_whole_and_has_no_gap() -> None:
    events = pass_through(OutputBudget(8), [("stdout", b"0123"), ("stderr", b"45"), ("stdout", b"67")])
    assert (text(events, "stdout"), text(events, "stderr")) == ("012367", "45")
    assert not [event for event in events if isinstance(event, Gap)]


def test_both_streams_share_the_budget() -> None:
    transcript = OutputBudget(100)
    # A flood on one stream must not cost the other its few lines.
    events = pass_through(transcript, [("stdout", b"o" * 1_000), ("stderr", b"e" * 10)])
    assert text(events, "stderr") == "e" * 10
    assert len(text(events, "stdout")) == 90
    assert transcript.dropped_bytes == 910


def test_characters_are_not_split_between_pieces() -> None:
    # Three bytes per character, sent one by one.
    data = "价格上涨".encode()
    events = pass_through(OutputBudget(1_000), [("stdout", data[i : i + 1]) for i in range(len(data))])
    assert text(events, "stdout") == "价格上涨"


def test_a_gap_within_a_character_leaves_no_broken_half() -> None:
    transcript = OutputBudget(40)
    # A limit that is no multiple of three cuts within characters on both sides.
    events = pass_through(transcript, [("stdout", "价".encode() * 100)])
    assert set(text(events, "stdout")) == {"价"}


def test_bytes_that_are_no_text_are_replaced() -> None:
    # A byte that begins no character, a null byte, which is one, and half a character at the end.
    assert text(pass_through(OutputBudget(100), [("stdout", b"a\xff\x00b")]), "stdout") == "a\ufffd\x00b"
    assert text(pass_through(OutputBudget(100), [("stdout", b"a\xe4\xbb")]), "stdout") == "a\ufffd"


@given(
    st.integers(4, 200),
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=60)), max_size=20),
)
def test_nothing_is_lost_without_being_counted(limit: int, pieces: list[tuple[str, bytes]]) -> None:
    transcript = OutputBudget(limit)
    events = pass_through(transcript, pieces)
    total = sum(len(data) for _, data in pieces)
    assert transcript.seen_bytes == total
    assert (transcript.dropped_bytes > 0) == (total > limit)
    # More than the overhang may be dropped, for characters are not split.
    assert transcript.dropped_bytes >= total - limit
    if total <= limit:
        for stream in ("stdout", "stderr"):
            whole = b"".join(data for owner, data in pieces if owner == stream)
            assert text(events, stream) == whole.decode("utf-8", "replace")


@given(st.integers(4, 60), st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("ab", max_size=40))))
def test_kept_text_is_never_over_the_budget(limit: int, pieces: list[tuple[str, str]]) -> None:
    transcript = OutputBudget(limit)
    events = pass_through(transcript, [(stream, piece.encode()) for stream, piece in pieces])
    kept = len(text(events, "stdout")) + len(text(events, "stderr"))
    assert kept <= limit
    # Nothing is in both counts, nothing in neither.
    assert kept + transcript.dropped_bytes == transcript.seen_bytes
