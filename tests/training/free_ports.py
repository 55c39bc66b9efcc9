"""Addresses on this machine for workers that a test starts."""

from __future__ import annotations

import contextlib
import socket


def local_hosts(count: int) -> list[str]:
    """Hosts and ports, as host:port, that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0)))) for _ in range(count)
        ]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
