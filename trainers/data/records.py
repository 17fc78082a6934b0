"""Parquet schema of prompts (the layout of verl and Search-R1, arXiv 2503.09516).

| column | type |
|---|---|
| ``data_source`` | string, e.g. "nq" |
| ``prompt`` | list of {role, content}, the chat shown to the model |
| ``ability`` | string, e.g. "fact-reasoning" |
| ``reward_model`` | {style: "rule", ground_truth: {target: [string]}} |
| ``extra_info`` | {split, index}, and Fathom's additions |

Fathom adds to ``extra_info`` the fields needed by rollouts through the planner, which has its own instruction: ``id``,
the bare ``question``, ``language``, ``grader`` with ``grader_parameters``, ``scenario``, ``expected_tools`` (the
suitable tools) and ``data_query``. Files without these can be read too: the question is then the last message of the
chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fathom.core.errors import InvalidField

ROLES = frozenset({"system", "user", "assistant", "tool"})
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
                ]
            ),
        ),
    ]
)
"""Schema written by :func:`write`.

:func:`read` requires the five columns and the first two fields of ``extra_info``.
"""


@dataclass(frozen=True)
class Record:
    """One prompt with its accepted answers.

    ``prompt`` holds (role, content) pairs; ``question`` is sent to the planner; ``grader`` and its parameters are the
    reward service's, whose tool graders receive ``expected_tools``. ``data_query`` asks datafetch for the tables that
    the task is about: a question, or the JSON of a ``TypedQuery``; empty means the question itself.
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
    if reward.get("style") != STYLE:
        raise InvalidField(f"{where}.reward_model.style", f"is {reward.get('style')!r}, must be {STYLE!r}")
    truth = entry(reward, "ground_truth", dict, f"{where}.reward_model")
    targets = entry(truth, "target", list, f"{where}.reward_model.ground_truth")
    if not targets or not all(isinstance(target, str) and target.strip() for target in targets):
        raise InvalidField(f"{where}.reward_model.ground_truth.target", "must be answers, none of them empty")
    extra = entry(row, "extra_info", dict, where)
    index = entry(extra, "index", int, f"{where}.extra_info")
    if index < 0:
        raise InvalidField(f"{where}.extra_info.index", f"{index} must not be negative")
    return Record(
        entry(row, "data_source", str, where),
        prompt,
        entry(row, "ability", str, where),
        tuple(targets),
        entry(extra, "split", str, f"{where}.extra_info"),
        index,
        extra.get("id") or f"{row['data_source']}-{extra['split']}-{index}",
        extra.get("question") or prompt[-1][1],
        extra.get("language") or "en",
        extra.get("grader") or "em",
        {item["name"]: item["value"] for item in extra.get("grader_parameters") or ()},
        extra.get("scenario") or "",
        tuple(extra.get("expected_tools") or ()),
        extra.get("data_query") or "",
    )


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
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    pq.write_table(pa.Table.from_pylist([record.row() for record in records], schema=SCHEMA), part)
    # Renamed when complete: a reader never sees half a file, and a killed writer leaves the old one.
    part.replace(path)


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
    for name in SCHEMA.names:
        if name not in table.column_names:
            shown = prompt_key if name == "prompt" else name
            raise InvalidField(shown, f"is no column of {path}; there are {', '.join(table.column_names)}")
    return [parse(row, number) for number, row in enumerate(table.to_pylist())]


def read_all(paths: Iterable[Path], prompt_key: str = "prompt") -> list[Record]:
    """Read the records of several files, in order."""
    return [record for path in paths for record in read(path, prompt_key)]
