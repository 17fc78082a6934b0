"""Loader of semantic folders: merges their content into one layer and indexes all names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fathom.core.errors import CorruptData, InvalidField
from fathom.services.datafetch.catalog.codes import canonicalise, list_spellings
from fathom.services.datafetch.catalog.composing import iter_composed_names
from fathom.services.datafetch.catalog.files import (
    create_table,
    import_duckdb,
    quote,
    require_columns,
    resolve_inside,
)
from fathom.services.datafetch.catalog.names import Mention, Names
from fathom.services.datafetch.catalog.pinyin import romanise
from fathom.services.datafetch.catalog.schema import (
    CalendarSpec,
    EntitySpec,
    EntityTableSpec,
    Frequency,
    GroupSpec,
    IndicatorSpec,
    SemanticFile,
    TableSpec,
)
from fathom.services.datafetch.catalog.text import CJK

# libyaml's loader if PyYAML was built with it: ten times as fast, with the same results.
FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LIBRARY = Path(__file__).resolve().parent / "library"
# Particles that are optional within a Chinese name.
PARTICLES = "的之"
# What a text may have between the words of a Chinese name. A second reading, as names may have it themselves: the
# suffix that makes an adjective of a noun (营业性利润), and what joins a field to what is of it (管理方面的费用).
JOINTS = (re.compile(f"[{PARTICLES}]"), re.compile(f"方面|[{PARTICLES}]|(?<={CJK.pattern})性(?={CJK.pattern})"))
DEFAULT_CALENDAR = CalendarSpec(id="calendar", name="calendar year", name_zh="自然年", fiscal_year_end=12)


@dataclass(frozen=True)
class Failure:
    """A source that could not be read; its items are missing, everything else works."""

    source: str
    message: str


@dataclass
class Layer:
    """The entities, indicators, calendars and tables of all semantic folders, with indices of their names.

    Apart from indicators and failures, which the warehouse adds, it is read-only once loaded.
    """

    entities: dict[str, EntitySpec] = field(default_factory=dict)
    indicators: dict[str, IndicatorSpec] = field(default_factory=dict)
    groups: dict[str, GroupSpec] = field(default_factory=dict)
    calendars: dict[str, CalendarSpec] = field(default_factory=dict)
    tables: list[tuple[TableSpec, Path]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    entity_names: Names = field(default_factory=lambda: Names(()))
    patterned: list[tuple[str, str]] = field(default_factory=list)
    indicator_names: Names = field(default_factory=lambda: Names(()))
    loose_names: Names = field(default_factory=lambda: Names(()))

    def index_names(self) -> Layer:
        """Index all names and return the layer; call this once everything is loaded."""
        self.entity_names = Names(iter_entity_names(self.entities.values()))
        names = list(self.iter_names())
        self.indicator_names = Names(names)
        # Indexed without particles, to match texts that leave them out or add them.
        self.loose_names = Names(("".join(c for c in name if c not in PARTICLES), ident) for name, ident in names)
        return self

    def iter_names(self) -> Iterator[tuple[str, str]]:
        """Yield every name of an indicator with its id, the more important first."""
        yield from iter_indicator_names(self.indicators.values())
        yield from ((name, ident) for name, ident in self.patterned if ident in self.indicators)

    def find_indicators(self, text: str) -> list[Mention]:
        """Return the indicators in a text, whatever joins the words of their Chinese names."""
        return self.loose_names.find_loosely(text, JOINTS)

    def list_members(self, group: str) -> list[str]:
        """Return the entities of a group."""
        spec, known = self.groups[group], self.entities.values()
        alike = [one.id for one in known if spec.kind and one.kind == spec.kind and spec.market in ("", one.market)]
        return [ident for ident in spec.members if ident in self.entities] or alike

    @cached_property
    def pinyin_names(self) -> Names:
        """Return the index of the entities' Chinese names in pinyin."""
        # Built on first use: few questions are written in pinyin, and it takes a while for thousands of names.
        pinyin = [
            (word, s.id) for s in self.entities.values() for name in list_chinese_names(s) for word in romanise(name)
        ]
        return Names(pinyin)

    def get_calendar(self, entity: EntitySpec | None) -> CalendarSpec:
        """Return the calendar of an entity: its own, else that of its kind, else the calendar year."""
        if entity is None:
            return DEFAULT_CALENDAR
        if entity.calendar in self.calendars:
            return self.calendars[entity.calendar]
        by_name = (item for item in self.calendars.values() if entity.id in item.entities)
        by_kind = (item for item in self.calendars.values() if entity.kind in item.kinds)
        return next(by_name, next(by_kind, DEFAULT_CALENDAR))


def list_chinese_names(spec: EntitySpec) -> list[str]:
    return [spec.name_zh, *spec.aliases]


def iter_entity_names(specs: Iterable[EntitySpec]) -> Iterator[tuple[str, str]]:
    """Yield every name with its entity id; present names come before former ones and therefore win."""
    specs = list(specs)
    for spec in specs:
        for name in (spec.id, spec.name, spec.name_zh):
            yield name, spec.id
    for spec in specs:
        # "Dollars" and "francs": only currencies are counted by their name.
        plurals = [f"{name}s" for name in (spec.name, *spec.aliases) if spec.kind == "currency" and name[-1:].islower()]
        for name in (*spec.aliases, *list_spellings(spec.id, spec.market), *plurals):
            yield name, spec.id
    for spec in specs:
        for name in spec.former_names:
            yield name, spec.id


# Source ids that are also English words; in a text they are not read as ids.
ENGLISH = frozenset("consumer loans invest dividend borrow treasury vault ram pop coe ira".split())  # noqa: SIM905


