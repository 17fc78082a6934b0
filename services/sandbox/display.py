"""The worker's shell: IPython's ``InteractiveShell`` without history, colours and threads."""

from __future__ import annotations

import base64
import json
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import IPython
from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

PLOTLY = "application/vnd.plotly.v1+json"
MEDIA_TYPES = (PLOTLY, "image/png", "text/html")
MAX_DISPLAYS, MAX_DISPLAY_BYTES = 20, 8 * 1024 * 1024
MAX_TEXT, MAX_TRACEBACK = 32 * 1024, 32 * 1024
OWN = (str(Path(IPython.__file__).parent), str(Path(__file__).parent))
DUMP = json.JSONEncoder().encode
Send = Callable[[dict[str, Any]], None]


def no_channel(message: dict[str, Any]) -> None:
    """Where displays go before a session has begun: nowhere."""


class Capture:
    """Takes what a cell displays: results of last expressions, ``display`` calls, ``fig.show()``."""

    def __init__(self) -> None:
        self.send: Send = no_channel
        self.reset()

    def reset(self) -> None:
        """For the next cell."""
        self.result = ""
        self._count, self._bytes = 0, 0

    def last(self, bundle: dict[str, Any], value: object) -> None:
        """The last expression. HTML of a frame is for a page; its text is what a model reads."""
        rich = {kind: data for kind, data in bundle.items() if kind != "text/html"}
        if not self.add(rich):
            self.result = cut(str(bundle.get("text/plain") or f"<{type(value).__name__}, whose repr failed>"), MAX_TEXT)

    def shown(self, bundle: dict[str, Any]) -> None:
        """A ``display`` call: the rich form for a page, the text, where there is a real one, for the model."""
        rich, text = self.add(bundle), str(bundle.get("text/plain", ""))
        if not rich or ("text/html" in bundle and text and not text.startswith("<")):
            print(text)

    def add(self, bundle: dict[str, Any]) -> bool:
        """Sends the richest allowed type of a bundle; False when it has none."""
        kind = next((kind for kind in MEDIA_TYPES if bundle.get(kind)), None)
        if kind is None:
            return False
        data = bundle[kind]
        encoded = data if isinstance(data, str) and kind == "image/png" else to_base64(data)
        self._count += 1
        if self._count > MAX_DISPLAYS or self._bytes + len(encoded) > MAX_DISPLAY_BYTES:
            limit = f"{MAX_DISPLAYS} displays and {MAX_DISPLAY_BYTES:,} bytes"
            print(f"a display was left out: a cell may have {limit}", file=sys.stderr)
            return True
        self._bytes += len(encoded)
        flush()
        self.send({"kind": "display", "media_type": kind, "data": encoded})
        return True


class Compiler(CachingCompiler):
    """Names the code of a cell by its number, as tracebacks show it."""

    cell = 0

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return f"<cell {self.cell}>"


def make_shell(capture: Capture) -> Any:
    """A shell whose results and displays go to ``capture`` and whose errors travel in the reply."""

    class Hook(DisplayHook):
        """The value of a cell's last expression."""

        shell: Any

        def __call__(self, result: Any = None) -> None:
            if result is None or self.shell.is_quiet:
                return
            formatter = self.shell.display_formatter
            if not formatter.ipython_display_formatter(result):  # else it has shown itself, as plotly's figures do
                bundle, _ = formatter.format(result)
                capture.last(bundle, result)
            self.shell.user_ns["_"] = result

    class Publisher(DisplayPublisher):
        """``display`` and ``fig.show()``."""

        def publish(self, data: dict[str, Any], *args: Any, **rest: Any) -> None:
            capture.shown(data)

    class Shell(InteractiveShell):
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)
        compiler_class = Type(Compiler)
        is_quiet = False
        # Children of ``!command`` stay in our process group and write to our pipes.
        system = InteractiveShell.system_raw

        def showtraceback(self, *args: Any, **kwargs: Any) -> None:
            """Errors travel in the reply, not on stderr."""

        def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
            """Likewise."""

        def ask_exit(self) -> None:
            """``exit`` ends nothing but the cell."""
            raise SystemExit

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell: Any = Shell.instance(config=config)
    shell.display_formatter.active_types = ["text/plain", *MEDIA_TYPES]
    formatter = shell.display_formatter.mimebundle_formatter
    formatter.for_type_by_name("plotly.basedatatypes", "BaseFigure", plotly_bundle)
    return shell


def run_cell(shell: Any, number: int, code: str) -> BaseException | None:
    """Runs a cell; gives the exception that ended it, if one did."""
    shell.compile.cell = number
    shell.is_quiet = ends_quietly(shell, code)
    outcome = shell.run_cell(code, store_history=False)
    error: BaseException | None = outcome.error_before_exec or outcome.error_in_exec
    return error


def ends_quietly(shell: Any, code: str) -> bool:
    """Whether a semicolon hides the last expression; False for code that is none, which says so itself later."""
    try:
        return bool(shell.displayhook.semicolon_at_end_of_expression(code))
    except Exception:  # the tokenizer's own errors, of several kinds
        return False


def plotly_bundle(figure: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """A figure as plotly JSON."""
    return {PLOTLY: figure.to_json()}


def to_base64(data: Any) -> str:
    if isinstance(data, dict):
        data = DUMP(data)
    raw = data if isinstance(data, bytes) else str(data).encode("utf-8", "replace")
    return base64.b64encode(raw).decode("ascii")


def cut(text: str, limit: int) -> str:
    """Cut to ``limit`` characters, and saying so."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def flush() -> None:
    """What was printed goes out, also when the cell has replaced or closed its streams."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # whatever the cell has put there
            stream.flush()


def error_reply(error: BaseException) -> dict[str, str]:
    """Name, message and trimmed traceback; every part of it may be code of the cell's own, and may fail."""
    return {
        "error_name": cut(attempt(lambda: str(type(error).__name__), "Exception"), 200),
        "error_value": cut(attempt(lambda: str(error), "(its message cannot be shown)"), MAX_TEXT),
        "traceback": attempt(lambda: format_error(error), "(its traceback cannot be shown)"),
    }


def attempt(produce: Callable[[], str], otherwise: str) -> str:
    """The text, or ``otherwise`` when producing it raises; an interrupt passes."""
    try:
        return produce()
    except Exception:
        return otherwise


def format_error(error: BaseException) -> str:
    """The traceback with its chain, from the cell on: frames of the shell and of this service are left out."""
    whole = traceback.TracebackException.from_exception(error)
    trim(whole, 0)
    text = "".join(whole.format())
    return text if len(text) <= MAX_TRACEBACK else f"…{text[1 - MAX_TRACEBACK :]}"


def trim(part: traceback.TracebackException, depth: int) -> None:
    """Keeps the cells' frames; of each run through libraries only its last frame, where it failed."""
    kept: list[traceback.FrameSummary] = []
    for frame in part.stack or ():
        if frame.filename.startswith(OWN):
            continue
        if kept and not in_cell(frame) and not in_cell(kept[-1]):
            kept.pop()
        kept.append(frame)
    # Without a frame of the cell's own there is nothing to head: a syntax error names its place itself.
    part.stack = traceback.StackSummary.from_list(kept) if kept else None  # type: ignore[assignment]
    for inner in (part.__cause__, part.__context__):
        if inner is not None and depth < 50:
            trim(inner, depth + 1)


def in_cell(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith("<cell ")
