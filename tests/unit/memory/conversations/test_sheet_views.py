"""Tables of a conversation under the titles that their user gave them."""

from __future__ import annotations

import pytest

from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.services.memory.engine import Engine, Turn
from fathom.services.memory.retaining.erasing import Eraser
from fathom.services.memory.retaining.exporting import Exporter
from fathom.services.memory.retaining.scope import Scope
from fathom.services.memory.sheets import views
from fathom.services.memory.sheets.views import SheetView

A_TURN = Turn("What did it cost?", "", "It cost 7.", "run_1")


async def test_tables_are_renamed_and_pinned_in_their_conversation(engine: Engine) -> None:
    for name in ("c1", "c2"):
        await engine.append(f"r-{name}", name, A_TURN)
    await engine.update("c1", None, None, 0, SheetView("t1", "  Prices\n of 苹果 ", pinned=False))
    await engine.update("c1", None, None, 0, SheetView("t2", "", pinned=True))
    assert await engine.list_sheet_views("c1") == [SheetView("t2", "", True), SheetView("t1", "Prices of 苹果", False)]
    assert await engine.list_sheet_views("c2") == []
    # What is said of a table again replaces what was said, and a table as it came is none that was said.
    await engine.update("c1", None, None, 0, SheetView("t1", "Prices", pinned=True))
    await engine.update("c1", None, None, 0, SheetView("t2", "", pinned=False))
    assert await engine.list_sheet_views("c1") == [SheetView("t1", "Prices", True)]
    (item,) = [one for one in (await engine.list_conversations())[0] if one.id == "c1"]
    assert (item.version, item.title) == (1, A_TURN.question), "it is no edit of the conversation's own title"
    with calling(Call("r", tenant="other")):
        assert await engine.list_sheet_views("c1") == []
        with pytest.raises(errors.NotFound):
            await engine.update("c1", None, None, 0, SheetView("t1", "theirs", True))
    await engine.delete("c1")
    assert await engine.list_sheet_views("c1") == []


async def test_what_no_table_can_be_called_is_refused_by_name(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await engine.append("r1", "c1", A_TURN)
    monkeypatch.setattr(views, "MAX_VIEWS", 1)
    await engine.update("c1", None, None, 0, SheetView("t1", "one", False))
    for view, field in (
        (SheetView("", "x", False), "sheet.sheet_id"),
        (SheetView("t1", "x" * 201, False), "sheet.title"),
        (SheetView("t1", "a\0b", False), "sheet.title"),
        (SheetView("t2", "one too many", False), "sheet.sheet_id"),
    ):
        with pytest.raises(errors.InvalidField) as refused:
            await engine.update("c1", "not this", None, 0, view)
        assert refused.value.metadata["field"] == field
    assert await engine.list_sheet_views("c1") == [SheetView("t1", "one", False)]
    assert (await engine.list_conversations())[0][0].title == A_TURN.question, "half of an edit is none"


async def test_names_of_tables_are_exported_and_erased_with_who_gave_them(engine: Engine) -> None:
    with calling(Call("r", principal="anne")):
        await engine.append("r1", "c1", A_TURN)
        await engine.update("c1", None, None, 0, SheetView("t1", "mine", True))
    scope = Scope("default", "anne")
    rows, _ = await Exporter(engine.database).export(scope)
    assert [row.values["title"] for row in rows if row.table == "sheet_views"] == ["mine"]
    await Eraser(engine.database).erase(scope)
    rows, _ = await Exporter(engine.database).export(scope)
    assert rows == []
