"""Roles in the place of models: resolved by the settings, by lane, without a word in the callers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from fathom.core.call import Call, Lane, calling
from fathom.core.config import ConfigError, load
from fathom.core.errors import InvalidField, NotFound
from fathom.domain.chat.messages import Completion, Message, Role
from fathom.services.policy.config import Config, RulesModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request
from fathom.transport.store import open_store

MODELS = {name: RulesModel() for name in ("rules", "big", "small")}


async def answered_by(engine: Engine, model: str, lane: Lane) -> str:
    request = Request("", model, (Message(Role.USER, "hello"),))
    with calling(Call.new(lane=lane)):
        items = [item async for item in engine.generate(request, lambda: None)]
    assert isinstance(items[-1], Completion)
    return items[-1].model


async def test_roles_are_models_of_the_settings_by_lane(tmp_path: Path) -> None:
    config = Config(
        models=MODELS,
        default_model="rules",
        roles={"planner": "big", "judge": "big"},  # type: ignore[dict-item]
        lane_roles={"training": {"judge": "small"}},  # type: ignore[dict-item]
        cache_dir=tmp_path,
    )
    engine = Engine(config, open_store("memory://"), structlog.get_logger())
    await engine.start()
    assert await answered_by(engine, "planner", Lane.INTERACTIVE) == "big"
    assert await answered_by(engine, "planner", Lane.TRAINING) == "big"
    assert await answered_by(engine, "judge", Lane.EVALUATION) == "big"
    assert await answered_by(engine, "judge", Lane.TRAINING) == "small"
    assert await answered_by(engine, "writer", Lane.INTERACTIVE) == "rules"
    assert await answered_by(engine, "", Lane.INTERACTIVE) == "rules"
    assert await answered_by(engine, "small", Lane.INTERACTIVE) == "small"
    assert engine.get_model("coder").name == "rules"
    with pytest.raises(NotFound):
        await answered_by(engine, "painter", Lane.INTERACTIVE)
    with pytest.raises(InvalidField, match="role"):
        await engine.load_weights("judge", None, 1)
    await engine.close()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"roles": {"painter": "rules"}}, "painter"),
        ({"lane_roles": {"nowhere": {}}}, "nowhere"),
        ({"models": {"judge": {"engine": "rules"}}, "default_model": "judge"}, "name of a role"),
    ],
)
def test_settings_that_name_no_role_or_lane_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Config(**fields)


def test_one_key_changes_the_model_of_a_question() -> None:
    config = load(Config, "policy", environ={"FATHOM_POLICY_ROLES": '{"planner": "smollm2"}'})
    assert config.roles == {"planner": "smollm2"}
    with pytest.raises(ConfigError):
        load(Config, "policy", environ={"FATHOM_POLICY_ROLES": '{"planer": "smollm2"}'})
