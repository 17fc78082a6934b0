"""Run by ``entered.py`` in a process of its own, with the code of any layout on its path: prints figures as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

OBJECT_OPERATIONS = ("put", "get", "head", "list", "keys", "delete")
KEY_OPERATIONS = ("put", "get", "delete", "keys")
STREAM_OPERATIONS = ("publish",)


def import_first(*names: str) -> ModuleType:
    """Return the first module that exists: layouts differ in their names."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


class Profile:
    """Counts calls of functions below the product's folders while it is ``on``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # services and trainers may be entered by way of links below libs
        self._folders = tuple(f"{root / room}/" for room in ("libs/fathom", "services", "trainers"))
        self._generated = f"{root}/libs/fathom/api/"
        self.on = False
        self.calls: Counter[tuple[str, str]] = Counter()
        self.operations: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if self.on and event == "call" and file.startswith(self._folders) and not file.startswith(self._generated):
            self.calls[file, frame.f_code.co_qualname] += 1

    def over(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method with this profile on while it runs."""

        @functools.wraps(method)
        def call_profiled(*arguments: Any, **named: Any) -> Any:
            self.on = True
            try:
                return method(*arguments, **named)
            finally:
                self.on = False

        return call_profiled

    def watch(self, kind: str, owner: type, *names: str) -> None:
        """Count the calls of these methods."""
        for name in filter(partial(hasattr, owner), names):  # other layouts lack some
            setattr(owner, name, self._counting(kind, getattr(owner, name)))

    def _counting(self, kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call_counting(*arguments: Any, **named: Any) -> Any:
            if self.on:
                self.operations[kind] += 1
            return method(*arguments, **named)

        return call_counting

    def count_by_layer(self, whole: str) -> dict[str, int]:
        """Return the calls by layer: a service, the trainers, or a folder of what they share."""
        found: Counter[str] = Counter()
        for (file, _), count in self.calls.items():
            room, *path = Path(file).resolve().relative_to(self._root.resolve()).parts
            found[path[1] if room == "libs" else f"{room}/{path[0]}" if room == "services" else room] += count
        return {f"calls entered by {whole} in {layer}": count for layer, count in found.most_common()}

    def figures(self, whole: str) -> dict[str, int]:
        """Return how much of the product ``whole`` entered."""
        return {
            f"calls entered by {whole}": self.calls.total(),
            f"files entered by {whole}": len({Path(file).resolve() for file, _ in self.calls}),
            f"functions entered by {whole}": len(self.calls),
        }


async def profile_question(root: Path, home: Path, question: str) -> dict[str, int]:
    """Answer one question by a local stack; return what it entered, and its operations on the stores."""
    local: Any = import_first("fathom.services.local", "services.local")
    folder: Any = import_first("fathom.transport.store.folder", "fathom.store.folder")
    nats: Any = import_first("fathom.transport.bus.nats.bus", "fathom.transport.bus.nats", "fathom.bus.nats")
    keys: Any = import_first("fathom.transport.bus.nats.keys", "fathom.transport.bus.keys_nats", "fathom.bus.keys_nats")
    from fathom.api.planner.v1 import planner_pb2 as pb
    from fathom.clients import connect
    from fathom.clients.runs import run

    profile = Profile(root)
    profile.watch("objects", folder.FolderStore, *OBJECT_OPERATIONS)
    profile.watch("keys", keys.NatsKeyValue, *KEY_OPERATIONS)
    profile.watch("streams", nats.NatsBus, *STREAM_OPERATIONS)
    threading.setprofile(profile)
    sys.setprofile(profile)
    settings = local.LocalSettings(home=home, gateway_port=0, ready_timeout_s=240.0)
    async with local.LocalStack(settings).running() as endpoints:
        clients = connect(endpoints.services)
        profile.on = True
        last = [event async for event in run(clients, pb.RunRequest(question=question))][-1]
        profile.on = False
        await clients.close()
    sys.setprofile(None)
    if not last.finished.answer.markdown:
        raise SystemExit(f"no answer: {last}")
    return {
        **profile.figures("one question"),
        "object store operations of one question": profile.operations["objects"],
        "key-value operations of one question": profile.operations["keys"],
        "stream messages of one question": profile.operations["streams"],
    }


def profile_step(root: Path, home: Path, *arguments: str) -> dict[str, int]:
    """Run ``fathom train`` with these arguments; return what its steps entered."""
    ppo: Any = import_first("fathom.trainers.algorithms.ppo", "trainers.ppo")
    from fathom.cli.main import app

    profile = Profile(root)
    for loop in vars(ppo).values():
        if isinstance(loop, type) and loop.__module__ == ppo.__name__ and "run_step" in vars(loop):
            # The class is found by its method, since layouts name it differently.
            found: Any = loop
            found.run_step = profile.over(found.run_step)
    threading.setprofile(profile)
    sys.setprofile(profile)
    with contextlib.redirect_stdout(sys.stderr):
        app(["train", *arguments, "--home", str(home)], standalone_mode=False)
    sys.setprofile(None)
    if not profile.calls:
        raise SystemExit("no step was run")
    return profile.figures("one training step") | profile.count_by_layer("one training step")


def main(what: str, root: str, home: str, *arguments: str) -> None:
    """Print the figures of a ``question`` or a ``step`` as JSON."""
    if what == "question":
        figures = asyncio.run(profile_question(Path(root), Path(home), *arguments))
    else:
        figures = profile_step(Path(root), Path(home), *arguments)
    print(json.dumps(figures))


if __name__ == "__main__":
    # The module's folder would hide the standard library behind files of the same name.
    sys.path.pop(0)
    main(*sys.argv[1:])
