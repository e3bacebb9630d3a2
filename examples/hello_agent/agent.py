"""The smallest agent: a model, a tool, and nothing to look at but the chat."""

from __future__ import annotations

from piweb_jupyter.agent import define_agent

agent = define_agent(
    system_prompt="You greet people by name. Use the greet tool.",
    model="stub",  # answers without a key; name another with --model provider:name
)

GREETINGS = {"en": "Hello", "de": "Hallo", "fr": "Bonjour", "es": "Hola"}


@agent.tool
def greet(name: str, language: str = "en") -> str:
    """Greet somebody by name. `language` is en, de, fr or es."""
    return f"{GREETINGS.get(language, GREETINGS['en'])}, {name}!"
