"""Parquet schema of prompts (the layout of verl and Search-R1, arXiv 2503.09516).

| column | type |
|---|---|
| ``data_source`` | string, e.g. "nq" |
| ``prompt`` | list of {role, content}, the chat shown to the model |
| ``ability`` | string, e.g. "fact-reasoning"; may be absent |
| ``reward_model`` | {style, ground_truth}; the truth is {target: [string]}, a list of texts, a text or a number |
| ``extra_info`` | {split, index}, and Fathom's additions; may be absent |

Fathom adds to ``extra_info`` the fields needed by rollouts through the planner, which has its own instruction: ``id``,
the bare ``question``, ``language``, ``grader`` with ``grader_parameters``, ``scenario``, ``expected_tools`` (the
suitable tools), ``data_query``, ``history`` (the turns before the question), ``conversation_id`` with
``conversation_turns`` (a conversation of the memory service and how many of its turns the question follows) and
``as_of`` (the instant at which it is asked). Files without these are read as others write them: the question is then
that of the column ``question`` or of the chat's last user, and the grader that of the ``data_source``, see
``fathom.trainers.data.sources``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fathom.core.errors import InvalidField
from fathom.domain.replacing import replace_whole
from fathom.trainers.data.sources import find_grader

ROLES = frozenset({"system", "user", "assistant", "tool"})
TURNS = frozenset({"user", "assistant"})
STYLE = "rule"
# Rows are read into memory: a larger file is refused by name instead of ending the process.
MAX_ROWS = 5_000_000

SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("ability", pa.string()),
        (
            "reward_model",
            pa.struct([("style", pa.string()), ("ground_truth", pa.struct([("target", pa.list_(pa.string()))]))]),
        ),
        (
            "extra_info",
            pa.struct(
                [
                    ("split", pa.string()),
                    ("index", pa.int64()),
                    ("id", pa.string()),
                    ("question", pa.string()),
                    ("language", pa.string()),
                    ("grader", pa.string()),
                    ("grader_parameters", pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64())]))),
                    ("scenario", pa.string()),
                    ("expected_tools", pa.list_(pa.string())),
                    ("data_query", pa.string()),
                    ("history", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
                    ("as_of", pa.string()),
                    ("conversation_id", pa.string()),
                    ("conversation_turns", pa.int64()),
                ]
            ),
        ),
    ]
)
"""Schema written by :func:`write`."""
REQUIRED = ("data_source", "prompt", "reward_model")
"""Columns without which a file is refused."""


@dataclass(frozen=True)
class Record:
    """One prompt with its accepted answers.

    ``prompt`` holds (role, content) pairs; ``question`` is sent to the planner; ``grader`` and its parameters are the
    reward service's, whose tool graders receive ``expected_tools``. ``data_query`` asks datafetch for the tables that
    the task is about: a question, or the JSON of a ``TypedQuery``; empty means the question itself. ``history`` are the
    earlier turns of user and assistant, ``conversation_id`` and ``conversation_turns`` those of the memory service,
    ``as_of`` an instant of ISO 8601; all belong to episodes that planner plays.
    """

    data_source: str
    prompt: tuple[tuple[str, str], ...]
    ability: str
    targets: tuple[str, ...]
    split: str
    index: int
    id: str = ""
    question: str = ""
    language: str = "en"
    grader: str = "em"
    grader_parameters: Mapping[str, float] = field(default_factory=dict)
    scenario: str = ""
    expected_tools: tuple[str, ...] = ()
    data_query: str = ""
    history: tuple[tuple[str, str], ...] = ()
    as_of: str = ""
    conversation_id: str = ""
    conversation_turns: int = 0

    def row(self) -> dict[str, Any]:
        """Return the record as a row of ``SCHEMA``."""
        return {
            "data_source": self.data_source,
            "prompt": [{"role": role, "content": content} for role, content in self.prompt],
            "ability": self.ability,
            "reward_model": {"style": STYLE, "ground_truth": {"target": list(self.targets)}},
            "extra_info": {
                "split": self.split,
                "index": self.index,
                "id": self.id,
                "question": self.question,
                "language": self.language,
                "grader": self.grader,
                "grader_parameters": [{"name": k, "value": v} for k, v in sorted(self.grader_parameters.items())],
                "scenario": self.scenario,
                "expected_tools": list(self.expected_tools),
                "data_query": self.data_query,
                "history": [{"role": role, "content": content} for role, content in self.history],
                "as_of": self.as_of,
                "conversation_id": self.conversation_id,
                "conversation_turns": self.conversation_turns,
            },
        }


def parse(row: Mapping[str, Any], number: int) -> Record:
    """Parse a row; raises ``InvalidField`` naming row and field, e.g. ``rows[3].reward_model.style``."""
    where = f"rows[{number}]"
    messages = entry(row, "prompt", list, where)
    prompt = tuple(message(item, f"{where}.prompt[{place}]") for place, item in enumerate(messages))
    if not prompt:
        raise InvalidField(f"{where}.prompt", "has no message")
    reward = entry(row, "reward_model", dict, where)
    # Any style: upstream's files write "rule", "rule-lighteval/MATH_v2" and others, and all of them have a truth.
    entry(reward, "style", str, f"{where}.reward_model")
    targets = read_truth(reward.get("ground_truth"), f"{where}.reward_model.ground_truth")
    source, extra = entry(row, "data_source", str, where), optional(row, "extra_info", dict, where, {})
    inside = f"{where}.extra_info"
    split = optional(extra, "split", str, inside, "")
    index, name = read_index(extra.get("index"), number, f"{inside}.index")
    asked = optional(extra, "question", str, inside, "") or optional(row, "question", str, where, "")
    return Record(
        source,
        prompt,
        optional(row, "ability", str, where, ""),
        targets,
        split,
        index,
        optional(extra, "id", str, inside, "") or "-".join(part for part in (source, split, name) if part),
        asked or find_question(prompt, f"{where}.prompt"),
        extra.get("language") or "en",
        optional(extra, "grader", str, inside, "") or find_grader(source, isinstance(reward["ground_truth"], Mapping)),
        read_parameters(extra.get("grader_parameters"), f"{inside}.grader_parameters"),
        extra.get("scenario") or "",
        tuple(extra.get("expected_tools") or ()),
        extra.get("data_query") or "",
        read_history(optional(extra, "history", list, inside, []), f"{inside}.history"),
        read_instant(extra.get("as_of"), f"{inside}.as_of"),
        *read_conversation(extra, inside),
    )


def read_truth(truth: Any, where: str) -> tuple[str, ...]:
    """Return the accepted answers of a ground truth: ``{"target": …}``, a list, a text or a number."""
    if isinstance(truth, Mapping):
        truth, where = truth.get("target"), f"{where}.target"
    given = truth if isinstance(truth, list) else [truth]
    # A number stands in some files for its text; bool is one of them to Python.
    if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in given):
        raise InvalidField(where, f"is {type(truth).__name__}, must be an answer or a list of answers")
    targets = tuple(str(one) for one in given)
    if not targets or not all(map(str.strip, targets)):
        raise InvalidField(where, "must be answers, none of them empty")
    return targets


def read_index(index: Any, number: int, where: str) -> tuple[int, str]:
    """Return the index and the name of a row; rows that name theirs by a text, or not at all, are numbered."""
    if index is None:
        return number, str(number)
    if isinstance(index, str) and index.strip():
        return number, index
    if isinstance(index, bool) or not isinstance(index, int):
        raise InvalidField(where, f"is {type(index).__name__}, must be a number or a name")
    if index < 0:
        raise InvalidField(where, f"{index} must not be negative")
    return index, str(index)


def read_parameters(given: Any, where: str) -> dict[str, float]:
    """Return a grader's parameters from a mapping, or from the list of names and values as parquet stores it."""
    try:
        pairs = given.items() if isinstance(given, Mapping) else [(one["name"], one["value"]) for one in given or ()]
        return {str(name): float(value) for name, value in pairs}
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidField(where, "must be numbers by name") from error


