from fathom.api.common.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IsolationLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ISOLATION_LEVEL_UNSPECIFIED: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_NONE: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_LANDLOCK: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_NAMESPACE: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_GUEST_KERNEL: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_VM: _ClassVar[IsolationLevel]

class ExecuteStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTE_STATUS_UNSPECIFIED: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_OK: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_ERROR: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_TIMEOUT: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_OOM: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_OUTPUT_LIMIT: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_KILLED: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_INTERRUPTED: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_INFRA_ERROR: _ClassVar[ExecuteStatus]
    EXECUTE_STATUS_DISK_LIMIT: _ClassVar[ExecuteStatus]

class OutputStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_STREAM_UNSPECIFIED: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDOUT: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDERR: _ClassVar[OutputStream]
ISOLATION_LEVEL_UNSPECIFIED: IsolationLevel
ISOLATION_LEVEL_NONE: IsolationLevel
ISOLATION_LEVEL_LANDLOCK: IsolationLevel
ISOLATION_LEVEL_NAMESPACE: IsolationLevel
ISOLATION_LEVEL_GUEST_KERNEL: IsolationLevel
ISOLATION_LEVEL_VM: IsolationLevel
EXECUTE_STATUS_UNSPECIFIED: ExecuteStatus
EXECUTE_STATUS_OK: ExecuteStatus
EXECUTE_STATUS_ERROR: ExecuteStatus
EXECUTE_STATUS_TIMEOUT: ExecuteStatus
EXECUTE_STATUS_OOM: ExecuteStatus
EXECUTE_STATUS_OUTPUT_LIMIT: ExecuteStatus
EXECUTE_STATUS_KILLED: ExecuteStatus
EXECUTE_STATUS_INTERRUPTED: ExecuteStatus
EXECUTE_STATUS_INFRA_ERROR: ExecuteStatus
EXECUTE_STATUS_DISK_LIMIT: ExecuteStatus
OUTPUT_STREAM_UNSPECIFIED: OutputStream
OUTPUT_STREAM_STDOUT: OutputStream
OUTPUT_STREAM_STDERR: OutputStream

class Limits(_message.Message):
    __slots__ = ("cell_wall_ms", "cpu_ms", "memory_bytes", "output_bytes", "cells")
    CELL_WALL_MS_FIELD_NUMBER: _ClassVar[int]
    CPU_MS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    cell_wall_ms: int
    cpu_ms: int
    memory_bytes: int
    output_bytes: int
    cells: int
    def __init__(self, cell_wall_ms: _Optional[int] = ..., cpu_ms: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., output_bytes: _Optional[int] = ..., cells: _Optional[int] = ...) -> None: ...

