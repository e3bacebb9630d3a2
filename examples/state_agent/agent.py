"""Shared state without a surface: a tool counts words, a view or a cell sets how."""

from __future__ import annotations

from piweb_jupyter.agent import define_agent, get_session_state

agent = define_agent(
    system_prompt="You count words. Use the count_words tool.",
    model="stub",  # answers without a key; name another with --model provider:name
)

# What the agent has found out, and what its user prefers, are two keys: the agent writes the first,
# whoever looks at it writes the second.
TOTAL = "words.total"
SHORTEST = "words.shortest"


@agent.tool
def count_words(text: str) -> int:
    """Count the words of a text, and add them to the total. Short words may be left out."""
    state = get_session_state()
    shortest = state.get(SHORTEST) or 1
    found = sum(len(word) >= shortest for word in text.split())
    state.set(TOTAL, (state.get(TOTAL) or 0) + found)
    return found
