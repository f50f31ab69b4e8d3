"""A model provider on the loopback: the Messages API, scripted and strict as in ``openai_server``."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from openai_server import OUT, ModelCall, Step


class Dialogue:
    """Answers in order, and remembers every request of the session; summaries and titles are the host's own."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = list(steps)
        self.requests: list[dict[str, Any]] = []
        self.side: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> Step:
        """The next step."""
        with self._lock:
            if not request.get("tools") or _asks_for_a_summary(request):
                self.side.append(request)
                return "<analysis>short</analysis><summary>The user said go, and tools ran.</summary>"
            self.requests.append(request)
            step: Step = self.steps.pop(0) if self.steps else OUT
        while callable(step):
            step = step(request)
        return step

    def results(self, number: int = -1) -> list[str]:
        """The texts of all tool results in a request, in order."""
        contents = [message["content"] for message in self.requests[number]["messages"]]
        blocks = [block for content in contents if isinstance(content, list) for block in content]
        return [text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]

    def said(self, number: int = -1) -> str:
        """Everything in a request's messages that the model reads as text, tool results too."""
        return "\n".join(text_of(message["content"]) for message in self.requests[number]["messages"])


def text_of(content: Any) -> str:
    """The text in a message's or a result's content."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or text_of(block.get("content") or "")) for block in content or [] if block)


def _asks_for_a_summary(request: dict[str, Any]) -> bool:
    last = text_of(request["messages"][-1]["content"])[-600:]
    return "Do NOT call any tools" in last or "how to write this summary" in last


@contextmanager
def serving(dialogue: Dialogue) -> Iterator[str]:
    """The base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(dialogue))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(dialogue: Dialogue) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            return

        def do_GET(self) -> None:
            self._send(404, "application/json", b"{}")

        def do_HEAD(self) -> None:
            self._send(200, "application/json", b"")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            if self.path.split("?")[0].endswith("/count_tokens"):
                self._send(200, "application/json", b'{"input_tokens": 10}')
            elif not self.path.split("?")[0].endswith("/messages"):
                self._send(404, "application/json", b"{}")
            else:
                self._answer(request)

        def _answer(self, request: dict[str, Any]) -> None:
            if (lonely := _unanswered(request["messages"])) is not None:
                told = {"type": "invalid_request_error", "message": f"no tool_result for {lonely}"}
                self._send(400, "application/json", json.dumps({"type": "error", "error": told}).encode())
                return
            step = dialogue.answer(request)
            if not isinstance(step, (str, list)):
                error = {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 210000 tokens > 200000 maximum",
                }
                self._send(400, "application/json", json.dumps({"type": "error", "error": error}).encode())
                return
            blocks, why = _blocks(step)
            usage = {"input_tokens": 10, "output_tokens": 5}
            message = {
                "id": f"msg_{len(dialogue.requests)}_{len(dialogue.side)}",
                "type": "message",
                "role": "assistant",
                "model": request.get("model"),
                "stop_sequence": None,
                "usage": usage,
            }
            if not request.get("stream"):
                whole = {**message, "content": blocks, "stop_reason": why}
                self._send(200, "application/json", json.dumps(whole).encode())
                return
            events: list[dict[str, Any]] = [
                {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
            ]
            for at, block in enumerate(blocks):
                events += _streamed(at, block)
            delta = {"stop_reason": why, "stop_sequence": None}
            events += [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._send(200, "text/event-stream", text.encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _unanswered(messages: list[dict[str, Any]]) -> str | None:
    """A call without a result in the message behind it; the real provider refuses such a request."""
    wanted: set[str] = set()
    for message in messages:
        content = message["content"] if isinstance(message["content"], list) else []
        wanted -= {block["tool_use_id"] for block in content if block["type"] == "tool_result"}
        if wanted:
            return min(wanted)
        wanted = {block["id"] for block in content if block["type"] == "tool_use"}
    return min(wanted, default=None)


def _blocks(step: str | list[ModelCall]) -> tuple[list[dict[str, Any]], str]:
    if isinstance(step, str):
        return [{"type": "text", "text": step}], "end_turn"
    return [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)} for call in step
    ], "tool_use"


def _streamed(at: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "content_block_start", "index": at, "content_block": empty},
        {"type": "content_block_delta", "index": at, "delta": delta},
        {"type": "content_block_stop", "index": at},
    ]
