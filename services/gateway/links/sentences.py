"""Withholding of what an answer says from files that a link does not give out, sentence by sentence.

What stands where is decided by the citations alone. Of a block (a paragraph, a list item, a table) that cites such a
file, only those sentences or rows stay that cite other things and nothing of it: one without a citation may go on with
what the one before it has quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from fathom.services.gateway.openai.answers import CITATION, REFERENCE, find_citations, list_numbers

# The citations that follow an end belong to the sentence before it. A cut too many withholds more and gives out
# nothing, since what it leaves without a citation goes as well.
END = re.compile(rf"(?:[.!?][\"'”’)*_]*(?=\s)|[。！？；])(?:\s*{CITATION.pattern})*\s*")
# Signs before the text of a line: those of quotations and the indentation of what stands in a list.
INDENT = re.compile(r"[\s>]*")


@dataclass
class Block:
    """Lines ``start`` to ``end`` of an answer that are read together, in parts: sentences, or rows of a table."""

    start: int
    end: int
    kind: str
    """``heading``, ``paragraph``, ``item`` (text of a list), ``quote``, ``code`` or ``table``."""
    parts: tuple[str, ...]
    cited: tuple[frozenset[int], ...] = ()
    """Citations of each part."""
    stays: tuple[bool, ...] = ()
    """Verdict on each part: true where it is given out."""

    @property
    def is_whole(self) -> bool:
        """Return whether all of it is given out."""
        return all(self.stays)

    @property
    def is_uncited(self) -> bool:
        """Return whether it says something and cites nothing."""
        return not any(self.cited) and bool(REFERENCE.sub("", "".join(self.parts)).strip())


def withhold_text(markdown: str, numbers: frozenset[int], note: str) -> str:
    """Return an answer without what it says by citing one of these numbers; ``note`` stands in its place.

    Citations and the places of tables and figures stay, which show no more than titles.
    """
    blocks = list(list_blocks(markdown))
    for block in blocks:
        block.stays = choose_parts(block, numbers)
    withhold_neighbours(blocks)
    lines = markdown.split("\n")
    for block in reversed(blocks):
        if not block.is_whole:
            lines[block.start : block.end] = rewrite(block, lines[block.start : block.end], note)
    return "\n".join(lines)


def choose_parts(block: Block, numbers: frozenset[int]) -> tuple[bool, ...]:
    """Return which parts of a block are given out by what they cite themselves."""
    if not any(cited & numbers for cited in block.cited):
        return (True,) * len(block.parts)
    stays = [bool(cited) and not cited & numbers for cited in block.cited]
    if block.kind == "table":
        # A head that cites a file has columns of it; another one says what the rows that stay are about.
        has_own_head = not block.cited[0] & numbers
        stays = [any(stays[1:]) and has_own_head, *(stay and has_own_head for stay in stays[1:])]
    return tuple(stays)


def withhold_neighbours(blocks: Sequence[Block]) -> None:
    """Withhold blocks without a citation that stand beside one that is withheld, and belong to it by their form."""

    def follows(before: Block, block: Block) -> bool:
        if block.kind in ("item", "quote", "code", "table"):
            return True
        # "The memo says [2]:" and what it says.
        return block.kind == "paragraph" and before.parts[-1].rstrip().endswith((":", "："))

    def precedes(behind: Block, block: Block) -> bool:
        # "Source: [2]" stands below what it is the source of.
        return behind.kind == "paragraph" and block.kind in ("quote", "code", "table")

    spread(blocks, follows)
    spread(blocks[::-1], precedes)


def spread(blocks: Sequence[Block], belongs: Callable[[Block, Block], bool]) -> None:
    """Withhold what cites nothing behind what is withheld, where it belongs to it."""
    for before, block in pairwise(blocks):
        if not before.is_whole and block.is_uncited and belongs(before, block):
            block.stays = (False,) * len(block.parts)


def list_blocks(markdown: str) -> Iterator[Block]:
    """Yield the blocks of an answer in their order."""
    tokens = MarkdownIt("commonmark", {"html": False}).enable("table").parse(markdown)
    containers, table_end = list[str](), 0
    for place, token in enumerate(tokens):
        if token.nesting == 1:
            containers.append(token.type.removesuffix("_open"))
        elif token.nesting == -1:
            containers.pop()
        if token.map is None or token.map[0] < table_end:
            continue
        if token.type == "table_open":
            table_end = token.map[1]
            yield make_block(token.map, "table", list_rows(tokens[place:], table_end))
        elif token.type == "inline":
            yield make_block(token.map, name_kind(containers), split_sentences(token.content))
        elif token.type == "fence":
            yield Block(token.map[0], token.map[1], "code", (token.content,), (frozenset(),))
        elif token.type == "code_block":
            # Text that happens to be indented: what readers of citations take for text, too.
            yield make_block(token.map, "code", (token.content,))


def name_kind(containers: Sequence[str]) -> str:
    """Return the kind of a text within these containers, the outermost first."""
    if containers[-1] == "heading":
        return "heading"
    return "quote" if "blockquote" in containers else "item" if "list_item" in containers else "paragraph"


def make_block(lines: Sequence[int], kind: str, parts: Sequence[str]) -> Block:
    """Return a block of the text's lines with what its parts cite."""
    return Block(lines[0], lines[1], kind, tuple(parts), tuple(frozenset(find_cited(part)) for part in parts))


