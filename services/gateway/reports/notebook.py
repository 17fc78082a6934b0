"""The code of a run as a Jupyter notebook or a script: its tables come from the gateway, its cells run as before."""

from __future__ import annotations

import base64
import json
import keyword
from collections.abc import Mapping, Sequence
from typing import Any

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.services.gateway.reports.markdown import escape
from fathom.services.gateway.reports.report import Figure, list_material, list_sheets
from fathom.services.gateway.reports.words import say

# Module with the names that cells find without importing them; the gateway only writes its name.
NAMESPACE = "fathom.services.sandbox.inside.namespace"
PLOTLY = "application/vnd.plotly.v1+json"
# A notebook says its kernel; a Python 3 with our sandbox's names runs these cells.
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def write_notebook(run: trajectory.Trajectory, language: str, base_url: str, figures: Mapping[str, Figure]) -> bytes:
    """Return the notebook as JSON of nbformat 4, valid by nbformat's own schema.

    ``base_url`` is the gateway's, from which the first cell reads the tables; ``figures`` are the outputs' by id.
    """
    import nbformat
    from nbformat import v4

    cells = [v4.new_markdown_cell(describe_run(run, language), id="about")]
    material = list_material(run)
    if begun := begin_session(run, language, base_url):
        cells.append(v4.new_code_cell(begun, id="tables"))
    for number, item in enumerate((item for item in material if item.HasField("code")), 1):
        outputs = list_outputs(item.code, number, figures)
        cell = v4.new_code_cell(item.code.code, id=f"cell-{number}", execution_count=number, outputs=outputs)
        cells.append(cell)
    # Written out, not by the library's time and chance: the same run gives the same bytes.
    book = v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}})
    nbformat.validate(book)
    text: str = nbformat.writes(book, version=4)
    return text.encode("utf-8", errors="replace")


def write_script(run: trajectory.Trajectory, language: str, base_url: str) -> bytes:
    """Return the same cells as one Python script, in the form that editors run cell by cell (``# %%``).

    A cell that failed is there in comments, since a script ends at its first failure.
    """
    parts = [comment(f"{run.question}\n{say(language, 'run')} {run.run_id}\n{say(language, 'script_about')}")]
    if begun := begin_session(run, language, base_url):
        parts.append(f"# %%\n{begun}")
    for item in (item for item in list_material(run) if item.HasField("code")):
        source = item.code.code.strip("\n")
        if item.code.ok:
            parts.append(f"# %%\n{source}")
        else:
            parts.append(f"# %%\n# {say(language, 'script_failed')}\n{comment(source)}")
    return ("\n\n".join(parts) + "\n").encode("utf-8", errors="replace")


def comment(text: str) -> str:
    """Return a text as comments of Python, whatever ends its lines."""
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def is_name(text: str) -> bool:
    """Return whether a variable of Python can have this name."""
    return text.isidentifier() and not keyword.iskeyword(text)


def describe_run(run: trajectory.Trajectory, language: str) -> str:
    """Return the heading: the question as text that Markdown shows as it is, and the run."""
    # A notebook sets what stands between dollars as a formula.
    question = escape(run.question).replace("$", "\\$")
    return f"# {question}\n\n{say(language, 'run')} `{run.run_id}`\n\n{say(language, 'notebook_about')}"


def begin_session(run: trajectory.Trajectory, language: str, base_url: str) -> str:
    """Return the cell that gives the others what a session gives them: names and tables; "" for a run without both."""
    sheets = [item for item in list_sheets(run) if is_name(item.variable)]
    parts = [load_names(language)] if sheets or any(item.HasField("code") for item in list_material(run)) else []
    return "\n\n".join([*parts, load_tables(sheets, language, base_url)] if sheets else parts)


def load_names(language: str) -> str:
    """Return the lines that import what a session has without an import, and say what they need."""
    return "\n".join(
        (
            f"# {say(language, 'notebook_needs')}",
            "try:",
            f"    from {NAMESPACE} import add_facts, finance, np, pd, show_table, to_date",
            "except ImportError as error:",
            f'    raise SystemExit(f"{say(language, "notebook_needs")} ({{error}})") from error',
        )
    )


def load_tables(sheets: Sequence[trajectory.Material], language: str, base_url: str) -> str:
    """Return the lines that read the tables which the code works on."""
    lines = [
        "import io",
        "import os",
        "import urllib.request",
        "",
        f"# {say(language, 'notebook_token')}",
        f'GATEWAY = os.environ.get("FATHOM_URL", {json.dumps(base_url)})',
        'HEADERS = {"Authorization": "Bearer " + os.environ["FATHOM_TOKEN"]} if "FATHOM_TOKEN" in os.environ else {}',
        "",
        "",
        "def read_table(sheet_id):",
        '    request = urllib.request.Request(f"{GATEWAY}/v1/tables/{sheet_id}/export?format=csv", headers=HEADERS)',
        "    with urllib.request.urlopen(request, timeout=60) as answer:",
        "        return pd.read_csv(io.BytesIO(answer.read()))",
        "",
        "",
    ]
    for item in {item.variable: item for item in sheets}.values():
        # The title in a comment, on one line, whatever it holds.
        lines.append(f"# {' '.join(item.sheet.title.split())}")
        lines.append(f"{item.variable} = read_table({json.dumps(item.sheet.id)})")
        for column in item.sheet.columns:
            if column.type.startswith(("timestamp", "date")):
                name = json.dumps(column.name, ensure_ascii=False)
                lines.append(f"{item.variable}[{name}] = pd.to_datetime({item.variable}[{name}])")
        # Calculations of ``finance`` read them: a rate has no return.
        facts = {
            "units": {column.name: column.unit for column in item.sheet.columns if column.unit},
            "indicators": {column.name: column.indicator for column in item.sheet.columns if column.indicator},
        }
        if any(facts.values()):
            lines.append(f"{item.variable} = add_facts({item.variable}, {facts!r})")
    return "\n".join(lines)


def list_outputs(code: trajectory.CodeRecord, number: int, figures: Mapping[str, Figure]) -> list[Any]:
    """Return what a cell printed, drew, gave and raised."""
    from nbformat import v4

    outputs = [v4.new_output("stream", name="stdout", text=code.stdout)] if code.stdout else []
    for figure in code.figures:
        if (found := figures.get(figure.id)) and (data := show_figure(found)):
            outputs.append(v4.new_output("display_data", data=data))
    if code.result:
        outputs.append(v4.new_output("execute_result", data={"text/plain": code.result}, execution_count=number))
    if code.traceback:
        lines = code.traceback.splitlines()
        name, _, value = lines[-1].partition(": ")
        outputs.append(v4.new_output("error", ename=name, evalue=value, traceback=lines))
    return outputs


def show_figure(figure: Figure) -> dict[str, Any]:
    """Return a figure as the data of an output; nothing for one that cannot be read."""
    if figure.media_type == "application/json":
        try:
            drawing = json.loads(figure.content)
        except ValueError:
            return {}
        return {PLOTLY: drawing, "text/plain": figure.title} if isinstance(drawing, dict) else {}
    if figure.media_type in ("image/png", "image/jpeg"):
        return {figure.media_type: base64.b64encode(figure.content).decode(), "text/plain": figure.title}
    # SVG and HTML are text, of which viewers of notebooks run what they trust: the picture of a stranger stays a title.
    return {"text/plain": figure.title or figure.media_type}
