"""A report's answer as a tree of a few kinds of blocks, from which pages and slides are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from fathom.services.gateway.reports.report import CITED, Place, Report, Table, parse
from fathom.services.gateway.reports.word import NUMBER, clean

# A page and a slide hold about eight columns of prices; wider tables continue below, under their first column again.
COLUMNS_ABREAST = 8
# Typst stops at 80 calls within each other, of which a level of a list or a quote takes up to four.
MAX_DEPTH = 8
# Readers follow no longer addresses, and PDF has its own limit.
MAX_URL_CHARS = 2_000


def fit_url(url: str) -> str:
    """Return an address of the web that a page can link to, "" for any other."""
    return clean(url) if url.startswith(("http://", "https://")) and len(url) <= MAX_URL_CHARS else ""


class TreeWriter:
    """Writes the tokens of an answer as a tree of the few kinds that the template shows."""

    def __init__(self, report: Report, pictures: Mapping[str, str]) -> None:
        self._report, self._pictures = report, pictures

    def write(self) -> list[dict[str, Any]]:
        """Return the blocks of the body."""
        tokens = parse(self._report)
        for token in tokens:
            # The library builds its tree by calls within calls, and marks of text nest as deep as a model likes.
            if token.type == "inline":
                token.meta, token.children = {"children": token.children or []}, []
        return self._blocks(SyntaxTreeNode(tokens).children, 0)

    def _blocks(self, nodes: Sequence[SyntaxTreeNode], depth: int) -> list[dict[str, Any]]:
        return [block for node in nodes for block in self._block(node, depth)]

    def _block(self, node: SyntaxTreeNode, depth: int) -> list[dict[str, Any]]:
        match node.type:
            case "heading":
                # The title is the first level.
                level = min(int(node.tag[1:]) + 1, 4)
                return [{"kind": "heading", "level": level, "children": self._text_of(node)}]
            case "bullet_list" | "ordered_list" if depth < MAX_DEPTH:
                start = int(node.attrs.get("start", 1))
                items = [self._blocks(item.children, depth + 1) for item in node.children]
                return [{"kind": "list", "ordered": node.type == "ordered_list", "start": start, "items": items}]
            case "blockquote" if depth < MAX_DEPTH:
                return [{"kind": "quote", "children": self._blocks(node.children, depth + 1)}]
            case "fence" | "code_block":
                return [{"kind": "code", "text": clean(node.content.rstrip("\n"))}]
            case "hr":
                return [{"kind": "rule"}]
            case "table":
                return [self._describe_typed(node)]
            case "place":
                return [self._place(node.meta["place"])]
            case "paragraph":
                # Nothing is left of one that only placed a table.
                children = self._text_of(node)
                return [{"kind": "paragraph", "children": children}] if children else []
            case _:
                # Deeper lists and quotes go on at the depth that they have reached.
                return self._blocks(node.children, depth)

    def _text_of(self, node: SyntaxTreeNode) -> list[dict[str, Any]]:
        return [piece for child in node.children for piece in nest(child.meta["children"])]

    def _describe_typed(self, node: SyntaxTreeNode) -> dict[str, Any]:
        rows = [[self._text_of(cell) for cell in row.children] for part in node.children for row in part.children]
        width = len(rows[0])
        columns = [[plain_text(row[at]) for row in rows[1:]] for at in range(width)]
        # By what stands there, since a model's table says of no column what it is.
        numeric = [bool(column) and all(NUMBER.fullmatch(cell) or not cell for cell in column) for column in columns]
        size = choose_size(width)
        return {"kind": "typed", "head": rows[0], "rows": rows[1:], "numeric": numeric, "size": size}

    def _place(self, place: Place) -> dict[str, Any]:
        table, figure = self._report.tables.get(place.name), self._report.figures.get(place.name)
        if place.kind == "table" and table:
            return describe_sheet(table)
        if place.kind == "figure" and figure and place.name in self._pictures:
            return {"kind": "figure", "file": self._pictures[place.name], "title": clean(figure.title)}
        named = Place(place.kind, figure.title or place.name) if figure else place
        return {"kind": "absent", "text": clean(self._report.tell_gone(named))}


def nest(tokens: Sequence[Token]) -> list[dict[str, Any]]:
    """Return the pieces of a paragraph, within each other up to ``MAX_DEPTH``."""
    # The lists of pieces around the place that has been reached; a mark that is too deep adds the one around it again.
    open_lists: list[list[dict[str, Any]]] = [[]]
    for token in tokens:
        here = open_lists[-1]
        if token.nesting < 0:
            open_lists.pop()
        elif token.nesting > 0:
            kind = token.type.removesuffix("_open")
            url = fit_url(str(token.attrs.get("href", ""))) if kind == "link" else ""
            if len(open_lists) > MAX_DEPTH or (kind == "link" and not url):
                open_lists.append(here)
            else:
                here.append({"kind": kind, "url": url, "children": []})
                open_lists.append(here[-1]["children"])
        else:
            here += describe_text(token)
    return open_lists[0]


def describe_text(token: Token) -> list[dict[str, Any]]:
    """Return the pieces of a token that nests nothing."""
    match token.type:
        case "code_inline":
            return [{"kind": "code", "text": clean(token.content)}]
        case "hardbreak":
            return [{"kind": "break"}]
        case "softbreak":
            return [{"kind": "text", "text": " "}]
        case _:
            # Pictures of other hosts are not loaded: their words stand for them.
            return split_citations(clean(token.content))


def split_citations(text: str) -> list[dict[str, Any]]:
    """Return a text as pieces, its citations as marks that link to the references."""
    pieces: list[dict[str, Any]] = []
    # Every second part of a split by a group is what the group has found.
    for place, part in enumerate(CITED.split(text)):
        if place % 2:
            # A raised number stands close to what it proves, however it was written.
            if pieces and pieces[-1]["kind"] == "text":
                before = pieces.pop()["text"].rstrip(" ")
                pieces += [{"kind": "text", "text": before}] * bool(before)
            pieces.append({"kind": "cite", "numbers": part.split(",")})
        elif part:
            pieces.append({"kind": "text", "text": part})
    return pieces


def plain_text(pieces: Sequence[Mapping[str, Any]]) -> str:
    """Return the words of pieces, without marks."""
    return "".join(piece.get("text", "") or plain_text(piece.get("children", ())) for piece in pieces)


def choose_size(width: int) -> float:
    """Return the size of letters, in points, in which a table of so many columns fits a page."""
    return 9.0 if width <= 5 else 8.0 if width <= COLUMNS_ABREAST else 7.0


def split_columns(width: int, abreast: int) -> list[list[int]]:
    """Return the columns of each part of a table: at most ``abreast``, the first one in each."""
    if width <= abreast:
        return [list(range(width))]
    step = abreast - 1
    return [[0, *range(start, min(start + step, width))] for start in range(1, width, step)]


def describe_sheet(table: Table) -> dict[str, Any]:
    """Return a table of data in parts that fit a page side by side."""
    head = [f"{name} ({unit})" if unit else name for name, unit in zip(table.head, table.units, strict=True)]
    parts = [
        {
            "head": [clean(head[at]) for at in columns],
            "rows": [[clean(row[at]) for at in columns] for row in table.rows],
            "numeric": [table.is_number[at] for at in columns],
        }
        for columns in split_columns(len(head), COLUMNS_ABREAST)
    ]
    size = choose_size(min(len(head), COLUMNS_ABREAST))
    return {"kind": "sheet", "title": clean(table.title), "note": clean(table.note), "parts": parts, "size": size}
