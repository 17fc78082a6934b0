"""Terms of a model by its settings, for who chooses one: family, prices, roles, and whether its key is here."""

from __future__ import annotations

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.core.call import Lane
from fathom.domain.contact import check_credential
from fathom.services.policy.config import Config, OpenAIModel, TokenPrices
from fathom.services.policy.serving.roles import ModelRole, Roles


def add_terms(model: pb.Model, config: Config) -> pb.Model:
    """Add to a model what its settings say, and return it; a model that a trainer has made has none."""
    roles = Roles(config.default_model, config.roles, config.lane_roles)
    model.roles.extend(
        sorted(role for role in ModelRole if roles.model(role, Lane.INTERACTIVE, config.models) == model.name)
    )
    settings = config.models.get(model.name)
    if isinstance(settings, OpenAIModel):
        # Imported here: the table of families is read for remote models alone.
        from fathom.services.policy.backends.openai.families import find_family

        model.family = settings.family or find_family(settings.model, settings.base_url).name
        model.credential = check_credential([settings.api_key_env, *settings.header_envs.values()])
        if settings.prices is not None:
            model.prices.CopyFrom(prices_to_proto(settings.prices))
    return model


def prices_to_proto(prices: TokenPrices) -> pb.TokenPrices:
    return pb.TokenPrices(prompt=prices.prompt, cached_prompt=prices.cached_prompt, completion=prices.completion)