def iter_indicator_names(specs: Iterable[IndicatorSpec]) -> Iterator[tuple[str, str]]:
    """Yield every name with its indicator id.

    Curated names come before names given by sources, which may be ambiguous.
    """
    specs = list(specs)
    written = [spec for spec in specs if spec.name_zh or spec.synonyms]
    # Of series with one name the seasonally adjusted one wins, then the finest.
    sourced = sorted(
        (spec for spec in specs if not spec.name_zh and not spec.synonyms),
        key=lambda spec: ("(SA" not in spec.unit, list(Frequency).index(spec.frequency)),
    )
    for spec in written:
        # An id of one or two letters is more likely a word than a name.
        for name in (spec.id if len(spec.id) > 2 and spec.id not in ENGLISH else "", spec.name, spec.name_zh):
            yield name, spec.id
    for spec in written:
        for name in spec.synonyms:
            yield name, spec.id
    yield from iter_composed_names(written)
    for spec in sourced:
        for name in (spec.id if len(spec.id) > 3 else "", spec.name, spec.name.replace(" [-]", "")):
            yield name, spec.id


def read_file(path: Path) -> SemanticFile:
    """Parse one YAML file; raises ``InvalidField`` with file and key."""
    try:
        return SemanticFile.model_validate(yaml.load(path.read_text(encoding="utf-8"), Loader=FAST) or {})  # noqa: S506 - a SafeLoader
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidField(f"semantic.{path.name}.{where}", first["msg"]) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidField(f"semantic.{path.name}", f"cannot be read: {error}") from error


def load(folders: Sequence[tuple[Path, Path]]) -> Layer:
    """Load a layer from pairs of a folder of YAML files and the root of their tables.

    Later folders override earlier ones. Raises ``InvalidField`` for a folder without YAML files, a file that violates
    the schema, an id declared twice in one folder or synonyms of an unknown indicator. An entity table that cannot be
    read becomes a ``Failure`` of the layer.
    """
    layer = Layer()
    synonyms: list[tuple[str, str, list[str]]] = []
    for folder, data in folders:
        paths = sorted(folder.glob("*.yaml"))
        if not paths:
            raise InvalidField("semantic", f"{folder} holds no YAML file")
        seen: set[str] = set()
        for path in paths:
            file = read_file(path)
            for spec in file.indicators:
                if spec.id in seen:
                    raise InvalidField(f"semantic.{path.name}", f"indicator {spec.id!r} is declared twice")
                seen.add(spec.id)
            # Twice in one folder is a mistake; a later folder overrides on purpose.
            layer.indicators.update({spec.id: spec for spec in file.indicators})
            layer.entities.update({spec.id: spec for spec in file.entities})
            layer.groups.update({spec.id: spec for spec in file.groups})
            layer.calendars.update({spec.id: spec for spec in file.calendars})
            layer.tables += [(spec, data) for spec in file.tables]
            for table in file.entity_tables:
                add_entities(layer, table, data)
            layer.patterned += [pair for family in file.families for pair in family.iter_names()]
            synonyms += [(path.name, spec.id, spec.synonyms) for spec in file.synonyms]
    # After all folders: a file of synonyms may stand before the file of its indicators.
    for name, ident, words in synonyms:
        if ident not in layer.indicators:
            raise InvalidField(f"semantic.{name}.synonyms", f"no indicator {ident!r}")
        known = layer.indicators[ident]
        layer.indicators[ident] = known.model_copy(update={"synonyms": [*known.synonyms, *words]})
    return layer


def add_entities(layer: Layer, spec: EntityTableSpec, root: Path) -> None:
    """Add the entities of a table to the layer; record a failure."""
    try:
        for entity in read_entities(spec, root):
            layer.entities[entity.id] = entity
    # A broken table of one user must not keep the service from starting.
    except (CorruptData, InvalidField) as error:
        layer.failures.append(Failure(spec.path, error.message))


def read_entities(spec: EntityTableSpec, root: Path) -> Iterator[EntitySpec]:
    """Yield the entities of a table without duplicates; raises ``CorruptData`` and ``InvalidField``."""
    path = resolve_inside(root, spec.path)
    with import_duckdb().connect(":memory:") as connection:
        columns = create_table(connection, "entities", path)
        wanted = [spec.id, spec.name, spec.name_zh, *spec.aliases, spec.order]
        require_columns(columns, wanted, path)
        order = quote(spec.order or spec.id)
        rows = connection.execute(f"select * from entities order by {order}").fetchall()
    grouped: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        record = {name: str(value).strip() for name, value in zip(columns, row, strict=True) if value is not None}
        if record.get(spec.id):
            # Rows come in the order of ``spec.order``, so the last one of an entity has its present names.
            grouped.setdefault(canonicalise(record[spec.id], spec.codes), []).append(record)
    for ident, records in grouped.items():
        last = records[-1]
        names = [last[name] for name in (spec.name, spec.name_zh, *spec.aliases) if last.get(name)]
        former = [
            old[name] for old in records[:-1] for name in (spec.name, spec.name_zh, *spec.aliases) if old.get(name)
        ]
        yield EntitySpec(
            id=ident,
            name=last.get(spec.name, "") or names[0] if names else ident,
            name_zh=last.get(spec.name_zh, ""),
            kind=spec.kind,
            aliases=list(dict.fromkeys(last[name] for name in spec.aliases if last.get(name))),
            former_names=[name for name in dict.fromkeys(former) if name not in names],
            market=spec.market,
            currency=spec.currency,
            calendar=spec.calendar,
        )
