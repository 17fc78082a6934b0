"""Items of the evaluation set of 33 questions, as its YAML files have them."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.core.extras import name_missing_extra

KINDS, LANGUAGES = ("event", "financial", "industry"), ("en", "zh")
DOCUMENTS = "documents"
DATES = ("date", "month")
MAX_BYTES = 16 << 20


class Closed(BaseModel):
    """Immutable, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Row = TypeVar("Row", bound=Closed)


class Source(Closed):
    """Place of an item's material: a column of a bundled table over a period, or a page of a document."""

    table: str = ""
    column: str = ""
    first: str = Field(default="", alias="from")
    last: str = Field(default="", alias="to")
    document: str = ""
    page: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def check(self) -> Source:
        """Raise ``ValueError`` for a source that is neither or both."""
        if bool(self.document and self.page) == bool(self.table and self.column and self.first and self.last):
            raise ValueError("a source is a table's column over a period, or a document's page")
        return self


class Figure(Closed):
    """Number or date of a reference as it is ``written`` there, with the query or the quotation that gives it."""

    written: str = Field(min_length=1)
    unit: str = ""
    sql: str = ""
    document: str = ""
    quote: str = ""

    @model_validator(mode="after")
    def check(self) -> Figure:
        """Raise ``ValueError`` for a figure that nothing proves."""
        if bool(self.sql) == bool(self.document and self.quote):
            raise ValueError(f"{self.written} is either computed by sql or quoted from a document")
        return self

    @property
    def is_scored(self) -> bool:
        """Return True for numbers that an analyst computes; what a document states, and dates, earn nothing."""
        return bool(self.sql) and self.unit not in DATES


class Item(Closed):
    """Question with the reference answer of an analyst."""

    id: str
    kind: Literal["event", "financial", "industry"]
    language: Literal["en", "zh"]
    question: str = Field(min_length=1)
    reference: str = Field(min_length=1)
    sources: tuple[Source, ...] = Field(min_length=1)
    figures: tuple[Figure, ...] = Field(min_length=1)
    attachments: tuple[str, ...] = ()
    """Files of the folder of documents that a run begins with."""
    names: tuple[str, ...] = ()
    """Words of the reference whose digits are no figure, such as S&P 500."""


def find_set() -> Path:
    """Return the folder of the shipped set."""
    # A wheel is unpacked by its installer, so that the folder is one of the file system.
    return Path(str(resources.files("fathom.operations.evaluation") / "set33"))


def load_items(folder: Path | None = None) -> list[Item]:
    """Return the items of all kinds, in the order of the files.

    Raises ``NotFound`` for a missing file, and ``CorruptData`` with the place of a mistake, for an id or question that
    stands twice, and for an attachment that is not there.
    """
    folder = folder or find_set()
    items = [item for kind in KINDS for language in LANGUAGES for item in read_file(folder / f"{kind}.{language}.yaml")]
    for field in ("id", "question"):
        values = [getattr(item, field) for item in items]
        # A question that stands twice would count twice, under whatever id.
        if twice := {value for value in values if values.count(value) > 1}:
            raise CorruptData(str(folder), f"{field} {min(twice)!r} stands twice")
    for item in items:
        for name in item.attachments:
            if not (folder / DOCUMENTS / name).is_file():
                raise CorruptData(item.id, f"the attachment {name} is not in {folder / DOCUMENTS}")
    return items


def read_file(path: Path) -> list[Item]:
    """Return the items of one file, which must be of the kind and language that the file is named after."""
    items = read_rows(path, Item)
    # Kind and language stand in the file's name and in the item: a copied item keeps the wrong ones easily.
    if stray := [item.id for item in items if f"{item.kind}.{item.language}" != path.stem]:
        raise CorruptData(str(path), f"{stray[0]} is of another kind or language")
    return items


def read_rows(path: Path, kind: type[Row]) -> list[Row]:
    """Return the rows of a YAML file; raise ``NotFound`` for a missing one, ``CorruptData`` for a broken one."""
    with name_missing_extra():
        import yaml

    if not path.is_file():
        raise NotFound("file", str(path))
    # One may be anybody's, and nothing is decoded without a bound.
    if path.stat().st_size > MAX_BYTES:
        raise CorruptData(str(path), f"has more than {MAX_BYTES >> 20} MiB")
    try:
        rows: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [kind.model_validate(row) for row in rows]
    except (yaml.YAMLError, ValidationError, TypeError, ValueError) as error:
        raise CorruptData(str(path), str(error)) from error


def choose_items(items: list[Item], wanted: list[str]) -> list[Item]:
    """Return the items of these ids, kinds or languages, all without any; raise ``InvalidField("item")``."""
    known = {value for item in items for value in (item.id, item.kind, item.language)}
    if unknown := sorted({*wanted} - known):
        raise InvalidField("item", f"{unknown[0]!r} is no id, kind or language of the set")
    return [item for item in items if not wanted or {item.id, item.kind, item.language} & {*wanted}]