class CreateSessionRequest(_message.Message):
    __slots__ = ("request_id", "limits", "run_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    limits: Limits
    run_id: str
    def __init__(self, request_id: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., run_id: _Optional[str] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session_id", "isolation")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    isolation: IsolationLevel
    def __init__(self, session_id: _Optional[str] = ..., isolation: _Optional[_Union[IsolationLevel, str]] = ...) -> None: ...

class PutFrameRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "name", "arrow", "ref", "description", "lazy", "columns", "run_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LAZY_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    name: str
    arrow: bytes
    ref: _common_pb2.ObjectRef
    description: str
    lazy: bool
    columns: _containers.RepeatedCompositeFieldContainer[ColumnFacts]
    run_id: str
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., name: _Optional[str] = ..., arrow: _Optional[bytes] = ..., ref: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ..., description: _Optional[str] = ..., lazy: bool = ..., columns: _Optional[_Iterable[_Union[ColumnFacts, _Mapping]]] = ..., run_id: _Optional[str] = ...) -> None: ...

class ColumnFacts(_message.Message):
    __slots__ = ("name", "unit", "indicator")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    INDICATOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    unit: str
    indicator: str
    def __init__(self, name: _Optional[str] = ..., unit: _Optional[str] = ..., indicator: _Optional[str] = ...) -> None: ...

class PutFrameResponse(_message.Message):
    __slots__ = ("digest", "rows")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    rows: int
    def __init__(self, digest: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "code", "wall_ms", "run_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    code: str
    wall_ms: int
    run_id: str
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., code: _Optional[str] = ..., wall_ms: _Optional[int] = ..., run_id: _Optional[str] = ...) -> None: ...

class OutputChunk(_message.Message):
    __slots__ = ("stream", "text")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    stream: OutputStream
    text: str
    def __init__(self, stream: _Optional[_Union[OutputStream, str]] = ..., text: _Optional[str] = ...) -> None: ...

class Display(_message.Message):
    __slots__ = ("media_type", "data", "ref")
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    media_type: str
    data: bytes
    ref: _common_pb2.ObjectRef
    def __init__(self, media_type: _Optional[str] = ..., data: _Optional[bytes] = ..., ref: _Optional[_Union[_common_pb2.ObjectRef, _Mapping]] = ...) -> None: ...

class Variable(_message.Message):
    __slots__ = ("name", "type", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    shape: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., shape: _Optional[str] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("status", "result", "traceback", "error_name", "error_value", "changed", "duration_ms", "peak_memory_bytes", "dropped_output_bytes", "cell", "session_lost", "cause", "record_id")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    ERROR_NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_VALUE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    SESSION_LOST_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    RECORD_ID_FIELD_NUMBER: _ClassVar[int]
    status: ExecuteStatus
    result: str
    traceback: str
    error_name: str
    error_value: str
    changed: _containers.RepeatedCompositeFieldContainer[Variable]
    duration_ms: int
    peak_memory_bytes: int
    dropped_output_bytes: int
    cell: int
    session_lost: bool
    cause: str
    record_id: str
    def __init__(self, status: _Optional[_Union[ExecuteStatus, str]] = ..., result: _Optional[str] = ..., traceback: _Optional[str] = ..., error_name: _Optional[str] = ..., error_value: _Optional[str] = ..., changed: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ..., duration_ms: _Optional[int] = ..., peak_memory_bytes: _Optional[int] = ..., dropped_output_bytes: _Optional[int] = ..., cell: _Optional[int] = ..., session_lost: bool = ..., cause: _Optional[str] = ..., record_id: _Optional[str] = ...) -> None: ...

class KeepAlive(_message.Message):
    __slots__ = ("elapsed_ms",)
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    elapsed_ms: int
    def __init__(self, elapsed_ms: _Optional[int] = ...) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("sequence", "output", "display", "outcome", "keep_alive")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    KEEP_ALIVE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    output: OutputChunk
    display: Display
    outcome: Outcome
    keep_alive: KeepAlive
    def __init__(self, sequence: _Optional[int] = ..., output: _Optional[_Union[OutputChunk, _Mapping]] = ..., display: _Optional[_Union[Display, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., keep_alive: _Optional[_Union[KeepAlive, _Mapping]] = ...) -> None: ...

class ListVariablesRequest(_message.Message):
    __slots__ = ("session_id", "run_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class ListVariablesResponse(_message.Message):
    __slots__ = ("variables",)
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    variables: _containers.RepeatedCompositeFieldContainer[Variable]
    def __init__(self, variables: _Optional[_Iterable[_Union[Variable, _Mapping]]] = ...) -> None: ...

class InterruptRequest(_message.Message):
    __slots__ = ("session_id", "run_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class InterruptResponse(_message.Message):
    __slots__ = ("interrupted",)
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    interrupted: bool
    def __init__(self, interrupted: bool = ...) -> None: ...

class RestartRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "run_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    run_id: str
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class RestartResponse(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, frames: _Optional[_Iterable[str]] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id", "run_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PutFileRequest(_message.Message):
    __slots__ = ("request_id", "session_id", "path", "content", "run_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    session_id: str
    path: str
    content: bytes
    run_id: str
    def __init__(self, request_id: _Optional[str] = ..., session_id: _Optional[str] = ..., path: _Optional[str] = ..., content: _Optional[bytes] = ..., run_id: _Optional[str] = ...) -> None: ...

class PutFileResponse(_message.Message):
    __slots__ = ("size_bytes",)
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    def __init__(self, size_bytes: _Optional[int] = ...) -> None: ...

class GetFileRequest(_message.Message):
    __slots__ = ("session_id", "path", "run_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    path: str
    run_id: str
    def __init__(self, session_id: _Optional[str] = ..., path: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class GetFileResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    def __init__(self, chunk: _Optional[bytes] = ...) -> None: ...

class ListFilesRequest(_message.Message):
    __slots__ = ("session_id", "run_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class FileEntry(_message.Message):
    __slots__ = ("path", "size_bytes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    size_bytes: int
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class ListFilesResponse(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[FileEntry]
    def __init__(self, files: _Optional[_Iterable[_Union[FileEntry, _Mapping]]] = ...) -> None: ...

class GetIsolationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetIsolationResponse(_message.Message):
    __slots__ = ("level", "layers", "missing")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    level: IsolationLevel
    layers: _containers.RepeatedScalarFieldContainer[str]
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, level: _Optional[_Union[IsolationLevel, str]] = ..., layers: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...