def read_history(turns: Sequence[Any], where: str) -> tuple[tuple[str, str], ...]:
    """Return the earlier turns of a conversation; each is of user or assistant."""
    found = tuple(message(item, f"{where}[{place}]") for place, item in enumerate(turns))
    for place, (role, _) in enumerate(found):
        if role not in TURNS:
            raise InvalidField(f"{where}[{place}].role", f"{role!r} must be one of {', '.join(sorted(TURNS))}")
    return found


def read_conversation(extra: Mapping[str, Any], where: str) -> tuple[str, int]:
    """Return the conversation that a question follows and the number of turns before it; ("", 0) for none."""
    ident, turns = optional(extra, "conversation_id", str, where, ""), extra.get("conversation_turns") or 0
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 0:
        raise InvalidField(f"{where}.conversation_turns", f"{turns!r} must be a number of turns")
    # Without the number the episode's prompt would change with every turn that the conversation gets.
    if bool(ident) != bool(turns):
        raise InvalidField(f"{where}.conversation_turns", "is needed with conversation_id, and has no sense without it")
    return ident, turns


def read_instant(value: Any, where: str) -> str:
    """Return an instant in ISO 8601 with its offset, "" for none; a day is its end, and without an offset it is UTC."""
    if value is None or value == "":
        return ""
    try:
        given = datetime.fromisoformat(value) if isinstance(value, str) else value
        is_day = not isinstance(given, datetime) or (isinstance(value, str) and len(value.strip()) <= len("2014-03-31"))
        # Who asks on a day knows what it brought.
        moment: datetime = datetime.combine(given, time.max) if is_day else given
    except (TypeError, ValueError) as error:
        raise InvalidField(where, f"{value!r} is no date or instant of ISO 8601") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def find_question(prompt: Sequence[tuple[str, str]], where: str) -> str:
    """Return what the chat's last user says."""
    said = [content for role, content in prompt if role == "user"]
    if not said:
        raise InvalidField(where, "has no message of a user")
    return said[-1]


