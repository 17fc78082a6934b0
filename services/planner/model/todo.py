"""Todo list of a run: pure state, rebuilt from recorded steps, edited by model and user."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.notices import NOTE
from fathom.domain.chat.quoting import neutral
from fathom.services.planner.model.episode import Step, ToolStatus

TODO = "todo"
OPEN, DONE, DROPPED = "open", "done", "dropped"
STATES = (OPEN, DONE, DROPPED)
# A first plan of five keeps the model from planning what it cannot know yet; twenty short entries fit every window.
FIRST_ITEMS, MAX_ITEMS, MAX_CHARS = 5, 20, 200
EDITED = f"{NOTE}the user has changed the todo list; it is now "


@dataclass(frozen=True)
class TodoItem:
    """One entry; ``state`` is "open", "done" or "dropped"."""

    text: str
    state: str = OPEN


class Todo:
    """Ordered entries, numbered from 1 by position. Invalid edits raise ``InvalidField``."""

    def __init__(self, items: Iterable[TodoItem] = ()) -> None:
        self.items: tuple[TodoItem, ...] = tuple(items)

    @classmethod
    def from_steps(cls, steps: Sequence[Step]) -> Todo:
        """Return the list after these steps; in each step the user's edit precedes the model's."""
        todo = cls()
        for step in steps:
            for message in step.new_messages:
                # State is never stored beside the steps: whatever rebuilds the episode rebuilds the list.
                if (items := read_edited_items(message)) is not None:
                    todo.items = items
            for result in step.results:
                if result.call.name == TODO and result.status is ToolStatus.OK:
                    known = read_listed_items(result.content)
                    todo.items = todo.items if known is None else known
        return todo

    @property
    def open_items(self) -> tuple[TodoItem, ...]:
        return tuple(item for item in self.items if item.state == OPEN)

    def add(self, texts: Sequence[str]) -> None:
        """Append open entries; the first plan may have at most ``FIRST_ITEMS``."""
        if not texts:
            raise InvalidField("todo.items", "give the texts to add")
        if not self.items and len(texts) > FIRST_ITEMS:
            raise InvalidField(
                "todo.items", f"a first plan has at most {FIRST_ITEMS} entries; add others when results ask for them"
            )
        self.items = validate_items([*self.items, *(TodoItem(text) for text in texts)])

    def update(self, number: int, text: str) -> None:
        """Replace the text of an entry and reopen it."""
        # A new text is a new task, whatever the state of the old one.
        self._change([number], lambda item: TodoItem(text))

    def mark_done(self, numbers: Sequence[int]) -> None:
        self._change(numbers, lambda item: TodoItem(item.text, DONE))

    def drop(self, numbers: Sequence[int]) -> None:
        self._change(numbers, lambda item: TodoItem(item.text, DROPPED))

    def reorder(self, numbers: Sequence[int]) -> None:
        """Move the named entries to the front, in this order; the others keep theirs."""
        first = [number - 1 for number in self._validate_numbers(numbers)]
        rest = [index for index in range(len(self.items)) if index not in first]
        self.items = tuple(self.items[index] for index in [*first, *rest])

    def replace(self, items: Iterable[TodoItem]) -> None:
        """Replace the whole list by the user's."""
        self.items = validate_items(items)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the list in the form of tool results and messages."""
        return [{"n": n, "state": item.state, "text": item.text} for n, item in enumerate(self.items, start=1)]

    def _validate_numbers(self, numbers: Sequence[int]) -> list[int]:
        if not numbers:
            raise InvalidField("todo.numbers", "name the entries")
        if len(set(numbers)) < len(numbers):
            raise InvalidField("todo.numbers", "names an entry twice")
        if wrong := [number for number in numbers if not 1 <= number <= len(self.items)]:
            raise InvalidField("todo.numbers", f"no entry {wrong[0]}; the list has {len(self.items)}")
        return list(numbers)

    def _change(self, numbers: Sequence[int], change: Any) -> None:
        places = {number - 1 for number in self._validate_numbers(numbers)}
        self.items = validate_items(change(item) if index in places else item for index, item in enumerate(self.items))


def validate_items(items: Iterable[TodoItem]) -> tuple[TodoItem, ...]:
    """Return the entries with normalized text.

    Raise ``InvalidField`` for too many, empty or long ones, or unknown states.
    """
    # One line each: the list is shown, stored and parsed by lines.
    clean = tuple(TodoItem(" ".join(item.text.split()), item.state) for item in items)
    if len(clean) > MAX_ITEMS:
        raise InvalidField("todo.items", f"at most {MAX_ITEMS} entries")
    for index, item in enumerate(clean):
        if not item.text or len(item.text) > MAX_CHARS:
            raise InvalidField(f"todo.items[{index}].text", f"must have 1 to {MAX_CHARS} characters")
        if item.state not in STATES:
            raise InvalidField(f"todo.items[{index}].state", f"must be one of {', '.join(STATES)}")
    return clean


def format_edit(items: Sequence[TodoItem]) -> str:
    """Format a user's edit as the line that informs the model, and from which the list is rebuilt."""
    # The user's words go into a message to the model: tags in them must not open a call or a quotation.
    return EDITED + neutral(json.dumps(Todo(items).as_list(), ensure_ascii=False))


def read_edited_items(message: Message) -> tuple[TodoItem, ...] | None:
    """Return the list that a planner message reports; None when it reports none."""
    if message.role is not Role.USER:
        return None
    # The note is one line among others of the planner's message; the last one counts.
    lines = [line for line in message.content.splitlines() if line.startswith(EDITED)]
    return parse_items(lines[-1].removeprefix(EDITED)) if lines else None


def read_listed_items(content: str) -> tuple[TodoItem, ...] | None:
    """Return the list in a tool result; None when there is none."""
    try:
        head = json.loads(content.split("\n", 1)[0])
    except ValueError:
        return None
    return convert_items(head.get("items")) if isinstance(head, Mapping) else None


def parse_items(text: str) -> tuple[TodoItem, ...] | None:
    try:
        return convert_items(json.loads(text))
    except ValueError:
        return None


def convert_items(listed: Any) -> tuple[TodoItem, ...] | None:
    try:
        return tuple(TodoItem(str(item["text"]), str(item["state"])) for item in listed)
    except (TypeError, KeyError):
        return None
