"""Figures of matplotlib in a cell: drawn without a screen, and shown as the cell's displays.

matplotlib is imported by the cell that needs it, and not before: no other session pays for it. What is set here takes
effect when a cell imports ``matplotlib.pyplot``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from weakref import WeakSet

from fathom.services.sandbox.ipc.frames import PNG

PYPLOT = "matplotlib.pyplot"


class FigureDisplay:
    """Display of figures: as the last expression, by ``plt.show()``, or because a cell ends with them open.

    The backend is whatever the cell has chosen: each of them keeps its open figures in the same list.
    """

    def __init__(self, add: Callable[[dict[str, Any]], str]) -> None:
        """Create it; ``add`` sends a bundle."""
        self._add = add
        self._shown: WeakSet[Any] = WeakSet()

    def install(self, shell: Any) -> None:
        """Let figures that a cell shows come here."""
        shell.display_formatter.formatters[PNG].for_type_by_name("matplotlib.figure", "Figure", self.draw)
        sys.meta_path.insert(0, PyplotFinder(self.show_open))

    def draw(self, figure: Any) -> bytes | None:
        """Return a figure as PNG, with its title, which a page cannot read out of a picture; None for an empty one."""
        from IPython.core.pylabtools import print_figure

        data: bytes | None = print_figure(figure, metadata={"Title": read_title(figure)})
        self._shown.add(figure)
        return data

    def show_open(self) -> None:
        """Show all open figures and close them; raise the error of one that cannot be drawn."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        managers = helpers.Gcf.get_all_fig_managers() if helpers is not None else []
        self._show([manager.canvas.figure for manager in managers])

    def end_cell(self, *, has_failed: bool) -> None:
        """Show the open figures that the cell has not shown; those of a failed cell are half drawn and are dropped."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None:
            return
        try:
            if not has_failed:
                figures = [manager.canvas.figure for manager in helpers.Gcf.get_all_fig_managers()]
                self._show([figure for figure in figures if figure not in self._shown])
        finally:
            self._shown.clear()
            helpers.Gcf.destroy_all()

    def _show(self, figures: Sequence[Any]) -> None:
        try:
            for figure in figures:
                if data := self.draw(figure):
                    self._add({PNG: data})
        finally:
            # As in a notebook: what is drawn next begins a new figure.
            if figures:
                sys.modules["matplotlib._pylab_helpers"].Gcf.destroy_all()


def read_title(figure: Any) -> str:
    """Return the title of a figure: its own, or that of its first panel."""
    titles = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    return " ".join(next(filter(None, titles), "").split())


class PyplotFinder(MetaPathFinder):
    """Finder that gives ``matplotlib.pyplot`` another ``show`` when it is imported.

    Without a screen its own does nothing but warn, and whether a cell may choose a backend is not ours to say.
    """

    def __init__(self, show_open: Callable[[], None]) -> None:
        self._show_open = show_open

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PYPLOT:
            return None
        # The other finders have it; without this one, or it would ask itself.
        sys.meta_path.remove(self)
        try:
            spec = find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = PyplotLoader(spec.loader, self._show_open)
        return spec


class PyplotLoader(Loader):
    """Loader that replaces ``show`` in the module that another one has loaded."""

    def __init__(self, loader: Loader, show_open: Callable[[], None]) -> None:
        self._loader, self._show_open = loader, show_open

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        show_open = self._show_open

        def show(*args: Any, **kwargs: Any) -> None:
            """Show all open figures."""
            show_open()

        module.show = show  # type: ignore[attr-defined]
