"""Primitives and tables that are written more than once, found by their shape in the syntax tree.

- *Retry*: a loop that pauses because of an error and goes on, with a pause of its own: a call whose name has ``sleep``,
  ``delay``, ``backoff`` or ``pause`` stands in the handler, or behind a ``try`` that leaves the loop when it succeeds; or
  an import of ``tenacity`` or ``stamina``. A loop that pauses after a success too polls or works by the clock. One that
  catches ``BlockingIOError`` alone waits for room in a buffer. One that takes its pause from ``core.retry`` is no copy.
- *LRU*: a class or function that calls ``move_to_end``; what only drops the oldest has no order by use.
- *Single flight*: a class or function that stores a new task or future in a mapping by key, looks that mapping up, and
  awaits or returns what is in it; tasks that are kept to be cancelled are none.
- *Page token*: a module that decodes a token and refuses it, as ``InvalidField("page_token", …)`` or ``raise`` of it.
- *Tables*: a module whose string constants hold eight of the ten Chinese digits, eight of the twelve months, the range
  of Chinese characters, or a list with eight of ten common English stop words.

What is meant is one place each; a count says where to look, and ``--list`` names the places.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.bench.house.source import Function, Search, Source

WAITING = ("sleep", "delay", "backoff", "pause")
# What ``core.retry`` offers to those who wait by themselves.
PRIMITIVE = frozenset({"Retries", "next_delay_s", "delay_s"})
DECODING = frozenset({"b64decode", "urlsafe_b64decode", "loads", "fromhex", "unpack"})
RETRYING_PACKAGES = frozenset({"tenacity", "stamina"})
NEW_WORK = frozenset({"create_task", "create_future", "ensure_future", "Future"})
DIGITS = frozenset("一二三四五六七八九十")
MONTHS = frozenset(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])
STOP_WORDS = frozenset(["the", "of", "and", "in", "is", "for", "to", "on", "with", "from"])
MANY = 8


def called_name(node: ast.AST) -> str:
    """Return the last part of what a call calls, else an empty string."""
    if not isinstance(node, ast.Call):
        return ""
    called = node.func
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def find_retries(source: Source) -> Iterator[str]:
    for node in source.tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if RETRYING_PACKAGES & {(name or "").split(".")[0] for name in (*names, module)}:
            yield f"{source.path}:{node.lineno} kept library"
    defined = {node.name for node in source.nodes if isinstance(node, ast.ClassDef | Function)}
    for name, function in source.functions:
        # Where the primitive is defined, its loops are the ones that all others are to use.
        asks = any(called_name(node) in PRIMITIVE - defined for node in source.below(function))
        if not asks and any(pauses_after_errors(node) for node in source.below(function)):
            yield f"{source.path}:{function.lineno} {name}"


def pauses_after_errors(node: ast.AST) -> bool:
    """Return whether this is a loop that goes on after an error, and pauses only then."""
    if not isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return False
    for inner in (inner for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Try)):
        going_on = [handler for handler in inner.handlers if is_going_on(handler)]
        behind = [part for part in node.body if part.lineno > (inner.end_lineno or inner.lineno)]
        only_then = leaves(inner.orelse or inner.body) and any(map(pauses, behind))
        if any(pauses(handler) for handler in going_on) or (going_on and only_then):
            return True
    return False


def is_going_on(handler: ast.ExceptHandler) -> bool:
    """Return whether the loop goes on after this handler, for another reason than a full buffer."""
    full = isinstance(handler.type, ast.Name) and handler.type.id == "BlockingIOError"
    return not full and not isinstance(handler.body[-1], ast.Return | ast.Raise | ast.Break)


def leaves(body: list[ast.stmt]) -> bool:
    """Return whether these statements, when they succeed, end the loop around them."""
    last = body[-1]
    if isinstance(last, ast.With | ast.AsyncWith):
        return leaves(last.body)
    return isinstance(last, ast.Return | ast.Raise | ast.Break)


def pauses(node: ast.AST) -> bool:
    """Return whether something in a statement waits by its name."""
    return any(part in called_name(inner).lower() for inner in ast.walk(node) for part in WAITING)


def find_scopes(source: Source) -> Iterator[tuple[str, ast.AST]]:
    """Yield the classes of a module and its functions outside classes."""
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef | Function):
            yield f"{source.path}:{node.lineno} {node.name}", node


def find_lru(source: Source) -> Iterator[str]:
    for place, scope in find_scopes(source):
        if any(is_lru_call(node) for node in source.below(scope)):
            yield place


def is_lru_call(node: ast.AST) -> bool:
    """Return whether a call belongs to an order by use."""
    return called_name(node) == "move_to_end"


def find_single_flights(source: Source) -> Iterator[str]:
    for place, scope in find_scopes(source):
        works = {name for node in source.below(scope) for name in assigned_work(node)}
        stored = {key for node in source.below(scope) for key in stored_in(node, works)}
        # Few scopes store any work, and what all functions share is the costly half of the question.
        if stored and stored & {key for function in source.below(scope) for key in shared_by(function)}:
            yield place


def shared_by(node: ast.AST) -> Iterator[str]:
    """Yield the mappings of which a function awaits or returns what it looks up, also by way of a name."""
    if not isinstance(node, Function):
        return
    names: dict[str, set[str]] = defaultdict(set)
    for inner in ast.walk(node):
        targets, value = assignment(inner)
        if value is None:
            continue
        for target in targets:
            names[ast.unparse(target)] |= {key for part in ast.walk(value) for key in looked_up(part)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Await | ast.Return) and inner.value is not None:
            for part in ast.walk(inner.value):
                yield from looked_up(part)
                yield from names.get(ast.unparse(part), ()) if isinstance(part, ast.Name) else ()


def assignment(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    """Return the targets and the value of an assignment of either form."""
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    return ([node.target], node.value) if isinstance(node, ast.AnnAssign | ast.NamedExpr) else ([], None)


def assigned_work(node: ast.AST) -> Iterator[str]:
    """Yield the names that an assignment gives to a new task or future."""
    targets, value = assignment(node)
    if value is not None and called_name(value) in NEW_WORK:
        yield from (ast.unparse(target) for target in targets)


def stored_in(node: ast.AST, works: set[str]) -> Iterator[str]:
    """Yield the mappings in which an assignment stores a task or future under a key."""
    targets, value = assignment(node)
    if value is not None and (called_name(value) in NEW_WORK or ast.unparse(value) in works):
        yield from (ast.unparse(target.value) for target in targets if isinstance(target, ast.Subscript))


def looked_up(node: ast.AST) -> Iterator[str]:
    """Yield the mappings that an expression reads by key."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
        yield ast.unparse(node.func.value)
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        yield ast.unparse(node.comparators[0])
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield ast.unparse(node.value)


