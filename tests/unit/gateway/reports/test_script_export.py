"""The script exported from a report is run by plain Python, as its reader does."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx

from tests.e2e.replay import serve_script
from tests.e2e.script import Script

# It uses what sessions give to cells without an import, and the units of the table.
CODE = """import finance.steps
show_table(finance.returns(sheet_1[["date", "AAA.close_adj"]]), "Returns", {"AAA.close_adj": "%"})
print(sheet_1.attrs["units"]["AAA.close_adj"], np.float64(1), to_date("2025年2月7日"))
pd.DataFrame({"a": [1]})"""


async def run_python(folder: Path, *arguments: str) -> tuple[int | None, str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FATHOM_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, wrong = await process.communicate()
    return process.returncode, out.decode(), wrong.decode()


async def export(url: str) -> str:
    async with httpx.AsyncClient(base_url=url) as client:
        run_id = (await client.post("/v1/runs", json={"question": "why?"})).json()["run_id"]
        await client.get(f"/v1/runs/{run_id}/events")
        return (await client.get(f"/v1/runs/{run_id}/export", params={"format": "py"})).text


async def test_an_exported_script_runs_with_plain_python(tmp_path: Path) -> None:
    async with serve_script(Script(days=30, code=CODE)) as house:
        text = await export(house.url)
        (tmp_path / "report.py").write_text(text, encoding="utf-8")
        status, out, wrong = await run_python(tmp_path, "report.py")
    assert (status, wrong) == (0, "")
    assert out.startswith("Returns\n")
    assert out.splitlines()[-1].startswith("USD 1.0 2025-02-07")
    # Where Fathom is not installed it says so in one line, before it asks anybody for a table.
    missing = (
        "import sys; sys.modules['fathom.services.sandbox.inside.namespace'] = None; exec(open('report.py').read())"
    )
    status, out, wrong = await run_python(tmp_path, "-c", missing)
    assert (status, out) == (1, "")
    assert wrong.startswith("These cells need Python with Fathom and its extra: pip install 'fathom[sandbox]'.")
    assert "Traceback" not in wrong
