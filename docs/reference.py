"""Write the API reference as Markdown: ``python docs/reference.py FOLDER``.

One page per proto file, from its comments, and one of the Python clients, from docstrings and signatures. `make docs`
runs it before each build; what it writes is not committed.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

import fathom.clients
from fathom.clients import connect, runs, services
from fathom.clients.client import Client

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "fathom.api."
# Numbers of fields in descriptor.proto, by which a comment names its place.
MESSAGES, ENUMS, SERVICES = 4, 5, 6
FIELDS, NESTED, NESTED_ENUMS, VALUES, METHODS = 2, 3, 4, 2, 2
SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}
CLIENTS_PAGE = "clients.md"


def main(target: Path) -> None:
    """Write every page below ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    pages = {page_name(file): "".join(service_page(file)) for file in read_protos()}
    for name, text in {**pages, CLIENTS_PAGE: clients_page()}.items():
        (target / name).write_text(text)


def page_names() -> list[str]:
    """Return the names of all pages without making them: one per proto file, and the clients'."""
    folder = ROOT / "protos" / "fathom" / "api"
    return [*sorted(path.stem + ".md" for path in folder.rglob("*.proto")), CLIENTS_PAGE]


def page_name(file: FileDescriptorProto) -> str:
    """Return the name of a proto file's page."""
    return Path(file.name).stem + ".md"


def read_protos() -> list[FileDescriptorProto]:
    """Return our proto files with their comments, sorted by name; raise ``CalledProcessError`` for a broken one."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.binpb"
        code = f"import contract, pathlib; contract.image(contract.PROTOS, pathlib.Path({str(image)!r}))"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "protos")
        files = FileDescriptorSet.FromString(image.read_bytes()).file
    return sorted((file for file in files if file.package.startswith(PACKAGE)), key=lambda file: file.name)


def service_page(file: FileDescriptorProto) -> Iterator[str]:
    """Yield the Markdown of one proto file: services, messages, enums, each with its comment."""
    comments = {tuple(place.path): place.leading_comments.strip() for place in file.source_code_info.location}
    yield f"# {file.package}\n\n`protos/{file.name}`\n\n{text_of(comments, (2,))}\n"
    for i, service in enumerate(file.service):
        yield f"\n## {service.name}\n\n{text_of(comments, (SERVICES, i))}\n\n"
        yield "| RPC | request | response | |\n|---|---|---|---|\n"
        for j, method in enumerate(service.method):
            request = ("stream " if method.client_streaming else "") + short(method.input_type)
            response = ("stream " if method.server_streaming else "") + short(method.output_type)
            note = cell(comments.get((SERVICES, i, METHODS, j), ""))
            yield f"| `{method.name}` | `{request}` | `{response}` | {note} |\n"
    if file.message_type:
        yield "\n## Messages\n"
    for i, message in enumerate(file.message_type):
        yield from message_text(message, (MESSAGES, i), comments, "")
    if file.enum_type:
        yield "\n## Enums\n"
    for i, enum in enumerate(file.enum_type):
        yield from enum_text(enum, (ENUMS, i), comments, "")


Comments = Mapping[tuple[int, ...], str]


def message_text(message: DescriptorProto, path: tuple[int, ...], comments: Comments, prefix: str) -> Iterator[str]:
    """Yield a message and those nested in it; entries of maps are shown at their field."""
    name = prefix + message.name
    yield f"\n### {name}\n\n{text_of(comments, path)}\n"
    if message.field:
        yield "\n| field | type | |\n|---|---|---|\n"
    for i, field in enumerate(message.field):
        yield f"| `{field.name}` | `{type_of(field, message)}` | {cell(comments.get((*path, FIELDS, i), ''))} |\n"
    for i, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from message_text(nested, (*path, NESTED, i), comments, f"{name}.")
    for i, enum in enumerate(message.enum_type):
        yield from enum_text(enum, (*path, NESTED_ENUMS, i), comments, f"{name}.")


def enum_text(enum: EnumDescriptorProto, path: tuple[int, ...], comments: Comments, prefix: str) -> Iterator[str]:
    """Yield an enum with its values."""
    yield f"\n### {prefix}{enum.name}\n\n{text_of(comments, path)}\n\n| value | number | |\n|---|---|---|\n"
    for i, value in enumerate(enum.value):
        yield f"| `{value.name}` | {value.number} | {cell(comments.get((*path, VALUES, i), ''))} |\n"


def type_of(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    """Return a field's type as the proto spells it."""
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    entry = entries.get(short(field.type_name).rpartition(".")[2])
    if entry is not None:
        key, value = entry.field
        return f"map<{type_of(key, entry)}, {type_of(value, entry)}>"
    name = short(field.type_name) if field.type_name else SCALARS[field.type]
    return f"repeated {name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name


def short(name: str) -> str:
    """Return the name of a type without the package of its own API version."""
    name = name.removeprefix(".")
    return name.removeprefix(PACKAGE).split(".v1.", 1)[-1] if name.startswith(PACKAGE) else name


def text_of(comments: Comments, path: tuple[int, ...]) -> str:
    """Return a comment as a paragraph."""
    return " ".join(comments.get(path, "").split())


def cell(text: str) -> str:
    """Return a comment as it may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def clients_page() -> str:
    """Return the page of ``fathom.clients``: connecting, following runs, and each client's methods."""
    parts = ["# fathom.clients\n\n", f"{inspect.getdoc(fathom.clients)}\n"]
    for function in (connect, *public_functions(runs)):
        parts.append(f"\n## {function.__module__}.{function.__name__}\n\n```python\n{signature(function)}\n```\n\n")
        parts.append(f"{inspect.getdoc(function) or ''}\n")
    for client in (item for item in vars(services).values() if is_client(item)):
        parts.append(f"\n## {client.__name__}\n\n{inspect.getdoc(client)}\n\n| method | kind |\n|---|---|\n")
        rpcs = {name: rpc for name, rpc in vars(client).items() if not name.startswith("_") and name != "service"}
        parts += [f"| `{name}` | {type(rpc).__name__} |\n" for name, rpc in rpcs.items()]
    return "".join(parts)


def public_functions(module: object) -> list[Callable[..., object]]:
    """Return the functions that a module defines, in the order of its text."""
    found = [
        item
        for name, item in vars(module).items()
        if inspect.isfunction(item) and item.__module__ == getattr(module, "__name__", "") and not name.startswith("_")
    ]
    return [item for item in found if inspect.isasyncgenfunction(item) or inspect.iscoroutinefunction(item)]


def signature(function: Callable[..., object]) -> str:
    """Return a function's head as it is written."""
    [node] = ast.parse(inspect.getsource(function)).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    node.body = [ast.Expr(ast.Constant(...))]
    return ast.unparse(node)


def is_client(item: object) -> bool:
    """Return True if the item is the client of one service."""
    return inspect.isclass(item) and issubclass(item, Client) and item is not Client


if __name__ == "__main__":
    main(Path(sys.argv[1]))
