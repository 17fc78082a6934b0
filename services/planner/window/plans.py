"""Strategies to cut a view, the least lossy first; pure functions of the view and the episode."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.compaction import ViewMessage, WindowSettings
from fathom.services.planner.model.episode import Episode
from fathom.services.planner.window.attempts import find_superseded
from fathom.services.planner.window.blocks import Block, Layout, cut_long, is_plan, reduce_to_lines
from fathom.services.planner.window.notes import (
    RemovedStep,
    append_numbers,
    collect_removed,
    extract,
    format_facts,
    to_messages,
)

# Enough of an old answer to understand what a follow-up refers to.
HISTORY_CHARS = 300
# Characters per removed result, tried from the least lossy on; 0 leaves the list of numbers.
EXTRACTS = (1_200, 300, 0)
# Characters per shown result when nothing else brings a request below the limit.
LAST_RESORT = (6_000, 3_000, 1_500, 600, 200)


@dataclass(frozen=True)
class Cut:
    """A candidate view, and the removed steps that its notes stand for."""

    layout: Layout
    gone: tuple[RemovedStep, ...] = ()
    left_out: int = 0
    """Count of numbers of removed steps that the notes lack."""
    lossy: bool = False
    """True when it loses more than it should; only for requests that are too long otherwise."""


class CutPlanner:
    """Candidate cuts of one request."""

    def __init__(self, layout: Layout, episode: Episode, new: Sequence[Message], settings: WindowSettings) -> None:
        self._layout, self._episode, self._new, self._settings = layout, episode, new, settings
        self._messages = (*episode.messages, *new)
        over = find_superseded(layout.blocks, self._messages)
        self._blocks = tuple(block for block in layout.blocks if block.step not in over)
        # Steps that no view shows any more, as earlier notes and this cut have it; failed attempts are no loss.
        shown = {block.step for block in layout.blocks}
        self._before = [
            step.index for step in episode.steps if step.index not in shown and self._has_result(step.index)
        ]

    @property
    def _left_out_of_notes(self) -> int:
        """Return how many numbers the existing notes lack, as the compaction that wrote them recorded it."""
        if not self._layout.notes:
            return 0
        recorded = [step.compaction.numbers_left_out for step in self._episode.steps if step.compaction is not None]
        return recorded[-1] if recorded else 0

    def _has_result(self, index: int) -> bool:
        """Return whether a step had a successful result; failed attempts leave no notes."""
        return any(result.status in ("ok", "empty") for result in self._episode.steps[index].results)

    def plan_deletions(self) -> Iterator[Cut]:
        """Yield cuts without summaries: first redundant steps and old results, then old steps, then newer results."""
        keep = self._settings.keep_results
        blocks = reduce_to_lines(self._blocks, keep)
        yield self._make_deletion(blocks, self._layout.opening)
        opening = self._shorten_history()
        yield self._make_deletion(blocks, opening)
        for count in choose_counts(len(self._find_droppable(keep))):
            yield self._make_deletion(self._remove_oldest(blocks, count), opening)
        for fewer in range(keep - 1, 0, -1):
            blocks = self._remove_oldest(reduce_to_lines(self._blocks, fewer), len(self._blocks))
            # Fewer of the newest results than the settings promise: only for requests that are too long otherwise.
            yield replace(self._make_deletion(blocks, opening), lossy=True)
        opening = self._remove_history()
        for chars in LAST_RESORT:
            yield replace(self._make_deletion(cut_long(blocks, self._messages, chars), opening), lossy=True)

    def _make_deletion(self, blocks: tuple[Block, ...], opening: tuple[ViewMessage, ...]) -> Cut:
        """Return a cut with the given blocks; existing notes are kept unless further steps are removed."""
        # Nothing new is removed: the notes of an earlier compaction still stand for what went before.
        if len(blocks) == len(self._blocks):
            return Cut(Layout(opening, self._layout.notes, blocks), left_out=self._left_out_of_notes)
        return Cut(
            Layout(
                opening,
                to_messages(
                    format_facts(self._episode, self._collect_removed(blocks), {block.step for block in blocks})
                ),
                blocks,
            )
        )

    def _collect_removed(self, blocks: Sequence[Block]) -> list[RemovedStep]:
        """Return the content that notes must stand for when only these blocks stay."""
        stay = {block.step for block in blocks}
        dropped = [block.step for block in self._blocks if block.step not in stay]
        return collect_removed(self._episode, self._new, [*self._before, *dropped])

    def _find_droppable(self, keep: int) -> list[int]:
        """Return removable steps, oldest first: none of the newest steps or results, and not the current plan."""
        newest = {block.step for block in self._blocks[-self._settings.keep_steps :]}
        # Steps and results are promised separately: a step may have no result, and another several.
        newest |= {block.step for block in self._blocks[find_position(self._blocks, keep) :]}
        plans = [block.step for block in self._blocks if any(map(is_plan, block.given))]
        return [block.step for block in self._blocks if block.step not in {*newest, *plans[-1:]}]

    def _remove_oldest(self, blocks: Sequence[Block], count: int) -> tuple[Block, ...]:
        oldest = set(self._find_droppable(self._settings.keep_results)[:count])
        return tuple(block for block in blocks if block.step not in oldest)

    def plan_summaries(self) -> Iterator[Cut]:
        """Yield cuts with notes in place of older steps, keeping as many steps and as much text as possible."""
        # Notes hold every number of the removed steps. Only when even that is too long are the numbers of table
        # previews left out, because Python holds the whole tables.
        # The earlier position removes fewer steps; it is tried first.
        cuts = sorted({find_position(self._blocks, self._settings.keep_results), self._oldest_kept})
        for tables in (True, False):
            for chars in EXTRACTS if tables else EXTRACTS[-1:]:
                for position in cuts:
                    yield replace(self._make_summary(position, chars, tables=tables), lossy=not tables)
        least = self._make_summary(self._oldest_kept, 0, tables=False)
        for chars in LAST_RESORT:
            blocks = cut_long(least.layout.blocks, self._messages, chars)
            shorter = replace(least.layout, opening=self._remove_history(), blocks=blocks)
            yield replace(least, layout=shorter, lossy=True)

    @property
    def _oldest_kept(self) -> int:
        """Return the position of the oldest block that is never removed."""
        return max(0, len(self._blocks) - self._settings.keep_steps)

    def _make_summary(self, position: int, chars: int, *, tables: bool) -> Cut:
        position = min(position, self._oldest_kept)
        blocks = self._blocks[position:]
        gone = self._collect_removed(blocks)
        if not gone:
            layout = Layout(self._shorten_history(), self._layout.notes, blocks)
            return Cut(layout, left_out=self._left_out_of_notes)
        stay = [block.step for block in blocks]
        text, left = self._write_notes(gone, stay, extract(gone, chars) if chars else "", tables=tables)
        return Cut(Layout(self._shorten_history(), to_messages(text), blocks), tuple(gone), left)

    def rewrite(self, cut: Cut, findings: str) -> Cut:
        """Return a summary with other findings, again with every number of the removed steps."""
        stay = [block.step for block in cut.layout.blocks]
        text, left = self._write_notes(cut.gone, stay, findings, tables=not cut.lossy)
        return replace(cut, layout=replace(cut.layout, notes=to_messages(text)), left_out=left)

    def _write_notes(
        self, gone: Sequence[RemovedStep], stay: Collection[int], findings: str, *, tables: bool
    ) -> tuple[str, int]:
        """Return facts, findings and the numbers that both lack, and how many numbers were left out."""
        text = format_facts(self._episode, gone, stay)
        if findings:
            text = f"{text}\n\n## Findings\n{findings}"
        return append_numbers(text, gone, tables=tables)

    def _shorten_history(self) -> tuple[ViewMessage, ...]:
        """Return the opening with shortened answers in the history, except the last one."""
        opening = self._layout.opening
        answers = [
            position for position, item in enumerate(opening) if item.text(self._messages).role is Role.ASSISTANT
        ]
        short = set(answers[:-1])
        return tuple(self._shorten(item) if position in short else item for position, item in enumerate(opening))

    def _shorten(self, item: ViewMessage) -> ViewMessage:
        message = item.text(self._messages)
        if len(message.content) <= HISTORY_CHARS:
            return item
        return ViewMessage(item.source, replace(message, content=shorten(message.content, HISTORY_CHARS)))

    def _remove_history(self) -> tuple[ViewMessage, ...]:
        """Return only the system message and the question."""
        opening = self._layout.opening
        return tuple(
            item
            for position, item in enumerate(opening)
            if position == len(opening) - 1 or item.text(self._messages).role is Role.SYSTEM
        )


def find_position(blocks: Sequence[Block], results: int) -> int:
    """Return the position of the first block with one of the newest ``results`` results."""
    left = results
    for position in range(len(blocks) - 1, -1, -1):
        left -= len(blocks[position].results)
        if left <= 0:
            return position
    return 0


def choose_counts(count: int) -> list[int]:
    """Return how many of ``count`` old steps to remove: a half, three quarters, all."""
    return sorted({(count + 1) // 2, (3 * count + 3) // 4, count} - {0})
