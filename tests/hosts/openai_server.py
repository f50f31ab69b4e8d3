"""A model provider on the loopback: the chat completions API, answering from a script.

    with served(Script([calls(("probe", {"x": 1})), "done"])) as (url, script):
        ...

A step is a text (the final answer), a list of calls, an :class:`Overflow`, or a function of the request that gives one
of these. After the last step the script answers ``OUT``, so that a loop that nobody stops ends with a sign of it. A
request with a call that has no result, or a result of no call, is answered 400, as real providers do.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias

OUT = "the script is out of answers"


class ModelCall(NamedTuple):
    """One tool call as the model writes it; ``arguments`` may be text that is no JSON."""

    id: str
    name: str
    arguments: str


class Overflow:
    """The provider refuses: the context is too long."""


Step: TypeAlias = "str | list[ModelCall] | Overflow | Callable[[dict[str, Any]], Step]"
_ids = iter(range(1, 1_000_000))


def calls(*wanted: tuple[str, Any]) -> list[ModelCall]:
    """A response with these calls, ``(name, arguments)``, each with an id of its own."""
    return [
        ModelCall(f"call_{next(_ids)}", name, args if isinstance(args, str) else json.dumps(args))
        for name, args in wanted
    ]


class Script:
    """Answers in order, and remembers every request."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = list(steps)
        self.requests: list[dict[str, Any]] = []
        self.side: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> Step:
        """The next step. A request without tools is the host's own (summaries, titles) and takes none."""
        with self._lock:
            if not request.get("tools"):
                self.side.append(request)
                return "summary: the user asked for something, tools were called"
            self.requests.append(request)
            step: Step = self.steps.pop(0) if self.steps else OUT
        while callable(step):
            step = step(request)
        return step

    def seen(self, call_id: str) -> str:
        """What the model was shown as the result of a call, in the last request that has it; empty if never."""
        for request in reversed(self.requests):
            for message in request["messages"]:
                if message.get("tool_call_id") == call_id:
                    return str(message["content"])
        return ""


@contextmanager
def served(*scripts: Script) -> Iterator[list[str]]:
    """One base URL for each script."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(scripts))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield [f"http://127.0.0.1:{server.server_port}/{at}/v1" for at in range(len(scripts))]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(scripts: tuple[Script, ...]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            return

        def do_GET(self) -> None:
            self._send(404, "application/json", b"{}")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if not self.path.endswith("/chat/completions"):
                self._send(404, "application/json", b"{}")
                return
            if (lonely := _unanswered(request["messages"])) is not None:
                told = {"error": {"message": f"no result for tool call {lonely}", "type": "invalid_request_error"}}
                self._send(400, "application/json", json.dumps(told).encode())
                return
            step = scripts[int(self.path.split("/")[1])].answer(request)
            if isinstance(step, Overflow):
                said = "This model's maximum context length is 4096 tokens, your messages resulted in 9000 tokens."
                error = {"message": said, "type": "invalid_request_error", "code": "context_length_exceeded"}
                self._send(400, "application/json", json.dumps({"error": error}).encode())
                return
            message, why = _message(step)
            stream = request.get("stream")
            choice = {"index": 0, "delta" if stream else "message": message, "finish_reason": why}
            body = {
                "id": "answer",
                "object": "chat.completion.chunk" if stream else "chat.completion",
                "created": 1,
                "model": request.get("model", "scripted"),
                "choices": [choice],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }
            text = json.dumps(body)
            if stream:
                self._send(200, "text/event-stream", f"data: {text}\n\ndata: [DONE]\n\n".encode())
            else:
                self._send(200, "application/json", text.encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _unanswered(messages: list[dict[str, Any]]) -> str | None:
    """The first call without a result right behind its response; real providers refuse such a request."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool" and message.get("tool_call_id") in open_calls:
            open_calls.remove(message["tool_call_id"])
        elif open_calls or message["role"] == "tool":
            return open_calls[0] if open_calls else str(message.get("tool_call_id"))
        else:
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    return open_calls[0] if open_calls else None


def _message(step: Step) -> tuple[dict[str, Any], str]:
    if isinstance(step, str):
        return {"role": "assistant", "content": step}, "stop"
    assert isinstance(step, list)
    written = [
        {
            "index": at,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for at, call in enumerate(step)
    ]
    return {"role": "assistant", "content": None, "tool_calls": written}, "tool_calls"
