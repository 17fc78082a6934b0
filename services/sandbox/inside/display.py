"""IPython shell of the worker: ``InteractiveShell`` without history, colours and threads."""

from __future__ import annotations

import base64
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

from fathom.services.sandbox.inside.figures import FigureDisplay
from fathom.services.sandbox.inside.streams import OutputGate
from fathom.services.sandbox.inside.texts import DUMP, SOURCES, choose_text
from fathom.services.sandbox.ipc.frames import (
    MAX_DISPLAY_BYTES,
    MAX_DISPLAYS,
    MEDIA_TYPES,
    PLOTLY,
    PNG,
    SVG,
)

# Both go into a model's prompt; the supervisor cuts at twice as much.
MAX_TEXT, MAX_TRACEBACK = 32 * 1024, 32 * 1024
OWN_FOLDERS = (str(Path(IPython.__file__).parent), str(Path(__file__).parent))
# Forms without a text that a model could read.
PICTURES = (PLOTLY, PNG, SVG)
Send = Callable[[str, bytes], None]


def discard_display(media_type: str, data: bytes) -> None:
    """Discard a display; there is no session yet."""


class DisplayCapture:
    """Sink for a cell's displays: results of last expressions, ``display`` calls, ``fig.show()``."""

    def __init__(self, gate: OutputGate) -> None:
        """Create it; ``gate`` says which threads may display something now."""
        self.send: Send = discard_display
        self._gate = gate
        self.reset()

    def reset(self) -> None:
        """Prepare for the next cell."""
        self.result = ""
        self._count, self._bytes = 0, 0

    def show_result(self, bundle: dict[str, Any], value: object) -> None:
        """Send the rich form of the last expression; keep its text as the result, unless the form is a picture."""
        if self.add(bundle) not in PICTURES:
            self.result = truncate(choose_text(bundle) or f"<{type(value).__name__}, whose repr failed>", MAX_TEXT)

    def show(self, bundle: dict[str, Any]) -> None:
        """Send the rich form of a ``display`` call, and print its text, unless the form is a picture."""
        # The rich form is for a page, the text for the model.
        if self.add(bundle) not in PICTURES:
            print(truncate(choose_text(bundle), MAX_TEXT))

    def add(self, bundle: dict[str, Any]) -> str:
        """Send the richest allowed type of a bundle and return it; "" when it has none.

        A display over the limits is replaced by a note on stderr.
        """
        kind = next((kind for kind in MEDIA_TYPES if bundle.get(kind)), None)
        if kind is None:
            return ""
        content = bundle[kind]
        # Images come as base64 from the formatters of their libraries.
        data = decode_image(content) if isinstance(content, str) and kind == PNG else to_bytes(content)
        if not data:
            # The supervisor takes a display without content for a forged one.
            return ""
        with self._gate.lock:
            if self._gate.is_open_here():
                self._send_within_limits(kind, data)
        return kind

    def _send_within_limits(self, kind: str, data: bytes) -> None:
        self._count += 1
        if self._count > MAX_DISPLAYS or self._bytes + len(data) > MAX_DISPLAY_BYTES:
            limit = f"{MAX_DISPLAYS} displays and {MAX_DISPLAY_BYTES:,} bytes"
            print(f"a display was left out: a cell may have {limit}", file=sys.stderr)
            return
        self._bytes += len(data)
        flush()
        self.send(kind, data)


class Compiler(CachingCompiler):
    """Compiler that names the code of a cell by its number, as tracebacks show it."""

    cell = 0

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        return f"<cell {self.cell}>"


def make_shell(capture: DisplayCapture, figures: FigureDisplay) -> Any:
    """Return a shell whose results and displays go to ``capture`` and whose errors travel in the reply."""

    class Hook(DisplayHook):
        """Display hook for the value of a cell's last expression."""

        shell: Any

        def __call__(self, result: Any = None) -> None:
            if result is None or self.shell.is_quiet:
                return
            formatter = self.shell.display_formatter
            if not formatter.ipython_display_formatter(result):  # else it has shown itself, as plotly's figures do
                bundle, _ = formatter.format(result)
                capture.show_result(bundle, result)
            self.shell.user_ns["_"] = result

    class Publisher(DisplayPublisher):
        """Publisher for ``display`` and ``fig.show()``."""

        def publish(self, data: dict[str, Any], *args: Any, **rest: Any) -> None:
            capture.show(data)

    class Shell(InteractiveShell):
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)
        compiler_class = Type(Compiler)
        is_quiet = False
        # Children of ``!command`` stay in our process group and write to our pipes.
        system = InteractiveShell.system_raw

        def showtraceback(self, *args: Any, **kwargs: Any) -> None:
            """Print nothing: errors travel in the reply, not on stderr."""

        def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
            """Print nothing, likewise."""

        def ask_exit(self) -> None:
            """End nothing but the cell, for ``exit``."""
            raise SystemExit

        def enable_matplotlib(self, gui: str | None = None) -> tuple[str | None, str]:
            """Do nothing for ``%matplotlib``: figures are shown as in a notebook, whatever is asked for."""
            return gui, "inline"

    config = Config()
    # History is a database in the user's home, with a thread of its own.
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell: Any = Shell.instance(config=config)
    shell.display_formatter.active_types = ["text/plain", *SOURCES, *MEDIA_TYPES]
    formatter = shell.display_formatter.mimebundle_formatter
    formatter.for_type_by_name("plotly.basedatatypes", "BaseFigure", to_plotly_bundle)
    figures.install(shell)
    return shell


