from fathom.api.common.v1 import common_pb2 as _common_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Transform(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRANSFORM_UNSPECIFIED: _ClassVar[Transform]
    TRANSFORM_YOY: _ClassVar[Transform]
    TRANSFORM_QOQ: _ClassVar[Transform]
    TRANSFORM_MOM: _ClassVar[Transform]
    TRANSFORM_CHANGE: _ClassVar[Transform]
    TRANSFORM_YTD: _ClassVar[Transform]
    TRANSFORM_TTM: _ClassVar[Transform]
    TRANSFORM_SINGLE: _ClassVar[Transform]
    TRANSFORM_RUNNING: _ClassVar[Transform]

class Frequency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FREQUENCY_UNSPECIFIED: _ClassVar[Frequency]
    FREQUENCY_DAILY: _ClassVar[Frequency]
    FREQUENCY_WEEKLY: _ClassVar[Frequency]
    FREQUENCY_MONTHLY: _ClassVar[Frequency]
    FREQUENCY_QUARTERLY: _ClassVar[Frequency]
    FREQUENCY_ANNUAL: _ClassVar[Frequency]

class ExportFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXPORT_FORMAT_UNSPECIFIED: _ClassVar[ExportFormat]
    EXPORT_FORMAT_CSV: _ClassVar[ExportFormat]
    EXPORT_FORMAT_XLSX: _ClassVar[ExportFormat]

class NegativeStyle(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NEGATIVE_STYLE_UNSPECIFIED: _ClassVar[NegativeStyle]
    NEGATIVE_STYLE_MINUS: _ClassVar[NegativeStyle]
    NEGATIVE_STYLE_PARENTHESES: _ClassVar[NegativeStyle]

class ColumnRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COLUMN_ROLE_UNSPECIFIED: _ClassVar[ColumnRole]
    COLUMN_ROLE_DATE: _ClassVar[ColumnRole]
    COLUMN_ROLE_LABEL: _ClassVar[ColumnRole]
    COLUMN_ROLE_VALUE: _ClassVar[ColumnRole]
    COLUMN_ROLE_IGNORED: _ClassVar[ColumnRole]

class Aggregation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGGREGATION_UNSPECIFIED: _ClassVar[Aggregation]
    AGGREGATION_LAST: _ClassVar[Aggregation]
    AGGREGATION_SUM: _ClassVar[Aggregation]
    AGGREGATION_MEAN: _ClassVar[Aggregation]

class FrameworkTool(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FRAMEWORK_TOOL_UNSPECIFIED: _ClassVar[FrameworkTool]
    FRAMEWORK_TOOL_DATA: _ClassVar[FrameworkTool]
    FRAMEWORK_TOOL_SEARCH: _ClassVar[FrameworkTool]

class MentionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MENTION_KIND_UNSPECIFIED: _ClassVar[MentionKind]
    MENTION_KIND_ENTITY: _ClassVar[MentionKind]
    MENTION_KIND_INDICATOR: _ClassVar[MentionKind]
    MENTION_KIND_PERIOD: _ClassVar[MentionKind]
    MENTION_KIND_FREQUENCY: _ClassVar[MentionKind]
    MENTION_KIND_MEASURE: _ClassVar[MentionKind]
    MENTION_KIND_CONDITION: _ClassVar[MentionKind]
    MENTION_KIND_PARAMETER: _ClassVar[MentionKind]
    MENTION_KIND_OUTPUT: _ClassVar[MentionKind]
    MENTION_KIND_UNKNOWN: _ClassVar[MentionKind]
TRANSFORM_UNSPECIFIED: Transform
TRANSFORM_YOY: Transform
TRANSFORM_QOQ: Transform
TRANSFORM_MOM: Transform
TRANSFORM_CHANGE: Transform
TRANSFORM_YTD: Transform
TRANSFORM_TTM: Transform
TRANSFORM_SINGLE: Transform
TRANSFORM_RUNNING: Transform
FREQUENCY_UNSPECIFIED: Frequency
FREQUENCY_DAILY: Frequency
FREQUENCY_WEEKLY: Frequency
FREQUENCY_MONTHLY: Frequency
FREQUENCY_QUARTERLY: Frequency
FREQUENCY_ANNUAL: Frequency
EXPORT_FORMAT_UNSPECIFIED: ExportFormat
EXPORT_FORMAT_CSV: ExportFormat
EXPORT_FORMAT_XLSX: ExportFormat
NEGATIVE_STYLE_UNSPECIFIED: NegativeStyle
NEGATIVE_STYLE_MINUS: NegativeStyle
NEGATIVE_STYLE_PARENTHESES: NegativeStyle
COLUMN_ROLE_UNSPECIFIED: ColumnRole
COLUMN_ROLE_DATE: ColumnRole
COLUMN_ROLE_LABEL: ColumnRole
COLUMN_ROLE_VALUE: ColumnRole
COLUMN_ROLE_IGNORED: ColumnRole
AGGREGATION_UNSPECIFIED: Aggregation
AGGREGATION_LAST: Aggregation
AGGREGATION_SUM: Aggregation
AGGREGATION_MEAN: Aggregation
FRAMEWORK_TOOL_UNSPECIFIED: FrameworkTool
FRAMEWORK_TOOL_DATA: FrameworkTool
FRAMEWORK_TOOL_SEARCH: FrameworkTool
MENTION_KIND_UNSPECIFIED: MentionKind
MENTION_KIND_ENTITY: MentionKind
MENTION_KIND_INDICATOR: MentionKind
MENTION_KIND_PERIOD: MentionKind
MENTION_KIND_FREQUENCY: MentionKind
MENTION_KIND_MEASURE: MentionKind
MENTION_KIND_CONDITION: MentionKind
MENTION_KIND_PARAMETER: MentionKind
MENTION_KIND_OUTPUT: MentionKind
MENTION_KIND_UNKNOWN: MentionKind

class TypedQuery(_message.Message):
    __slots__ = ("entities", "indicators", "start_date", "end_date", "frequency", "limit", "transform", "filters", "order_by", "descending", "unit", "currency", "entity_kind", "fiscal", "vintage", "periods", "include_previous")
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    INDICATORS_FIELD_NUMBER: _ClassVar[int]
    START_DATE_FIELD_NUMBER: _ClassVar[int]
    END_DATE_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    ENTITY_KIND_FIELD_NUMBER: _ClassVar[int]
    FISCAL_FIELD_NUMBER: _ClassVar[int]
    VINTAGE_FIELD_NUMBER: _ClassVar[int]
    PERIODS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedScalarFieldContainer[str]
    indicators: _containers.RepeatedScalarFieldContainer[str]
    start_date: str
    end_date: str
    frequency: Frequency
    limit: int
    transform: Transform
    filters: _containers.RepeatedCompositeFieldContainer[ValueFilter]
    order_by: str
    descending: bool
    unit: str
    currency: str
    entity_kind: str
    fiscal: bool
    vintage: str
    periods: _containers.RepeatedScalarFieldContainer[str]
    include_previous: bool
    def __init__(self, entities: _Optional[_Iterable[str]] = ..., indicators: _Optional[_Iterable[str]] = ..., start_date: _Optional[str] = ..., end_date: _Optional[str] = ..., frequency: _Optional[_Union[Frequency, str]] = ..., limit: _Optional[int] = ..., transform: _Optional[_Union[Transform, str]] = ..., filters: _Optional[_Iterable[_Union[ValueFilter, _Mapping]]] = ..., order_by: _Optional[str] = ..., descending: bool = ..., unit: _Optional[str] = ..., currency: _Optional[str] = ..., entity_kind: _Optional[str] = ..., fiscal: bool = ..., vintage: _Optional[str] = ..., periods: _Optional[_Iterable[str]] = ..., include_previous: bool = ...) -> None: ...

class ValueFilter(_message.Message):
    __slots__ = ("indicator", "operator", "value")
    INDICATOR_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    indicator: str
    operator: str
    value: float
    def __init__(self, indicator: _Optional[str] = ..., operator: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class NameMatch(_message.Message):
    __slots__ = ("surface", "id", "score", "how", "others")
    SURFACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    surface: str
    id: str
    score: float
    how: str
    others: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, surface: _Optional[str] = ..., id: _Optional[str] = ..., score: _Optional[float] = ..., how: _Optional[str] = ..., others: _Optional[_Iterable[str]] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("request_id", "question", "typed", "as_of", "snapshot", "vendors_off")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    TYPED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    VENDORS_OFF_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    question: str
    typed: TypedQuery
    as_of: _timestamp_pb2.Timestamp
    snapshot: str
    vendors_off: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., question: _Optional[str] = ..., typed: _Optional[_Union[TypedQuery, _Mapping]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., snapshot: _Optional[str] = ..., vendors_off: _Optional[_Iterable[str]] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "type", "unit", "indicator", "entity", "source", "formula", "nulls", "as_of", "vendor", "inputs", "basis", "resampling", "entity_names", "indicator_names", "adverse")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    INDICATOR_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    NULLS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    RESAMPLING_FIELD_NUMBER: _ClassVar[int]
    ENTITY_NAMES_FIELD_NUMBER: _ClassVar[int]
    INDICATOR_NAMES_FIELD_NUMBER: _ClassVar[int]
    ADVERSE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    unit: str
    indicator: str
    entity: str
    source: str
    formula: str
    nulls: int
    as_of: str
    vendor: str
    inputs: _containers.RepeatedScalarFieldContainer[str]
    basis: str
    resampling: str
    entity_names: _containers.RepeatedScalarFieldContainer[str]
    indicator_names: _containers.RepeatedScalarFieldContainer[str]
    adverse: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., unit: _Optional[str] = ..., indicator: _Optional[str] = ..., entity: _Optional[str] = ..., source: _Optional[str] = ..., formula: _Optional[str] = ..., nulls: _Optional[int] = ..., as_of: _Optional[str] = ..., vendor: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., basis: _Optional[str] = ..., resampling: _Optional[str] = ..., entity_names: _Optional[_Iterable[str]] = ..., indicator_names: _Optional[_Iterable[str]] = ..., adverse: bool = ...) -> None: ...

class Sheet(_message.Message):
    __slots__ = ("id", "title", "columns", "rows", "digest", "data")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    rows: int
    digest: str
    data: _common_pb2.ObjectRef
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., rows: _Optional[int] = ..., digest: _Optional[str] = ..., data: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class QueryResponse(_message.Message):
    __slots__ = ("sheets", "missing", "understood", "snapshot", "matches", "is_cached")
    SHEETS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    IS_CACHED_FIELD_NUMBER: _ClassVar[int]
    sheets: _containers.RepeatedCompositeFieldContainer[Sheet]
    missing: _containers.RepeatedCompositeFieldContainer[_common_pb2.MissingItem]
    understood: TypedQuery
    snapshot: str
    matches: _containers.RepeatedCompositeFieldContainer[NameMatch]
    is_cached: bool
    def __init__(self, sheets: _Optional[_Iterable[_Union[Sheet, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[_common_pb2.MissingItem, _Mapping]]] = ..., understood: _Optional[_Union[TypedQuery, _Mapping]] = ..., snapshot: _Optional[str] = ..., matches: _Optional[_Iterable[_Union[NameMatch, _Mapping]]] = ..., is_cached: bool = ...) -> None: ...

class GetTableRequest(_message.Message):
    __slots__ = ("sheet_id",)
    SHEET_ID_FIELD_NUMBER: _ClassVar[int]
    sheet_id: str
    def __init__(self, sheet_id: _Optional[str] = ...) -> None: ...

class GetTableResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    def __init__(self, chunk: _Optional[bytes] = ...) -> None: ...

class GetSheetRequest(_message.Message):
    __slots__ = ("sheet_id",)
    SHEET_ID_FIELD_NUMBER: _ClassVar[int]
    sheet_id: str
    def __init__(self, sheet_id: _Optional[str] = ...) -> None: ...

class GetSheetResponse(_message.Message):
    __slots__ = ("sheet",)
    SHEET_FIELD_NUMBER: _ClassVar[int]
    sheet: Sheet
    def __init__(self, sheet: _Optional[_Union[Sheet, _Mapping]] = ...) -> None: ...

class RunSqlRequest(_message.Message):
    __slots__ = ("request_id", "sql", "sheet_ids", "row_limit", "tables", "columns")
    class TablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TableColumns
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TableColumns, _Mapping]] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    SHEET_IDS_FIELD_NUMBER: _ClassVar[int]
    ROW_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    sql: str
    sheet_ids: _containers.RepeatedScalarFieldContainer[str]
    row_limit: int
    tables: _containers.ScalarMap[str, str]
    columns: _containers.MessageMap[str, TableColumns]
    def __init__(self, request_id: _Optional[str] = ..., sql: _Optional[str] = ..., sheet_ids: _Optional[_Iterable[str]] = ..., row_limit: _Optional[int] = ..., tables: _Optional[_Mapping[str, str]] = ..., columns: _Optional[_Mapping[str, TableColumns]] = ...) -> None: ...

class TableColumns(_message.Message):
    __slots__ = ("columns",)
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    def __init__(self, columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ...) -> None: ...

class RunSqlResponse(_message.Message):
    __slots__ = ("sheet",)
    SHEET_FIELD_NUMBER: _ClassVar[int]
    sheet: Sheet
    def __init__(self, sheet: _Optional[_Union[Sheet, _Mapping]] = ...) -> None: ...

class ExportTableRequest(_message.Message):
    __slots__ = ("sheet_id", "format", "negatives")
    SHEET_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NEGATIVES_FIELD_NUMBER: _ClassVar[int]
    sheet_id: str
    format: ExportFormat
    negatives: NegativeStyle
    def __init__(self, sheet_id: _Optional[str] = ..., format: _Optional[_Union[ExportFormat, str]] = ..., negatives: _Optional[_Union[NegativeStyle, str]] = ...) -> None: ...

class ExportTableResponse(_message.Message):
    __slots__ = ("file",)
    FILE_FIELD_NUMBER: _ClassVar[int]
    file: _common_pb2.ObjectRef
    def __init__(self, file: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class ImportTableRequest(_message.Message):
    __slots__ = ("request_id", "title", "data", "worksheet", "lifetime_s", "further_worksheets")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    WORKSHEET_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    FURTHER_WORKSHEETS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    title: str
    data: _common_pb2.ObjectRef
    worksheet: str
    lifetime_s: int
    further_worksheets: int
    def __init__(self, request_id: _Optional[str] = ..., title: _Optional[str] = ..., data: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ..., worksheet: _Optional[str] = ..., lifetime_s: _Optional[int] = ..., further_worksheets: _Optional[int] = ...) -> None: ...

class ImportIssue(_message.Message):
    __slots__ = ("row", "column", "message")
    ROW_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    row: int
    column: str
    message: str
    def __init__(self, row: _Optional[int] = ..., column: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ImportTableResponse(_message.Message):
    __slots__ = ("sheet", "issues", "worksheets", "further")
    SHEET_FIELD_NUMBER: _ClassVar[int]
    ISSUES_FIELD_NUMBER: _ClassVar[int]
    WORKSHEETS_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    sheet: Sheet
    issues: _containers.RepeatedCompositeFieldContainer[ImportIssue]
    worksheets: _containers.RepeatedScalarFieldContainer[str]
    further: _containers.RepeatedCompositeFieldContainer[ImportedWorksheet]
    def __init__(self, sheet: _Optional[_Union[Sheet, _Mapping]] = ..., issues: _Optional[_Iterable[_Union[ImportIssue, _Mapping]]] = ..., worksheets: _Optional[_Iterable[str]] = ..., further: _Optional[_Iterable[_Union[ImportedWorksheet, _Mapping]]] = ...) -> None: ...

class ImportedWorksheet(_message.Message):
    __slots__ = ("worksheet", "sheet", "issues", "reason")
    WORKSHEET_FIELD_NUMBER: _ClassVar[int]
    SHEET_FIELD_NUMBER: _ClassVar[int]
    ISSUES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    worksheet: str
    sheet: Sheet
    issues: _containers.RepeatedCompositeFieldContainer[ImportIssue]
    reason: str
    def __init__(self, worksheet: _Optional[str] = ..., sheet: _Optional[_Union[Sheet, _Mapping]] = ..., issues: _Optional[_Iterable[_Union[ImportIssue, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class ColumnMeaning(_message.Message):
    __slots__ = ("column", "role", "names", "unit", "aggregation", "year", "indicator", "period")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    YEAR_FIELD_NUMBER: _ClassVar[int]
    INDICATOR_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    column: str
    role: ColumnRole
    names: _containers.RepeatedScalarFieldContainer[str]
    unit: str
    aggregation: Aggregation
    year: int
    indicator: str
    period: str
    def __init__(self, column: _Optional[str] = ..., role: _Optional[_Union[ColumnRole, str]] = ..., names: _Optional[_Iterable[str]] = ..., unit: _Optional[str] = ..., aggregation: _Optional[_Union[Aggregation, str]] = ..., year: _Optional[int] = ..., indicator: _Optional[str] = ..., period: _Optional[str] = ...) -> None: ...

class TableMeaning(_message.Message):
    __slots__ = ("columns",)
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[ColumnMeaning]
    def __init__(self, columns: _Optional[_Iterable[_Union[ColumnMeaning, _Mapping]]] = ...) -> None: ...

class ProposeMeaningRequest(_message.Message):
    __slots__ = ("sheet_id",)
    SHEET_ID_FIELD_NUMBER: _ClassVar[int]
    sheet_id: str
    def __init__(self, sheet_id: _Optional[str] = ...) -> None: ...

class ProposeMeaningResponse(_message.Message):
    __slots__ = ("meaning", "adds", "has_encoder")
    MEANING_FIELD_NUMBER: _ClassVar[int]
    ADDS_FIELD_NUMBER: _ClassVar[int]
    HAS_ENCODER_FIELD_NUMBER: _ClassVar[int]
    meaning: TableMeaning
    adds: bool
    has_encoder: bool
    def __init__(self, meaning: _Optional[_Union[TableMeaning, _Mapping]] = ..., adds: bool = ..., has_encoder: bool = ...) -> None: ...

class ApplyMeaningRequest(_message.Message):
    __slots__ = ("request_id", "sheet_id", "meaning", "lifetime_s")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SHEET_ID_FIELD_NUMBER: _ClassVar[int]
    MEANING_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_S_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    sheet_id: str
    meaning: TableMeaning
    lifetime_s: int
    def __init__(self, request_id: _Optional[str] = ..., sheet_id: _Optional[str] = ..., meaning: _Optional[_Union[TableMeaning, _Mapping]] = ..., lifetime_s: _Optional[int] = ...) -> None: ...

class ApplyMeaningResponse(_message.Message):
    __slots__ = ("sheet", "issues")
    SHEET_FIELD_NUMBER: _ClassVar[int]
    ISSUES_FIELD_NUMBER: _ClassVar[int]
    sheet: Sheet
    issues: _containers.RepeatedCompositeFieldContainer[ImportIssue]
    def __init__(self, sheet: _Optional[_Union[Sheet, _Mapping]] = ..., issues: _Optional[_Iterable[_Union[ImportIssue, _Mapping]]] = ...) -> None: ...

class ResolveEntitiesRequest(_message.Message):
    __slots__ = ("mentions", "beginnings")
    MENTIONS_FIELD_NUMBER: _ClassVar[int]
    BEGINNINGS_FIELD_NUMBER: _ClassVar[int]
    mentions: _containers.RepeatedScalarFieldContainer[str]
    beginnings: bool
    def __init__(self, mentions: _Optional[_Iterable[str]] = ..., beginnings: bool = ...) -> None: ...

class Entity(_message.Message):
    __slots__ = ("id", "name", "name_zh", "kind", "aliases")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_ZH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    name_zh: str
    kind: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., name_zh: _Optional[str] = ..., kind: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ...) -> None: ...

class EntityMatches(_message.Message):
    __slots__ = ("entities", "exact", "scores", "how", "ambiguous")
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    AMBIGUOUS_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedCompositeFieldContainer[Entity]
    exact: bool
    scores: _containers.RepeatedScalarFieldContainer[float]
    how: str
    ambiguous: bool
    def __init__(self, entities: _Optional[_Iterable[_Union[Entity, _Mapping]]] = ..., exact: bool = ..., scores: _Optional[_Iterable[float]] = ..., how: _Optional[str] = ..., ambiguous: bool = ...) -> None: ...

class ResolveEntitiesResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EntityMatches]
    def __init__(self, results: _Optional[_Iterable[_Union[EntityMatches, _Mapping]]] = ...) -> None: ...

class MatchIndicatorsRequest(_message.Message):
    __slots__ = ("mentions",)
    MENTIONS_FIELD_NUMBER: _ClassVar[int]
    mentions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, mentions: _Optional[_Iterable[str]] = ...) -> None: ...

class Indicator(_message.Message):
    __slots__ = ("id", "name", "name_zh", "unit", "frequency", "formula", "synonyms")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_ZH_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    SYNONYMS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    name_zh: str
    unit: str
    frequency: Frequency
    formula: str
    synonyms: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., name_zh: _Optional[str] = ..., unit: _Optional[str] = ..., frequency: _Optional[_Union[Frequency, str]] = ..., formula: _Optional[str] = ..., synonyms: _Optional[_Iterable[str]] = ...) -> None: ...

class IndicatorMatches(_message.Message):
    __slots__ = ("indicators", "exact", "scores", "surfaces")
    INDICATORS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    SURFACES_FIELD_NUMBER: _ClassVar[int]
    indicators: _containers.RepeatedCompositeFieldContainer[Indicator]
    exact: bool
    scores: _containers.RepeatedScalarFieldContainer[float]
    surfaces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, indicators: _Optional[_Iterable[_Union[Indicator, _Mapping]]] = ..., exact: bool = ..., scores: _Optional[_Iterable[float]] = ..., surfaces: _Optional[_Iterable[str]] = ...) -> None: ...

class MatchIndicatorsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[IndicatorMatches]
    def __init__(self, results: _Optional[_Iterable[_Union[IndicatorMatches, _Mapping]]] = ...) -> None: ...

class ListConnectorsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Connector(_message.Message):
    __slots__ = ("name", "is_database", "is_enabled", "offers", "credential", "setting", "is_paused", "contact")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_DATABASE_FIELD_NUMBER: _ClassVar[int]
    IS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    SETTING_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    CONTACT_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_database: bool
    is_enabled: bool
    offers: _containers.RepeatedCompositeFieldContainer[ConnectorOffer]
    credential: _common_pb2.Credential
    setting: str
    is_paused: bool
    contact: _common_pb2.Contact
    def __init__(self, name: _Optional[str] = ..., is_database: bool = ..., is_enabled: bool = ..., offers: _Optional[_Iterable[_Union[ConnectorOffer, _Mapping]]] = ..., credential: _Optional[_Union[_common_pb2.Credential, str]] = ..., setting: _Optional[str] = ..., is_paused: bool = ..., contact: _Optional[_Union[_common_pb2.Contact, _Mapping]] = ...) -> None: ...

class ConnectorOffer(_message.Message):
    __slots__ = ("kind", "markets")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MARKETS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    markets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., markets: _Optional[_Iterable[str]] = ...) -> None: ...

class ListConnectorsResponse(_message.Message):
    __slots__ = ("connectors",)
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    connectors: _containers.RepeatedCompositeFieldContainer[Connector]
    def __init__(self, connectors: _Optional[_Iterable[_Union[Connector, _Mapping]]] = ...) -> None: ...

class ProbeConnectorRequest(_message.Message):
    __slots__ = ("name", "is_database")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_DATABASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_database: bool
    def __init__(self, name: _Optional[str] = ..., is_database: bool = ...) -> None: ...

class ProbeConnectorResponse(_message.Message):
    __slots__ = ("is_answering", "failure", "duration_ms")
    IS_ANSWERING_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    is_answering: bool
    failure: str
    duration_ms: int
    def __init__(self, is_answering: bool = ..., failure: _Optional[str] = ..., duration_ms: _Optional[int] = ...) -> None: ...

class ListSourcesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("id", "package", "version", "licence", "sha256", "as_of", "description", "failure")
    ID_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LICENCE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    id: str
    package: str
    version: str
    licence: str
    sha256: str
    as_of: str
    description: str
    failure: str
    def __init__(self, id: _Optional[str] = ..., package: _Optional[str] = ..., version: _Optional[str] = ..., licence: _Optional[str] = ..., sha256: _Optional[str] = ..., as_of: _Optional[str] = ..., description: _Optional[str] = ..., failure: _Optional[str] = ...) -> None: ...

class ListSourcesResponse(_message.Message):
    __slots__ = ("sources", "next_page_token")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    next_page_token: str
    def __init__(self, sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListFrameworksRequest(_message.Message):
    __slots__ = ("question", "topics", "level", "limit")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    question: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    level: int
    limit: int
    def __init__(self, question: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., level: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class FrameworkNode(_message.Message):
    __slots__ = ("path", "name", "name_zh", "indicators", "hint", "tool")
    PATH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_ZH_FIELD_NUMBER: _ClassVar[int]
    INDICATORS_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedScalarFieldContainer[str]
    name: str
    name_zh: str
    indicators: _containers.RepeatedScalarFieldContainer[str]
    hint: str
    tool: FrameworkTool
    def __init__(self, path: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., name_zh: _Optional[str] = ..., indicators: _Optional[_Iterable[str]] = ..., hint: _Optional[str] = ..., tool: _Optional[_Union[FrameworkTool, str]] = ...) -> None: ...

class Framework(_message.Message):
    __slots__ = ("topic", "name", "name_zh", "about", "score", "nodes")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_ZH_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    name_zh: str
    about: str
    score: float
    nodes: _containers.RepeatedCompositeFieldContainer[FrameworkNode]
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., name_zh: _Optional[str] = ..., about: _Optional[str] = ..., score: _Optional[float] = ..., nodes: _Optional[_Iterable[_Union[FrameworkNode, _Mapping]]] = ...) -> None: ...

class ListFrameworksResponse(_message.Message):
    __slots__ = ("frameworks",)
    FRAMEWORKS_FIELD_NUMBER: _ClassVar[int]
    frameworks: _containers.RepeatedCompositeFieldContainer[Framework]
    def __init__(self, frameworks: _Optional[_Iterable[_Union[Framework, _Mapping]]] = ...) -> None: ...

class GetFrameworkFileRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class GetFrameworkFileResponse(_message.Message):
    __slots__ = ("topic", "name", "text", "is_bundled")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IS_BUNDLED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    name: str
    text: str
    is_bundled: bool
    def __init__(self, topic: _Optional[str] = ..., name: _Optional[str] = ..., text: _Optional[str] = ..., is_bundled: bool = ...) -> None: ...

class CheckFrameworkRequest(_message.Message):
    __slots__ = ("text", "replaces")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    text: str
    replaces: str
    def __init__(self, text: _Optional[str] = ..., replaces: _Optional[str] = ...) -> None: ...

class FrameworkProblem(_message.Message):
    __slots__ = ("place", "field", "message", "line")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    place: str
    field: str
    message: str
    line: int
    def __init__(self, place: _Optional[str] = ..., field: _Optional[str] = ..., message: _Optional[str] = ..., line: _Optional[int] = ...) -> None: ...

class CheckFrameworkResponse(_message.Message):
    __slots__ = ("is_valid", "problems", "framework", "name")
    IS_VALID_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    is_valid: bool
    problems: _containers.RepeatedCompositeFieldContainer[FrameworkProblem]
    framework: Framework
    name: str
    def __init__(self, is_valid: bool = ..., problems: _Optional[_Iterable[_Union[FrameworkProblem, _Mapping]]] = ..., framework: _Optional[_Union[Framework, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class Mention(_message.Message):
    __slots__ = ("kind", "start", "end", "text", "value", "confidence")
    KIND_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    kind: MentionKind
    start: int
    end: int
    text: str
    value: str
    confidence: float
    def __init__(self, kind: _Optional[_Union[MentionKind, str]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., text: _Optional[str] = ..., value: _Optional[str] = ..., confidence: _Optional[float] = ...) -> None: ...

class ReadQuestionRequest(_message.Message):
    __slots__ = ("question", "as_of", "earlier", "with_program", "sheet_ids", "program")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    WITH_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    SHEET_IDS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    question: str
    as_of: _timestamp_pb2.Timestamp
    earlier: _containers.RepeatedScalarFieldContainer[str]
    with_program: bool
    sheet_ids: _containers.RepeatedScalarFieldContainer[str]
    program: str
    def __init__(self, question: _Optional[str] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., earlier: _Optional[_Iterable[str]] = ..., with_program: bool = ..., sheet_ids: _Optional[_Iterable[str]] = ..., program: _Optional[str] = ...) -> None: ...

class ReadQuestionResponse(_message.Message):
    __slots__ = ("understood", "mentions", "program")
    UNDERSTOOD_FIELD_NUMBER: _ClassVar[int]
    MENTIONS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    understood: TypedQuery
    mentions: _containers.RepeatedCompositeFieldContainer[Mention]
    program: Program
    def __init__(self, understood: _Optional[_Union[TypedQuery, _Mapping]] = ..., mentions: _Optional[_Iterable[_Union[Mention, _Mapping]]] = ..., program: _Optional[_Union[Program, _Mapping]] = ...) -> None: ...

class Program(_message.Message):
    __slots__ = ("text", "kind", "confidence", "link_confidence", "steps", "series", "missing", "words", "assumptions", "labels", "unused")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    LINK_CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    ASSUMPTIONS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    text: str
    kind: str
    confidence: float
    link_confidence: float
    steps: _containers.RepeatedScalarFieldContainer[str]
    series: _containers.RepeatedCompositeFieldContainer[ProgramSeries]
    missing: _containers.RepeatedCompositeFieldContainer[ProgramGap]
    words: _containers.RepeatedScalarFieldContainer[str]
    assumptions: _containers.RepeatedCompositeFieldContainer[ProgramAssumption]
    labels: _containers.RepeatedCompositeFieldContainer[ProgramLabel]
    unused: _containers.RepeatedCompositeFieldContainer[ProgramGap]
    def __init__(self, text: _Optional[str] = ..., kind: _Optional[str] = ..., confidence: _Optional[float] = ..., link_confidence: _Optional[float] = ..., steps: _Optional[_Iterable[str]] = ..., series: _Optional[_Iterable[_Union[ProgramSeries, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[ProgramGap, _Mapping]]] = ..., words: _Optional[_Iterable[str]] = ..., assumptions: _Optional[_Iterable[_Union[ProgramAssumption, _Mapping]]] = ..., labels: _Optional[_Iterable[_Union[ProgramLabel, _Mapping]]] = ..., unused: _Optional[_Iterable[_Union[ProgramGap, _Mapping]]] = ...) -> None: ...

class ProgramLabel(_message.Message):
    __slots__ = ("english", "chinese")
    ENGLISH_FIELD_NUMBER: _ClassVar[int]
    CHINESE_FIELD_NUMBER: _ClassVar[int]
    english: str
    chinese: str
    def __init__(self, english: _Optional[str] = ..., chinese: _Optional[str] = ...) -> None: ...

class ProgramAssumption(_message.Message):
    __slots__ = ("words", "columns")
    WORDS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    words: str
    columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, words: _Optional[str] = ..., columns: _Optional[_Iterable[str]] = ...) -> None: ...

class ProgramSeries(_message.Message):
    __slots__ = ("name", "entity", "indicator", "words", "sheet_id", "column", "is_rows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    INDICATOR_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    SHEET_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    IS_ROWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    entity: str
    indicator: str
    words: str
    sheet_id: str
    column: str
    is_rows: bool
    def __init__(self, name: _Optional[str] = ..., entity: _Optional[str] = ..., indicator: _Optional[str] = ..., words: _Optional[str] = ..., sheet_id: _Optional[str] = ..., column: _Optional[str] = ..., is_rows: bool = ...) -> None: ...

class ProgramGap(_message.Message):
    __slots__ = ("words", "reason", "detail")
    WORDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    words: str
    reason: str
    detail: str
    def __init__(self, words: _Optional[str] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class SearchCatalogRequest(_message.Message):
    __slots__ = ("query", "kind", "page_size", "page_token", "as_of")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    query: str
    kind: str
    page_size: int
    page_token: str
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, query: _Optional[str] = ..., kind: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CatalogSeries(_message.Message):
    __slots__ = ("entities", "entity_count", "kind", "entity_name", "entity_name_zh", "indicator", "name", "name_zh", "unit", "frequency", "first_date", "last_date", "source", "basis", "formula", "aggregate", "score")
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    ENTITY_COUNT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENTITY_NAME_FIELD_NUMBER: _ClassVar[int]
    ENTITY_NAME_ZH_FIELD_NUMBER: _ClassVar[int]
    INDICATOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_ZH_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_FIELD_NUMBER: _ClassVar[int]
    FIRST_DATE_FIELD_NUMBER: _ClassVar[int]
    LAST_DATE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedScalarFieldContainer[str]
    entity_count: int
    kind: str
    entity_name: str
    entity_name_zh: str
    indicator: str
    name: str
    name_zh: str
    unit: str
    frequency: Frequency
    first_date: str
    last_date: str
    source: str
    basis: str
    formula: str
    aggregate: str
    score: float
    def __init__(self, entities: _Optional[_Iterable[str]] = ..., entity_count: _Optional[int] = ..., kind: _Optional[str] = ..., entity_name: _Optional[str] = ..., entity_name_zh: _Optional[str] = ..., indicator: _Optional[str] = ..., name: _Optional[str] = ..., name_zh: _Optional[str] = ..., unit: _Optional[str] = ..., frequency: _Optional[_Union[Frequency, str]] = ..., first_date: _Optional[str] = ..., last_date: _Optional[str] = ..., source: _Optional[str] = ..., basis: _Optional[str] = ..., formula: _Optional[str] = ..., aggregate: _Optional[str] = ..., score: _Optional[float] = ...) -> None: ...

class CatalogKind(_message.Message):
    __slots__ = ("kind", "entity_count", "entities", "indicator_count", "indicators", "frequencies", "first_date", "last_date", "bases", "usual_last_date", "earliest_last_date")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENTITY_COUNT_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    INDICATOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    INDICATORS_FIELD_NUMBER: _ClassVar[int]
    FREQUENCIES_FIELD_NUMBER: _ClassVar[int]
    FIRST_DATE_FIELD_NUMBER: _ClassVar[int]
    LAST_DATE_FIELD_NUMBER: _ClassVar[int]
    BASES_FIELD_NUMBER: _ClassVar[int]
    USUAL_LAST_DATE_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_LAST_DATE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    entity_count: int
    entities: _containers.RepeatedScalarFieldContainer[str]
    indicator_count: int
    indicators: _containers.RepeatedScalarFieldContainer[str]
    frequencies: _containers.RepeatedScalarFieldContainer[Frequency]
    first_date: str
    last_date: str
    bases: _containers.RepeatedScalarFieldContainer[str]
    usual_last_date: str
    earliest_last_date: str
    def __init__(self, kind: _Optional[str] = ..., entity_count: _Optional[int] = ..., entities: _Optional[_Iterable[str]] = ..., indicator_count: _Optional[int] = ..., indicators: _Optional[_Iterable[str]] = ..., frequencies: _Optional[_Iterable[_Union[Frequency, str]]] = ..., first_date: _Optional[str] = ..., last_date: _Optional[str] = ..., bases: _Optional[_Iterable[str]] = ..., usual_last_date: _Optional[str] = ..., earliest_last_date: _Optional[str] = ...) -> None: ...

class SearchCatalogResponse(_message.Message):
    __slots__ = ("series", "total", "next_page_token", "unmatched", "kinds", "snapshot", "has_meaning", "vendors")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNMATCHED_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    HAS_MEANING_FIELD_NUMBER: _ClassVar[int]
    VENDORS_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[CatalogSeries]
    total: int
    next_page_token: str
    unmatched: _containers.RepeatedScalarFieldContainer[str]
    kinds: _containers.RepeatedCompositeFieldContainer[CatalogKind]
    snapshot: str
    has_meaning: bool
    vendors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, series: _Optional[_Iterable[_Union[CatalogSeries, _Mapping]]] = ..., total: _Optional[int] = ..., next_page_token: _Optional[str] = ..., unmatched: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[_Union[CatalogKind, _Mapping]]] = ..., snapshot: _Optional[str] = ..., has_meaning: bool = ..., vendors: _Optional[_Iterable[str]] = ...) -> None: ...

class EncodeTextsRequest(_message.Message):
    __slots__ = ("texts", "with_names")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    WITH_NAMES_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    with_names: bool
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., with_names: bool = ...) -> None: ...

class TextNames(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class EncodeTextsResponse(_message.Message):
    __slots__ = ("encoder", "dim", "vectors", "names")
    ENCODER_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    encoder: str
    dim: int
    vectors: bytes
    names: _containers.RepeatedCompositeFieldContainer[TextNames]
    def __init__(self, encoder: _Optional[str] = ..., dim: _Optional[int] = ..., vectors: _Optional[bytes] = ..., names: _Optional[_Iterable[_Union[TextNames, _Mapping]]] = ...) -> None: ...
