"""An agent of your own. Start it in a notebook: %piweb DIRECTORY

Change this file, then press "restart" in the view (or run `%piweb restart`): the notebook goes on
with the new code. What it prints goes to its log (`%piweb logs`), not into the conversation.
"""

from __future__ import annotations

from pydantic import BaseModel

from piweb_jupyter.agent import Context, SurfaceCommandError, create_surface, define_agent


# The state: what there is to see. It lives in this process, and only commands change it. Views,
# notebook cells and the model are shown each new version of it.
class Todo(BaseModel):
    items: list[str] = []
    done: int = 0


# A surface is a state with a name. `view="view.js"` would draw it your way; without one there is a
# view made from the types below.
todo = create_surface("todo", Todo, title="To do")


# A command is a function. Its arguments become a form in the view, its docstring tells the model
# what the tool is for, and a cell calls it with
#     piweb.open(name=…).surface("todo").run("add", text="water the plants")
@todo.command
def add(ctx: Context[Todo], text: str) -> int:
    """Put something on the list. Returns how long the list is."""
    state = ctx.set_state(lambda s: s.model_copy(update={"items": [*s.items, text]}))
    return len(state.items)


@todo.command
def finish(ctx: Context[Todo], text: str) -> str:
    """Take something off the list, because it is done."""
    if text not in ctx.get().items:
        # Whoever asked is told; `code` is for programs, the sentence for people and the model.
        raise SurfaceCommandError("not_found", f"{text!r} is not on the list")

    def without(state: Todo) -> Todo:
        left = [item for item in state.items if item != text]
        return Todo(items=left, done=state.done + 1)

    ctx.set_state(without)
    return text


agent = define_agent(
    system_prompt="You keep a list of things to do. Use your tools to change it.",
    # `stub` needs no key, and does what lines like  CALL add {"text": "tea"}  say. A real model:
    # pip install 'piweb-jupyter[llm]', then "openai:gpt-…", "anthropic:claude-…", …
    model="stub",
    surfaces=[todo],
)


# A tool is for the model alone: no state, no button.
@agent.tool
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