def run_cell(shell: Any, figures: FigureDisplay, number: int, code: str) -> BaseException | None:
    """Run a cell and show the figures that it leaves open; return the exception that ended it, if one did."""
    shell.compile.cell = number
    shell.is_quiet = ends_quietly(shell, code)
    outcome = shell.run_cell(code, store_history=False)
    error: BaseException | None = outcome.error_before_exec or outcome.error_in_exec
    try:
        figures.end_cell(has_failed=error is not None)
    except BaseException as failure:  # drawing is the cell's work as well: a formula in a title may be wrong
        return error or failure
    return error


def ends_quietly(shell: Any, code: str) -> bool:
    """Return whether a semicolon hides the last expression; False for invalid code, which fails by itself later."""
    try:
        return bool(shell.displayhook.semicolon_at_end_of_expression(code))
    except Exception:  # the tokenizer's own errors, of several kinds
        return False


def to_plotly_bundle(figure: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """Return a figure as plotly JSON."""
    return {PLOTLY: figure.to_json()}


def to_bytes(content: Any) -> bytes:
    """Return the content of a display as bytes, that of JSON as text."""
    if isinstance(content, (dict, list)):
        content = DUMP(content)
    return content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")


def decode_image(encoded: str) -> bytes:
    """Return the bytes of an image in base64; no bytes for what is none."""
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        return b""


def truncate(text: str, limit: int) -> str:
    """Return the text cut to ``limit`` characters, with an ellipsis at the cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def flush() -> None:
    """Flush stdout and stderr, also when the cell has replaced or closed them."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # whatever the cell has put there
            stream.flush()


def describe_error(error: BaseException) -> dict[str, str]:
    """Return name, message and trimmed traceback of an error."""
    return {
        # Every part may be code of the cell's own, and may fail.
        "error_name": truncate(try_text(lambda: str(type(error).__name__), "Exception"), 200),
        "error_value": truncate(try_text(lambda: str(error), "(its message cannot be shown)"), MAX_TEXT),
        "traceback": try_text(lambda: format_error(error), "(its traceback cannot be shown)"),
    }


def try_text(produce: Callable[[], str], otherwise: str) -> str:
    """Return the text, or ``otherwise`` when producing it raises; let an interrupt pass."""
    try:
        return produce()
    except Exception:  # the cell's own classes may raise anything when they are shown
        return otherwise


def format_error(error: BaseException) -> str:
    """Return the traceback with its chain, without frames of the shell and of this service."""
    whole = traceback.TracebackException.from_exception(error)
    trim_traceback(whole, 0)
    text = "".join(whole.format())
    return text if len(text) <= MAX_TRACEBACK else f"…{text[1 - MAX_TRACEBACK :]}"


def trim_traceback(part: traceback.TracebackException, depth: int) -> None:
    """Keep the cells' frames, and of each run through libraries only the last one, where it failed."""
    kept: list[traceback.FrameSummary] = []
    for frame in part.stack or ():
        if frame.filename.startswith(OWN_FOLDERS):
            continue
        # Both in libraries: the later one is nearer to the failure.
        if kept and not is_cell_frame(frame) and not is_cell_frame(kept[-1]):
            kept.pop()
        kept.append(frame)
    # Without a frame of the cell's own there is nothing to head: a syntax error names its place itself.
    part.stack = traceback.StackSummary.from_list(kept) if kept else None  # type: ignore[assignment]
    for inner in (part.__cause__, part.__context__):
        # A cell may chain as many causes as it likes, and this calls itself for each.
        if inner is not None and depth < 50:
            trim_traceback(inner, depth + 1)


def is_cell_frame(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith("<cell ")