def list_rows(tokens: Sequence[Token], end: int) -> list[str]:
    """Return the rows of a table that ends before line ``end``, the head among them, as text."""
    rows: dict[int, str] = {}
    for token in tokens:
        if token.map is not None and token.map[0] >= end:
            break
        if token.type == "inline" and token.map is not None:
            rows[token.map[0]] = f"{rows.get(token.map[0], '')} {token.content}"
    return list(rows.values())


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with the citations behind its end and the space after them."""
    edges = [0, *(match.end() for match in END.finditer(text)), len(text)]
    return [text[left:right] for left, right in pairwise(edges) if left < right]


def find_cited(text: str) -> Iterator[int]:
    """Yield the numbers that a text cites."""
    for match in find_citations(text):
        yield from list_numbers(match)


def rewrite(block: Block, lines: Sequence[str], note: str) -> list[str]:
    """Return the lines of a block with the note in place of each run of parts that are withheld."""
    indent = INDENT.match(lines[0])
    prefix = indent[0] if indent else ""
    if block.kind == "table" and block.stays[0]:
        return rewrite_rows(block, lines, prefix, note)
    if block.kind in ("table", "code"):
        # The content of code is in no fence any more, in which a number in brackets is an index.
        hidden = "" if block.is_uncited else "".join(block.parts)
        return [prefix + replace_text(hidden, note), ""]
    first = block.parts[0].partition("\n")[0].rstrip()
    at = lines[0].find(first)
    prefix = lines[0][:at] if at >= 0 else prefix
    said, hidden = list[str](), ""
    for part, stays in zip(block.parts, block.stays, strict=True):
        if not stays:
            hidden += part
            continue
        said += [*([replace_text(hidden, note)] if hidden else []), part.strip()]
        hidden = ""
    text = " ".join([*said, *([replace_text(hidden, note)] if hidden else [])])
    return [prefix + " ".join(text.split("\n"))]


def rewrite_rows(block: Block, lines: Sequence[str], prefix: str, note: str) -> list[str]:
    """Return the lines of a table with the note in place of rows that are withheld."""
    # The line below the head is no part.
    found = list(lines[:2])
    for part, stays, line in zip(block.parts[1:], block.stays[1:], lines[2:], strict=True):
        found.append(line if stays else f"{prefix}| {replace_text(part, note)} |")
    return found


def replace_text(hidden: str, note: str) -> str:
    """Return what stands in place of a text: the note, and its citations and places of tables and figures."""
    places = [match[0] for match in REFERENCE.finditer(hidden)]
    numbers = [f"[{number}]" for number in dict.fromkeys(find_cited(hidden))]
    return " ".join([f"*{note}*", *numbers, *places])
