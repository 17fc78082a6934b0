"""Fetching a page from local servers: where it may lead, how much it may be, how long it may take.

127.0.0.1 plays the outside world here (``fetch_networks`` allows it), 127.0.0.2 the private network.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import (
    DeadlineExceeded,
    DependencyFailed,
    FathomError,
    InvalidField,
    Overloaded,
    UnreadableContent,
)
from fathom.services.retrieval.web import BlockedAddress, PageFetcher, WebConfig
from fathom.services.retrieval.web.addresses import is_reachable, split_url
from fathom.transport.http import AnswerTooLarge, UpstreamRefused
from tests.support.waiting import eventually

Serve = Callable[..., Awaitable[str]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ARTICLE = (
    "<html><head><title>Profit up</title></head><body><nav>Menu</nav><article><h1>Profit up</h1>"
    + "<p>The company's profit rose by a third to 4.2 billion in the first quarter of the year.</p>" * 3
    + "</article></body></html>"
)


def config(**changes: Any) -> WebConfig:
    return WebConfig(**{"fetch_ports": (), "fetch_networks": ("127.0.0.1/32",), "fetch_seconds": 5.0, **changes})


def page(body: str | bytes = ARTICLE, content_type: str = "text/html; charset=utf-8", **headers: str) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        data = body.encode() if isinstance(body, str) else body
        return web.Response(body=data, headers={"Content-Type": content_type, **headers})

    return handler


def redirect_to(location: str) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": location})

    return handler


async def test_the_readable_text_of_a_page(serve: Serve) -> None:
    url = await serve({"/a": page()})
    found = await PageFetcher(config()).fetch(f"{url}/a#part")
    assert found.document.title == "Profit up"
    assert "4.2 billion" in found.document.text
    assert "Menu" not in found.document.text
    assert (found.url, found.media_type.partition(";")[0]) == (f"{url}/a", "text/html")


async def test_plain_text_and_compressed_pages(serve: Serve) -> None:
    url = await serve({
        "/t": page("# Notes\n\nCash is king.", "text/plain"),
        "/z": page(gzip.compress(ARTICLE.encode()), **{"Content-Encoding": "gzip"}),
    })  # fmt: skip
    fetcher = PageFetcher(config())
    assert (await fetcher.fetch(f"{url}/t")).document.text == "Cash is king."
    assert (await fetcher.fetch(f"{url}/z")).document.title == "Profit up"


@pytest.mark.parametrize(
    "url",
    [
        # By row: this machine; private networks, metadata of clouds; the same within IPv6; other spellings, broadcast.
        "http://127.0.0.2/", "http://127.1.2.3:8080/", "http://[::1]/", "http://0.0.0.0/",
        "http://10.0.0.5/", "http://192.168.1.1/", "http://172.16.3.4/", "http://169.254.169.254/latest/meta-data/",
        "http://100.100.100.200/", "http://168.63.129.16/", "http://[fe80::1]/", "http://[fd00:ec2::254]/",
        "http://[::ffff:10.0.0.1]/", "http://[::ffff:a9fe:a9fe]/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::]/", "http://[2002:808:808::]/",
        "http://2130706434/", "http://0x7f.0.0.2/", "http://127.2/", "http://224.0.0.1/", "http://255.255.255.255/",
    ],
)  # fmt: skip
async def test_private_local_and_metadata_addresses_are_refused(url: str) -> None:
    with pytest.raises(BlockedAddress) as blocked:
        await PageFetcher(config()).fetch(url)
    assert blocked.value.field == "url"


async def test_the_own_machine_is_refused_by_name_too(serve: Serve) -> None:
    port = urlsplit(await serve({"/": page()})).port
    with pytest.raises(BlockedAddress):
        await PageFetcher(WebConfig(fetch_ports=())).fetch(f"http://localhost:{port}/")


async def test_public_addresses_are_not_refused() -> None:
    # Without this a fetcher that refuses everything would pass the tests around it.
    for text in ("8.8.8.8", "93.184.216.34", "2606:2800:220:1::1"):
        assert is_reachable(ipaddress.ip_address(text), ())
    assert not is_reachable(ipaddress.ip_address("127.0.0.1"), ())


@given(st.ip_addresses())
def test_nothing_that_is_not_global_is_reachable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not address.is_global:
        assert not is_reachable(address, ())


@pytest.mark.parametrize(
    "url",
    ["", "page", "ftp://a.example/", "file:///etc/passwd", "http://", "http://user:pw@a.example/", "http://a b/",
     "http://a.example\\@127.0.0.1/", "http://a.example/\r\nx: y", "http://a.example:99999/", "http://" + "a" * 3000],
)  # fmt: skip
async def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(InvalidField) as invalid:
        await PageFetcher(config()).fetch(url)
    assert invalid.value.field == "url"


def test_ports_and_names() -> None:
    with pytest.raises(BlockedAddress, match="port 22"):
        split_url("http://a.example:22/", (80, 443))
    # One form for a name: lower case, in ASCII, without the point of the root, so that lists of names match it.
    assert split_url("HTTPS://Bücher.Example./a?b=1", (443,)) == ("https", "xn--bcher-kva.example", 443, "/a?b=1")


async def test_a_name_is_resolved_once_and_that_address_is_connected_to(serve: Serve) -> None:
    """A name that is public at first and private the second time (DNS rebinding) is never asked for again."""
    hosts: list[str] = []

    async def public(request: web.Request) -> web.Response:
        hosts.append(request.host)
        return web.Response(text=ARTICLE, content_type="text/html")

    port = urlsplit(await serve({"/": public})).port
    asked: list[str] = []

    async def rebinding(host: str, _: int) -> Sequence[str]:
        asked.append(host)
        # 127.0.0.1 is allowed here as public addresses are; whoever asks a second time gets the private network.
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    fetcher = PageFetcher(config(), rebinding)
    assert (await fetcher.fetch(f"http://news.example:{port}/")).document.title == "Profit up"
    assert (asked, hosts) == (["news.example"], [f"news.example:{port}"])
    with pytest.raises(BlockedAddress):
        await fetcher.fetch(f"http://news.example:{port}/")


def certify(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's context with a certificate for ``host``, and a client's that trusts it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
    # The name is in the extension: clients have not read the common name for years.
    name = ["-days", "2", "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
    subprocess.run([*command, *name], check=True, capture_output=True)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    return serving, ssl.create_default_context(cafile=str(certificate))


async def test_a_certificate_is_checked_by_name_though_the_address_is_connected_to(tmp_path: Path) -> None:
    serving, trusted = certify(tmp_path, "news.example")
    app = web.Application()
    app.router.add_get("/", page())

    async def local(_: str, __: int) -> Sequence[str]:
        return ["127.0.0.1"]

    server = TestServer(app, scheme="https")
    await server.start_server(ssl=serving)
    async with server:
        # One attempt: a certificate does not become right by asking again.
        fetcher = PageFetcher(config(fetch_attempts=1), local, trusted)
        found = await fetcher.fetch(f"https://news.example:{server.port}/")
        assert found.document.title == "Profit up"
        with pytest.raises(DependencyFailed, match="cannot be reached"):
            await fetcher.fetch(f"https://other.example:{server.port}/")
        with pytest.raises(DependencyFailed, match="cannot be reached"):
            await PageFetcher(config(fetch_attempts=1), local).fetch(f"https://news.example:{server.port}/")


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    async def resolve_both(_: str, __: int) -> Sequence[str]:
        return ["127.0.0.1", "10.0.0.1"]

    with pytest.raises(BlockedAddress):
        await PageFetcher(config(), resolve_both).fetch("http://news.example/")


async def test_redirects_are_followed_and_each_is_checked(serve: Serve) -> None:
    reached: list[str] = []

    async def private(request: web.Request) -> web.Response:
        reached.append(request.path)
        return web.Response(text=ARTICLE, content_type="text/html")

    # Listening on the "private" address: that it was not reached is what shows that the redirect was checked.
    inside = await serve({"/secret": private}, host="127.0.0.2")
    url = await serve({
        "/a": redirect_to("/b"), "/b": page(), "/in": redirect_to(f"{inside}/secret"), "/file": redirect_to("file:///etc/passwd"), "/loop": redirect_to("/loop"),
    })  # fmt: skip
    fetcher = PageFetcher(config())
    assert (await fetcher.fetch(f"{url}/a")).url == f"{url}/b"
    with pytest.raises(BlockedAddress):
        await fetcher.fetch(f"{url}/in")
    with pytest.raises(InvalidField, match="file"):
        await fetcher.fetch(f"{url}/file")
    with pytest.raises(UpstreamRefused, match="redirects"):
        await fetcher.fetch(f"{url}/loop")
    # Not even connected to: a request alone can do harm in a private network.
    assert reached == []


async def test_size_kind_and_emptiness(serve: Serve) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        # Eleven megabytes against a limit of 0.2, without a length that would give them away.
        for _ in range(1_000):
            await response.write(b"<p>more</p>" * 1_000)
        return response

    # Sixteen megabytes that travel as some kilobytes: the limit counts what comes out of the decompression.
    bomb = gzip.compress(b"<p>x</p>" * 2_000_000)
    url = await serve({
        "/endless": endless, "/bomb": page(bomb, **{"Content-Encoding": "gzip"}), "/png": page(b"\x89PNG", "image/png"),
        "/none": page(b"\x00\x01", ""), "/empty": page("<html><body></body></html>"), "/nojs": page("<html><script>x</script></html>"),
    })  # fmt: skip
    fetcher = PageFetcher(config(fetch_bytes=200_000))
    for path in ("/endless", "/bomb"):
        with pytest.raises(AnswerTooLarge):
            await fetcher.fetch(url + path)
    with pytest.raises(UnreadableContent, match="image/png"):
        await fetcher.fetch(f"{url}/png")
    with pytest.raises(UnreadableContent):
        await fetcher.fetch(f"{url}/none")
    for path in ("/empty", "/nojs"):
        with pytest.raises(UnreadableContent):
            await fetcher.fetch(url + path)


async def test_a_busy_host_is_tried_again_as_it_wishes(serve: Serve) -> None:
    calls = 0

    async def busy(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        if calls < 3:
            # Both say "later"; with a delay of 0 the test does not wait.
            return web.Response(status=429 if calls == 1 else 503, headers={"Retry-After": "0"})
        return web.Response(text=ARTICLE, content_type="text/html")

    async def patience(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "60"})

    async def answer_404(_: web.Request) -> web.Response:
        return web.Response(status=404)

    url = await serve({"/busy": busy, "/patience": patience, "/gone": answer_404})
    fetcher = PageFetcher(config())
    assert (await fetcher.fetch(f"{url}/busy")).document.title == "Profit up"
    assert calls == 3
    # Had it waited for the second attempt, the error would be the deadline's.
    with pytest.raises(Overloaded) as overloaded:
        await fetcher.fetch(f"{url}/patience")
    assert overloaded.value.retry_after_s == 60
    with pytest.raises(UpstreamRefused, match="404"):
        await fetcher.fetch(f"{url}/gone")


async def test_a_slow_host_costs_no_more_than_its_time(serve: Serve) -> None:
    release = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        released = asyncio.create_task(release.wait())
        # Always something, never the end: a timeout between two pieces of the body would never strike.
        while not released.done():
            await response.write(b"<p>")
            await asyncio.wait([released], timeout=0.01)
        return response

    url = await serve({"/drip": drip})
    with pytest.raises(DeadlineExceeded):
        await PageFetcher(config(fetch_seconds=0.3)).fetch(f"{url}/drip")
    release.set()


async def test_few_fetches_per_host_at_a_time_and_hosts_are_forgotten(serve: Serve) -> None:
    running = most = 0
    release = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return web.Response(text=ARTICLE, content_type="text/html")

    async def quick(_: web.Request) -> web.Response:
        return web.Response(text=ARTICLE, content_type="text/html")

    url = await serve({"/a": handler, "/quick": quick})
    fetcher = PageFetcher(config(fetch_per_host=2))
    fetches = [asyncio.create_task(fetcher.fetch(f"{url}/a")) for _ in range(8)]
    await eventually(lambda: running == 2)
    await PageFetcher(config()).fetch(f"{url}/quick")  # a third one, had it begun, would have arrived before this
    release.set()
    await asyncio.gather(*fetches)
    assert most == 2
    assert fetcher._lanes.hosts == {}


async def test_unknown_names_and_closed_doors_are_typed() -> None:
    async def unknown(_: str, __: int) -> Sequence[str]:
        # What the system's resolver raises.
        raise OSError("no such name")

    fetcher = PageFetcher(config(fetch_attempts=1), unknown)
    with pytest.raises(DependencyFailed, match="resolved"):
        await fetcher.fetch("http://news.example/")
    with pytest.raises(FathomError):
        await PageFetcher(config(fetch_attempts=1)).fetch("http://127.0.0.1:1/")
