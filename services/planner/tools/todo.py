"""Tool ``todo``: the model's task list, short at first and revised as results come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fathom.core.errors import InvalidField
from fathom.services.planner.model.episode import ToolStatus
from fathom.services.planner.model.todo import FIRST_ITEMS, MAX_CHARS, MAX_ITEMS, TODO, Todo
from fathom.services.planner.tools.tool import Reply, make_schema

ACTIONS = ["add", "update", "done", "drop", "reorder"]


@dataclass(frozen=True)
class TodoList:
    """Edits of the task list; every call returns the list."""

    todo: Todo

    name: ClassVar[str] = TODO
    reads: ClassVar[bool] = False
    description: ClassVar[str] = (
        f"Keeps the list of what is left to do, for questions of several parts. The first plan has at most"
        f" {FIRST_ITEMS} entries; add, update, drop and reorder them when a result changes the picture. Mark what is"
        " done. The user may edit the list, too. Simple questions need none."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["action"],
        action={
            "enum": ACTIONS,
            "description": "add: items. update: one number and its new text in items. done, drop: numbers."
            " reorder: numbers in the order in which they come first.",
        },
        items={
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_CHARS},
            "minItems": 1,
            "maxItems": MAX_ITEMS,
            "description": "Texts of entries.",
        },
        numbers={
            "type": "array",
            "items": {"type": "integer", "minimum": 1},
            "minItems": 1,
            "maxItems": MAX_ITEMS,
            "description": "Numbers of entries, as the list shows them.",
        },
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        items: Sequence[str] = arguments.get("items", ())
        numbers: Sequence[int] = arguments.get("numbers", ())
        match arguments["action"]:
            case "add":
                self.todo.add(items)
            case "update":
                if len(items) != 1 or len(numbers) != 1:
                    raise InvalidField("todo.update", "takes one number and one text")
                self.todo.update(numbers[0], items[0])
            case "done":
                self.todo.mark_done(numbers)
            case "drop":
                self.todo.drop(numbers)
            case _:
                self.todo.reorder(numbers)
        return Reply(ToolStatus.OK, {"open": len(self.todo.open_items), "items": self.todo.as_list()})
