"""What a command costs: `surface.run`, from the call to the agent's answer, against the floor."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from .report import Figure, at_least, at_most, note, skipped
from .visits import Scale, Visited, compare, cpu_total, median_latency, time_each

__all__ = ["measure"]

_BOTH = {"p50": median_latency, "cpu": cpu_total}


def measure(scale: Scale) -> Iterator[Figure]:
    with Visited("floor") as floor, Visited("piweb:increment") as ours:
        found = compare(floor, ours, "sequence", _BOTH, scale)
        us = f"floor {found['p50'].a / 1e3:.0f} µs, ours {found['p50'].b / 1e3:.0f} µs"
        yield at_most("call", "`def` handler, p50 / floor", found["p50"], 2.5)
        yield note("call", "  the medians of this run", found["p50"].b / 1e3, "µs", us)
        yield note("call", "  CPU of host and agent / floor", found["cpu"])
        found = compare(floor, ours, "window", {"rate": time_each}, scale, width=64)
        yield at_least("call", "64 in flight, rate / floor", found["rate"].inverse, 0.3)
        rate = f"floor {1e9 / found['rate'].a:,.0f}/s"
        yield note("call", "  calls per second in this run", 1e9 / found["rate"].b, "/s", rate)
        with Visited("floor:ours") as same:
            found = compare(same, ours, "sequence", _BOTH, scale)
            yield note("call", "  p50 / a floor that speaks our frames", found["p50"])
        for where, told in (
            ("anywhere", "left to the scheduler"),
            ("together", "host and agent on one CPU"),
        ):
            for peer in (floor, ours):
                peer.visit("place", where=where, count=1)
            found = compare(floor, ours, "sequence", _BOTH, scale)
            yield note("call", f"  p50 / floor, {told}", found["p50"])
        for peer in (floor, ours):
            peer.visit("place", where="apart", count=1)
        with Visited("piweb:increment_async") as asynchronous:
            found = compare(floor, asynchronous, "sequence", _BOTH, scale)
            yield at_most("call", "`async def` handler, p50 / floor", found["p50"], 5)
            yield note("call", "  CPU of host and agent / floor", found["cpu"])
        for peer_name, name, bar in (
            ("acp", "agent-client-protocol SDK (extension method)", 8.0),
            ("mcp:mirror", "MCP SDK (tool call, and the state mirrored)", 25.0),
            ("mcp", "MCP SDK that mirrors nothing (tool call)", None),
        ):
            module = peer_name.partition(":")[0]
            what = f"times faster than the {name}"
            if find_spec(module) is None:
                yield skipped("call", what, "not installed: pip install --group bench")
                continue
            with Visited(peer_name) as peer:
                found = compare(ours, peer, "sequence", {"p50": median_latency}, scale)
                ratio = found["p50"]
                yield at_least("call", what, ratio, bar) if bar else note("call", what, ratio)
                found = compare(floor, peer, "sequence", {"p50": median_latency}, scale)
                yield note("call", "  its p50 / floor", found["p50"])
