"""JSON schemas of protobuf messages in their JSON form, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
BYTES: Schema = {"type": "string", "format": "binary"}
FILE_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": BYTES}}}}
"""OpenAPI description of a request whose body is a file."""
SCALARS: dict[int, Schema] = {
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer"},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer"},
    # protobuf's JSON form writes 64-bit integers as strings: JavaScript's numbers hold 53 bits.
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_UINT64: {"type": "string", "format": "uint64"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number"},
}
WELL_KNOWN: dict[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string"},
    "google.rpc.Status": {"type": "object"},
}


def describe_files(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI response of a route that answers with a file of one of some media types."""
    schemas = {kind: {"type": "object"} if kind.endswith("json") else BYTES for kind in media_types}
    return {200: {"description": "The file", "content": {kind: {"schema": schemas[kind]} for kind in media_types}}}


def describe_events(data: Schema) -> Schema:
    """Return the schema of one server-sent event of a stream, whose line ``data`` has a schema."""
    names = ("event", "id")
    return {"type": "object", "required": ["data"], "properties": {"data": data, **dict.fromkeys(names, STRING)}}


def describe_json_text(schema: Schema) -> Schema:
    """Return the schema of a text that is the JSON form of something."""
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}


def reference(message: type[Message]) -> Schema:
    """Return a reference to the message's schema among the components."""
    return reference_to(message.DESCRIPTOR.full_name)


def describe_response(message: type[Message]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI response of a route that answers with a protobuf message's JSON form."""
    return {200: {"description": "OK", "content": {"application/json": {"schema": reference(message)}}}}


def reference_to(full_name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{full_name}"}


def add_message(message: type[Message], components: dict[str, Schema]) -> None:
    """Add the message's schema and those of all messages it contains."""
    add_descriptor(message.DESCRIPTOR, components)


def add_descriptor(descriptor: Any, components: dict[str, Schema]) -> None:
    if descriptor.full_name in components or descriptor.full_name in WELL_KNOWN:
        return
    properties: dict[str, Schema] = {}
    # Registered before its fields are read, since messages may contain themselves.
    schema: Schema = {"type": "object", "properties": properties}
    components[descriptor.full_name] = schema
    for field in descriptor.fields:
        properties[field.name] = field_schema(field, components)
    # The JSON form leaves out only what has a presence of its own: an empty list or a zero is printed.
    if always := sorted(field.name for field in descriptor.fields if not field.has_presence):
        schema["required"] = always


def field_schema(field: FieldDescriptor, components: dict[str, Schema]) -> Schema:
    """Return the schema of one field; maps are objects, repeated fields arrays."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return {
            "type": "object",
            "additionalProperties": field_schema(message.fields_by_name["value"], components),
        }
    single = value_schema(field, components)
    return {"type": "array", "items": single} if field.is_repeated else single


def value_schema(field: FieldDescriptor, components: dict[str, Schema]) -> Schema:
    """Return the schema of one value of a field."""
    if field.message_type is not None:
        add_descriptor(field.message_type, components)
        known = WELL_KNOWN.get(field.message_type.full_name)
        return known if known is not None else reference_to(field.message_type.full_name)
    if field.enum_type is not None:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    if field.type == FieldDescriptor.TYPE_BYTES:
        return {"type": "string", "format": "byte"}
    return SCALARS[field.cpp_type]
