"""Strategies to cut a view, the least lossy first; pure functions of the view and the episode."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from fathom.protocol.messages import Message, Role
from services.planner.model import Episode
from services.planner.tools.tool import shortened
from services.planner.window.attempts import superseded
from services.planner.window.blocks import Block, Layout, cut_long, is_plan, lined
from services.planner.window.notes import Told, as_messages, extract, facts, told, with_numbers
from services.planner.window.record import Shown, WindowSettings

HISTORY_CHARS = 300
EXTRACTS = (1_200, 300, 0)
LAST_RESORT = (6_000, 3_000, 1_500, 600, 200)


@dataclass(frozen=True)
class Cut:
    """A candidate view, and the removed steps that its notes stand for."""

    layout: Layout
    gone: tuple[Told, ...] = ()
    left_out: int = 0
    """Count of numbers of removed steps that the notes lack."""
    lossy: bool = False
    """True when it loses more than it should; only for requests that are too long otherwise."""


class Plans:
    """Candidate cuts of one request."""

    def __init__(self, layout: Layout, episode: Episode, new: Sequence[Message], settings: WindowSettings) -> None:
        self._layout, self._episode, self._new, self._settings = layout, episode, new, settings
        self._messages = (*episode.messages, *new)
        over = superseded(layout.blocks, self._messages)
        self._blocks = tuple(block for block in layout.blocks if block.step not in over)
        # Steps that no view shows any more, as earlier notes and this cut have it; failed attempts are no loss.
        shown = {block.step for block in layout.blocks}
        self._before = [step.index for step in episode.steps if step.index not in shown and self._worth(step.index)]

    def _worth(self, index: int) -> bool:
        """Return whether a step had a successful result; failed attempts leave no notes."""
        return any(result.status in ("ok", "empty") for result in self._episode.steps[index].results)

    def deletions(self) -> Iterator[Cut]:
        """Yield cuts without summaries: first redundant steps and old results, then old steps, then newer results."""
        keep = self._settings.keep_results
        blocks = lined(self._blocks, keep)
        yield self._deleted(blocks, self._layout.opening)
        opening = self._shorter_history()
        yield self._deleted(blocks, opening)
        for count in thinned(len(self._droppable(keep))):
            yield self._deleted(self._without_oldest(blocks, count), opening)
        for fewer in range(keep - 1, 0, -1):
            blocks = self._without_oldest(lined(self._blocks, fewer), len(self._blocks))
            yield replace(self._deleted(blocks, opening), lossy=True)
        opening = self._no_history()
        for chars in LAST_RESORT:
            yield replace(self._deleted(cut_long(blocks, self._messages, chars), opening), lossy=True)

    def _deleted(self, blocks: tuple[Block, ...], opening: tuple[Shown, ...]) -> Cut:
        """Return a cut with the given blocks; existing notes are kept unless further steps are removed."""
        if len(blocks) == len(self._blocks):
            return Cut(Layout(opening, self._layout.notes, blocks))
        return Cut(
            Layout(
                opening, as_messages(facts(self._episode, self._gone(blocks), {block.step for block in blocks})), blocks
            )
        )

    def _gone(self, blocks: Sequence[Block]) -> list[Told]:
        """Return the content that notes must stand for when only these blocks stay."""
        stay = {block.step for block in blocks}
        dropped = [block.step for block in self._blocks if block.step not in stay]
        return told(self._episode, self._new, [*self._before, *dropped])

    def _droppable(self, keep: int) -> list[int]:
        """Return removable steps, oldest first: none of the newest steps or results, and not the current plan."""
        newest = {block.step for block in self._blocks[-self._settings.keep_steps :]}
        newest |= {block.step for block in self._blocks[position_of(self._blocks, keep) :]}
        plans = [block.step for block in self._blocks if any(map(is_plan, block.given))]
        return [block.step for block in self._blocks if block.step not in {*newest, *plans[-1:]}]

    def _without_oldest(self, blocks: Sequence[Block], count: int) -> tuple[Block, ...]:
        oldest = set(self._droppable(self._settings.keep_results)[:count])
        return tuple(block for block in blocks if block.step not in oldest)

    def summaries(self) -> Iterator[Cut]:
        """Yield cuts with notes in place of older steps, keeping as many steps and as much text as possible."""
        # Notes hold every number of the removed steps. Only when even that is too long are the numbers of table
        # previews left out, because Python holds the whole tables.
        cuts = sorted({position_of(self._blocks, self._settings.keep_results), self._oldest_kept})
        for tables in (True, False):
            for chars in EXTRACTS if tables else EXTRACTS[-1:]:
                for position in cuts:
                    yield replace(self._summarised(position, chars, tables=tables), lossy=not tables)
        least = self._summarised(self._oldest_kept, 0, tables=False)
        for chars in LAST_RESORT:
            blocks = cut_long(least.layout.blocks, self._messages, chars)
            shorter = replace(least.layout, opening=self._no_history(), blocks=blocks)
            yield replace(least, layout=shorter, lossy=True)

    @property
    def _oldest_kept(self) -> int:
        """Return the position of the oldest block that is never removed."""
        return max(0, len(self._blocks) - self._settings.keep_steps)

    def _summarised(self, position: int, chars: int, *, tables: bool) -> Cut:
        position = min(position, self._oldest_kept)
        blocks = self._blocks[position:]
        gone = self._gone(blocks)
        if not gone:
            return Cut(Layout(self._shorter_history(), self._layout.notes, blocks))
        stay = [block.step for block in blocks]
        text, left = self._notes(gone, stay, extract(gone, chars) if chars else "", tables=tables)
        return Cut(Layout(self._shorter_history(), as_messages(text), blocks), tuple(gone), left)

    def rewritten(self, cut: Cut, findings: str) -> Cut:
        """Return a summary with other findings, again with every number of the removed steps."""
        stay = [block.step for block in cut.layout.blocks]
        text, left = self._notes(cut.gone, stay, findings, tables=not cut.lossy)
        return replace(cut, layout=replace(cut.layout, notes=as_messages(text)), left_out=left)

    def _notes(self, gone: Sequence[Told], stay: Collection[int], findings: str, *, tables: bool) -> tuple[str, int]:
        """Return facts, findings and the numbers that both lack, and how many numbers were left out."""
        text = facts(self._episode, gone, stay)
        if findings:
            text = f"{text}\n\n## Findings\n{findings}"
        return with_numbers(text, gone, tables=tables)

    def _shorter_history(self) -> tuple[Shown, ...]:
        """Return the opening with shortened answers in the history, except the last one."""
        opening = self._layout.opening
        answers = [
            position for position, item in enumerate(opening) if item.text(self._messages).role is Role.ASSISTANT
        ]
        short = set(answers[:-1])
        return tuple(self._shortened(item) if position in short else item for position, item in enumerate(opening))

    def _shortened(self, item: Shown) -> Shown:
        message = item.text(self._messages)
        if len(message.content) <= HISTORY_CHARS:
            return item
        return Shown(item.source, replace(message, content=shortened(message.content, HISTORY_CHARS)))

    def _no_history(self) -> tuple[Shown, ...]:
        """Return only the system message and the question."""
        opening = self._layout.opening
        return tuple(
            item
            for position, item in enumerate(opening)
            if position == len(opening) - 1 or item.text(self._messages).role is Role.SYSTEM
        )


def position_of(blocks: Sequence[Block], results: int) -> int:
    """Return the position of the first block with one of the newest ``results`` results."""
    left = results
    for position in range(len(blocks) - 1, -1, -1):
        left -= len(blocks[position].results)
        if left <= 0:
            return position
    return 0


def thinned(count: int) -> list[int]:
    """Return how many of ``count`` old steps to remove: a half, three quarters, all."""
    return sorted({(count + 1) // 2, (3 * count + 3) // 4, count} - {0})
