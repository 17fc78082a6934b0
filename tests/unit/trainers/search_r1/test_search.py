"""Searches over HTTP against a local server, and what happens when it fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fathom.core.errors import InvalidField
from fathom.core.retry import RetryPolicy
from fathom.trainers.search_r1.search import SearchClient
from fathom.transport.http import HttpPolicy, MalformedAnswer, UpstreamRefused
from tests.unit.trainers.search_r1.scripts import byte_tokenizer, manager_of

FAST = HttpPolicy(retry=RetryPolicy(attempts=3, first_delay_s=0.01, max_delay_s=0.02), read_s=0.5)


class Retriever:
    """Answers ``POST /retrieve`` with one document per query; ``failures`` are status codes it gives before."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.failures: list[int] = []
        self.shape = "scores"
        self.hang = threading.Event()
        self.hanging = False
        retriever = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                retriever.bodies.append(body)
                if retriever.hanging:
                    retriever.hang.wait(10)
                status = retriever.failures.pop(0) if retriever.failures else 200
                data = json.dumps(retriever.answer(body)).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/retrieve"

    def answer(self, body: Any) -> Any:
        documents = [{"id": query, "contents": f'"{query}"\ntext of {query}'} for query in body["queries"]]
        if self.shape == "scores":
            return {"result": [[{"document": document, "score": 1.0}] for document in documents]}
        if self.shape == "bare":
            return {"result": [[document] for document in documents]}
        if self.shape == "parallel":
            return {"result": [{"document": [document], "scores": [1.0]} for document in documents]}
        return {"result": documents[1:]}


@pytest.fixture
def retriever() -> Iterator[Retriever]:
    server = Retriever()
    thread = threading.Thread(target=server.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.hang.set()
    server.server.shutdown()
    server.server.server_close()
    thread.join(5)


def test_one_request_for_the_batch(retriever: Retriever) -> None:
    """POST {queries, topk, return_scores: true} to search_url; nothing is sent for no query."""
    manager = manager_of(None, byte_tokenizer(), search_url=retriever.url, topk=5)
    assert manager.batch_search(["a", "中文"]) == [
        'Doc 1(Title: "a") text of a\n',
        'Doc 1(Title: "中文") text of 中文\n',
    ]
    assert retriever.bodies == [{"queries": ["a", "中文"], "topk": 5, "return_scores": True}]
    assert manager.batch_search([]) == []
    assert len(retriever.bodies) == 1


@pytest.mark.parametrize("shape", ["scores", "bare", "parallel"])
def test_every_shape_of_a_server_is_understood(retriever: Retriever, shape: str) -> None:
    """With scores, without, and as the seed's parallel lists."""
    retriever.shape = shape
    assert SearchClient(retriever.url, 3).results(["a"])[0][0]["document"]["contents"] == '"a"\ntext of a'


def test_failures_are_tried_again_within_bounds(retriever: Retriever) -> None:
    """Two refusals by an overloaded server are survived; a third makes the search an observation, not an error."""
    manager = manager_of(None, byte_tokenizer(), search_url=retriever.url)
    manager._search = SearchClient(retriever.url, 3, policy=FAST)
    retriever.failures = [503, 502]
    assert manager.batch_search(["a"])[0].startswith("Doc 1")
    assert (len(retriever.bodies), manager.search_failures) == (3, 0)
    retriever.failures = [503] * 3
    observed, dones, valid, searched = manager.execute_predictions(["<search>a</search>"], "")
    assert "The search failed" in observed[0]
    assert (dones, valid, searched, manager.search_failures) == ([0], [1], [1], 1)
    assert "127.0.0.1" not in observed[0]


def test_a_server_that_hangs_costs_a_deadline(retriever: Retriever) -> None:
    """The deadline holds for all attempts together."""
    retriever.hanging = True
    manager = manager_of(None, byte_tokenizer(), search_url=retriever.url)
    manager._search = SearchClient(retriever.url, 3, timeout_s=0.3, policy=FAST)
    assert "The search failed" in manager.batch_search(["a"])[0]
    assert len(retriever.bodies) <= 3


def test_what_cannot_be_mended_is_raised(retriever: Retriever) -> None:
    """A wrong path, an answer for other queries and a missing URL end the step with their names."""
    manager = manager_of(None, byte_tokenizer(), search_url=retriever.url)
    retriever.failures = [404]
    with pytest.raises(UpstreamRefused, match="retriever"):
        manager.batch_search(["a"])
    retriever.shape = "short"
    with pytest.raises(MalformedAnswer, match="1 results for 2 queries"):
        manager.batch_search(["a", "b"])
    with pytest.raises(InvalidField, match="search_url"):
        manager_of(None, byte_tokenizer(), search_url=None).batch_search(["a"])
