"""No name of another machine resolves: hosts that look something up at start fail at once instead of waiting."""

from __future__ import annotations

import socket
from typing import Any

import pytest

_resolve = socket.getaddrinfo


def no_network(patch: pytest.MonkeyPatch) -> None:
    """Only this machine has a name."""

    def resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host in (None, "localhost", "127.0.0.1", "::1", "", b"127.0.0.1", b"localhost"):
            return _resolve(host, *args, **kwargs)
        raise socket.gaierror(socket.EAI_NONAME, "no network in tests")

    patch.setattr(socket, "getaddrinfo", resolve)