def find_page_tokens(source: Source) -> Iterator[str]:
    lines = [
        node.lineno
        for node in source.nodes
        if isinstance(node, ast.Call)
        and called_name(node) == "InvalidField"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == "page_token"
    ]
    # Who decodes nothing only checks whether a token goes with the other fields of a request.
    if lines and any(called_name(node) in DECODING for node in source.nodes):
        yield f"{source.path}:{lines[0]}"


def find_table(matches: Callable[[str, set[str]], bool]) -> Search:
    """Return a search for modules whose string constants match, as one text in lower case and as its words."""

    def find(source: Source) -> Iterator[str]:
        text = " ".join(part for _, part in source.texts)
        if matches(text, split_words(text)):
            yield source.path

    return find


def split_words(text: str) -> set[str]:
    """Return the words of a text or a pattern."""
    return set(re.split(r"[^a-z]+", text))


def find_stop_words(source: Source) -> Iterator[str]:
    """Yield modules with one constant, or one collection of constants, of which at least every fourth word is one."""
    texts: dict[ast.AST, list[str]] = defaultdict(list)
    for node, text in source.texts:
        texts[node].append(text)
    for parts in texts.values():
        words = split_words(" ".join(parts))
        if len(STOP_WORDS & words) >= max(MANY, len(words) / 4):
            yield source.path
            return


find_numerals = find_table(lambda text, words: len(DIGITS & set(text)) >= MANY)
find_months = find_table(lambda text, words: len({word[:3] for word in words if word[:3] in MONTHS}) >= MANY)
find_scripts = find_table(lambda text, words: "一-" in text or "\\u4e00" in text)
