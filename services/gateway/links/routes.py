"""Routes of links: /v1/links for those who share, /shared for those who look."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path, Request, Response
from pydantic import BaseModel, Field

from fathom.core.errors import FathomError, InvalidField, NotFound
from fathom.services.gateway.bodies import Body, PageSize, PageToken
from fathom.services.gateway.guard import ANONYMOUS
from fathom.services.gateway.links.sharing import Sharing, Wish, describe_link
from fathom.services.gateway.reports.web_page import write_note
from fathom.services.gateway.reports.words import LANGUAGES, say

DAY_S = 86_400
MAX_LIFETIME_DAYS = 366


class NewLink(Body):
    """Request for a link: what it shows, and to whom."""

    run_id: str = Field("", max_length=128, description="Run whose answer is shown; or else conversation_id.")
    conversation_id: str = Field("", max_length=128, description="Conversation that is shown, with its turns so far.")
    audience: str = Field(
        "tenant",
        pattern="^(tenant|anyone)$",
        description="`tenant`: callers of the same tenant. `anyone`: whoever has the address, where settings allow it.",
    )
    language: str = Field("en", description="Language of the page's own words: en or zh.")
    gives_uploads: bool = Field(
        False,
        description="Whether it shows files that were brought for the answer, and the tables, figures and code made of"
        " them. Otherwise they are cited by title alone, and sentences of the answer that cite them are withheld.",
    )
    lifetime_days: int = Field(30, ge=1, le=MAX_LIFETIME_DAYS, description="Days until the link ends by itself.")


class LinkState(BaseModel):
    """A link, without its token."""

    id: str
    run_id: str
    conversation_id: str
    title: str
    audience: str
    language: str
    gives_uploads: bool
    creator: str = Field(description="Who made it; empty where callers are not identified.")
    created: float = Field(description="Seconds since 1970.")
    ends: float = Field(description="Seconds since 1970.")


class MadeLink(LinkState):
    """A new link with its address, which is told this once."""

    path: str = Field(description="Path of the page, with the token.")


class LinkPage(BaseModel):
    """A page of links."""

    links: list[LinkState]
    next_page_token: str


def add_links(app: FastAPI, sharing: Sharing) -> None:
    """Add the routes."""

    @app.post("/v1/links", status_code=201)
    async def create_link(body: NewLink, request: Request) -> MadeLink:
        """Make a link that shows an answer or a conversation, read only, to others."""
        if body.language not in LANGUAGES:
            raise InvalidField("language", f"must be one of {', '.join(LANGUAGES)}")
        wish = Wish(
            body.run_id,
            body.conversation_id,
            body.audience,
            body.language,
            body.lifetime_days * DAY_S,
            body.gives_uploads,
        )
        made, token = await sharing.create(wish)
        return MadeLink(**describe_link(made), path=f"{request.scope['root_path']}/shared/{token}")

    @app.get("/v1/links")
    async def list_links(
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> LinkPage:
        """List the links of the caller's tenant that have not ended."""
        found, token = await sharing.list_links(page_size or 100, page_token)
        return LinkPage(links=[LinkState(**describe_link(link)) for link in found], next_page_token=token)

    @app.delete("/v1/links/{link_id}", status_code=204)
    async def withdraw_link(link_id: Annotated[str, Path(description="Id of the link.")]) -> None:
        """Withdraw a link: nobody can open it any more."""
        await sharing.withdraw(link_id)

    @app.get("/shared/{token}", include_in_schema=False)
    async def open_link(request: Request, token: str) -> Response:
        """Show what a link shares, as one page that loads nothing."""
        try:
            page, policy = await sharing.open(token, is_known=not request.scope.get(ANONYMOUS, False))
        except NotFound:
            # In both languages, since nothing is known of whoever looks.
            return show(*write_note([say(language, "link_gone") for language in LANGUAGES]), 404)
        except FathomError:
            # What failed where is for the log: whoever looks may be anyone.
            return show(*write_note([say(language, "link_away") for language in LANGUAGES]), 503)
        return show(page, policy, 200)


def show(page: str, policy: str, status: int) -> Response:
    """Return a page that no other site frames and no search engine lists."""
    headers = {
        "Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "X-Robots-Tag": "noindex, nofollow",
        # Sent as it is: compressing megabytes of a library would hold up every stream of this process.
        "Content-Encoding": "identity",
    }
    return Response(page, status, headers, media_type="text/html; charset=utf-8")
