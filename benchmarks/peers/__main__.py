"""`python -m benchmarks.peers NAME`: one peer, taking orders."""

from __future__ import annotations

import sys

from .base import Peer, serve


def _make(name: str) -> Peer:
    # A peer must carry the weight of its own imports only.
    match name.split(":"):
        case ["floor"]:
            from .floor import Floor

            return Floor()
        case ["floor", wire]:
            from .floor import Floor

            return Floor(wire)
        case ["piweb", action]:
            from .piweb import Piweb

            return Piweb(action)
        case ["acp"]:
            from .acp_peer import Acp

            return Acp()
        case ["mcp"]:
            from .mcp_peer import Mcp

            return Mcp()
        case ["mcp", "mirror"]:
            from .mcp_peer import Mcp

            return Mcp(mirrors=True)
    raise SystemExit(f"there is no peer {name!r}")


if __name__ == "__main__":
    serve(lambda: _make(sys.argv[1]))
