"""Pages in headless Chromium, watched for what they ask for outside and for what they complain about."""

from __future__ import annotations

import shutil

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Expect, Page, Request

from tests.e2e.script import QUESTION

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# In a container Chromium cannot build its own sandbox; the rest keeps it from calling home, which would be counted.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def make_expect(timeout_ms: float) -> Expect:
    """Return assertions that wait so long: playwright's own are one object for all tests, with one setting."""
    made = Expect()
    made.set_options(timeout=timeout_ms)
    return made


# Only a failure takes so long; an answer of the real stack on a slow machine takes tens of seconds.
expect = make_expect(60_000)


class Watched:
    """A page with what it asked for outside and what it complained about."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self._base = page, base
        self.outside: list[str] = []
        self.complaints: list[str] = []
        page.on("request", self._request)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _request(self, request: Request) -> None:
        # Pictures of figures are made as data and blobs, and leave the page no more than a variable does.
        if not request.url.startswith((self._base, "data:", "blob:")):
            self.outside.append(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)


async def open_page(browser: Browser, url: str, *, width: int = 1440, height: int = 900, **options: str) -> Watched:
    context: BrowserContext = await browser.new_context(
        # A size, language and theme of the test's own: those of the machine would decide what is visible.
        viewport={"width": width, "height": height},
        locale=options.get("locale", "en-US"),
        color_scheme="dark" if options.get("theme") == "dark" else "light",
    )
    # As for `expect`: a page of some megabytes is slow where much else runs.
    context.set_default_timeout(60_000)
    watched = Watched(await context.new_page(), url.split("/?")[0])
    await watched.page.goto(url)
    return watched


async def ask(page: Page, question: str = QUESTION) -> None:
    await page.locator("#question").fill(question)
    await page.locator("#question").press("Enter")