def optional(row: Mapping[str, Any], name: str, kind: type, where: str, default: Any) -> Any:
    """Return a value of the given type, or the default when it is missing; raises ``InvalidField`` when mistyped."""
    value = row.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidField(f"{where}.{name}", f"is {type(value).__name__}, must be {kind.__name__}")
    return value


def entry(row: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """Return a required value of the given type; raises ``InvalidField`` when it is missing, mistyped or blank."""
    value = row.get(name)
    # bool is a subclass of int: True would pass as an index.
    if value is None or not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidField(f"{where}.{name}", f"is {type(value).__name__}, must be {kind.__name__}")
    if isinstance(value, str) and not value.strip():
        raise InvalidField(f"{where}.{name}", "is empty")
    return value


def message(item: Any, where: str) -> tuple[str, str]:
    """Parse one chat message; raises ``InvalidField`` naming the field."""
    if not isinstance(item, Mapping):
        raise InvalidField(where, "is no message")
    role = entry(item, "role", str, where)
    if role not in ROLES:
        raise InvalidField(f"{where}.role", f"{role!r} must be one of {', '.join(sorted(ROLES))}")
    return role, entry(item, "content", str, where)


def check(records: Sequence[Record]) -> None:
    """Raise ``InvalidField`` for a record that :func:`parse` would reject, or a repeated (source, split, index)."""
    seen: set[tuple[str, str, int]] = set()
    for number, record in enumerate(records):
        parse(record.row(), number)
        key = (record.data_source, record.split, record.index)
        if key in seen:
            raise InvalidField(f"rows[{number}].extra_info.index", f"{key} is there twice")
        seen.add(key)


def write(records: Sequence[Record], path: Path) -> None:
    """Write a file atomically; raises what :func:`check` raises."""
    check(records)
    with replace_whole(path) as part:
        pq.write_table(pa.Table.from_pylist([record.row() for record in records], schema=SCHEMA), part)


def read(path: Path, prompt_key: str = "prompt") -> list[Record]:
    """Read all records of a file.

    Raises ``InvalidField`` for an unreadable file, a missing column or an invalid row.
    """
    try:
        file = pq.ParquetFile(path)
        if file.metadata.num_rows > MAX_ROWS:
            raise InvalidField(str(path), f"has {file.metadata.num_rows:,} rows, at most {MAX_ROWS:,} are read")
        table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise InvalidField(str(path), f"is no parquet file that can be read: {error}") from error
    if prompt_key != "prompt" and prompt_key in table.column_names:
        table = table.drop_columns([name for name in ("prompt",) if name in table.column_names])
        table = table.rename_columns({prompt_key: "prompt"})
    for name in REQUIRED:
        if name not in table.column_names:
            shown = prompt_key if name == "prompt" else name
            raise InvalidField(shown, f"is no column of {path}; there are {', '.join(table.column_names)}")
    records = []
    for number, row in enumerate(table.to_pylist()):
        try:
            records.append(parse(row, number))
        except InvalidField as error:
            why = error.message.removeprefix(f"{error.field}: ")
            raise InvalidField(f"{path}: {error.field}", why) from error
    return records


def read_all(paths: Iterable[Path], prompt_key: str = "prompt") -> list[Record]:
    """Read the records of several files, in order."""
    return [record for path in paths for record in read(path, prompt_key)]
