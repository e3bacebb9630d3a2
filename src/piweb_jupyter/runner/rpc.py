"""The RPC loop: pi's commands answered, in pi's forms and order.

Imported at the agent's start, so it stands on nothing heavy: an event loop and a model's engine are
imported with the first prompt. Every answer goes through the one writer; a command that takes
time answers later, and the reader goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ..errors import ProtocolError
from ..wire.events import Event, SessionInfoChanged, ThinkingLevelChanged, encode_event
from ..wire.frames import encode_clear_queue_result
from ..wire.host_frames import ClearQueueRequest
from ..wire.json import JSON
from ..wire.rpc import Response, RpcCommand, encode_response
from ..wire.surface import domain_of, surface_key
from .chat import Chat, QueueKind, QueueMode, UserInput, last_text, text_of
from .model import NO_MODEL, STUB, THINKING_LEVELS, Fields, ModelError, ModelRef, describe_model

if TYPE_CHECKING:
    from .conversation import Conversation
    from .runtime import Runtime

__all__ = ["RpcLoop"]

_Answer: TypeAlias = Callable[[JSON], None]


class _Refusal(Exception):  # noqa: N818 - it becomes an answer, never a traceback
    """A command is refused; the text is the answer's `error`."""


class RpcLoop:
    """Answers conversation commands. `handle` is called by the reader, one line after the other."""

    def __init__(
        self, runtime: Runtime, *, model: str | None = None, session_id: str | None = None
    ) -> None:
        """`model` and `session_id` come from the command line; the agent's own model is second.

        Raises:
            ModelError: If the model is named in no form that could be one, or the agent's thinking
                level is none.
        """
        self._runtime = runtime
        name = model or runtime.agent.model
        thinking = runtime.agent.thinking
        if thinking is not None and thinking not in THINKING_LEVELS:
            raise ModelError(
                f"thinking={thinking!r} is no level; there are: {', '.join(THINKING_LEVELS)}"
            )
        self.chat = Chat(
            self._put,
            runtime.writer.flush,
            model=ModelRef.parse(name) if name else None,
            thinking=thinking,
            session_id=session_id or "",
        )
        self._conversation: Conversation | None = None
        self._closed = False

    def emit(self, event: Event) -> None:
        """Write one event; none after `close`. Safe from any thread."""
        if not self._closed:
            self._runtime.writer.write(encode_event(event))

    def _put(self, event: Event) -> None:
        if not self._closed:
            self._runtime.writer.put(encode_event(event))

    def handle(self, command: RpcCommand | ClearQueueRequest) -> None:
        """Answer one command, now or later. Never raises, never waits for a model."""
        if isinstance(command, ClearQueueRequest):
            steering, follow_up = self.chat.clear_queue()
            self._runtime.writer.write(encode_clear_queue_result(command.id, steering, follow_up))
            return
        handler = _COMMANDS.get(command.type) if isinstance(command.type, str) else None
        try:
            if handler is None:
                raise _Refusal(f"Unknown command: {_name_of(command)}")
            handler(self, command)
        except (_Refusal, ModelError) as refusal:
            self._refuse(command, str(refusal))

    def refuse_line(self, error: ProtocolError) -> None:
        """Answer a line that is not JSON, as pi does: without an id."""
        text = f"Failed to parse command: {error}"
        self._respond(Response(None, "parse", False, error=text))

    def close(self) -> None:
        """Drop what is running, without another word. Safe from any thread."""
        self._closed = True
        if self._conversation is not None:
            self._conversation.abort()

    # ------------------------------------------------------------ answers

    def _answer(self, command: RpcCommand, data: JSON = None) -> None:
        self._respond(Response(command.id, command.type, True, data))

    def _refuse(self, command: RpcCommand, error: str) -> None:
        self._respond(Response(command.id, command.type, False, error=error))

    def _respond(self, response: Response) -> None:
        if not self._closed:
            self._runtime.writer.write(encode_response(response))

    def _talk(self) -> Conversation:
        """The conversation engine, imported when it is first needed."""
        if self._conversation is None:
            from .conversation import Conversation

            self._conversation = Conversation(self._runtime, self.chat, self.emit)
        return self._conversation

    # ------------------------------------------------------------ talking

    def _prompt(self, command: RpcCommand) -> None:
        item = _user_input(command)
        behavior = command.fields.get("streamingBehavior")
        if behavior not in (None, "steer", "followUp"):
            raise _Refusal('prompt: `streamingBehavior` must be "steer" or "followUp"')
        if self._is_probe(item.text):
            self._answer(command, {"disposition": "handled"})
            return
        if behavior is not None and self.chat.enqueue(behavior, item, if_busy=True):
            self._answer(command, {"disposition": "queued"})
            return
        model = self.chat.model
        if model is None:
            raise _Refusal(NO_MODEL)
        if not self.chat.claim():
            raise _Refusal(
                "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') "
                "to queue the message."
            )

        def started(error: str | None) -> None:
            if error is None:
                self._answer(command, {"disposition": "started"})
            else:
                self._refuse(command, error)

        self._talk().start(item, model, started)

    def _is_probe(self, text: str) -> bool:
        """Is it a surface's probe command? Those exist to be listed, and do nothing."""
        name = text[1:].split(None, 1)[0] if text[:1] == "/" and text[1:].strip() else ""
        domain = domain_of(name)
        return domain is not None and domain in self._runtime.surfaces.domains

    def _steer(self, command: RpcCommand) -> None:
        self._enqueue(command, "steer")

    def _follow_up(self, command: RpcCommand) -> None:
        self._enqueue(command, "followUp")

    def _enqueue(self, command: RpcCommand, kind: QueueKind) -> None:
        item = _user_input(command)
        if self._is_probe(item.text):
            raise _Refusal(
                f'Extension command "{item.text.split(None, 1)[0]}" cannot be queued. '
                "Use prompt to run it."
            )
        self.chat.enqueue(kind, item)
        self._answer(command, {"disposition": "queued"})

    def _abort(self, command: RpcCommand) -> None:
        self._after_abort(lambda: self._answer(command))

    def _after_abort(self, then: Callable[[], None]) -> None:
        self.chat.when_settled(then)
        if self._conversation is not None:
            self._conversation.abort()

    def _clear_queue(self, command: RpcCommand) -> None:
        steering, follow_up = self.chat.clear_queue()
        self._answer(command, {"steering": steering, "followUp": follow_up})

    # ------------------------------------------------------------ session

    def _new_session(self, command: RpcCommand) -> None:
        def renew() -> None:
            self.chat.reset()
            self._answer(command, {"cancelled": False})

        self._after_abort(renew)

    def _fork(self, command: RpcCommand) -> None:
        entry_id = _text(command, "entryId")

        def fork() -> None:
            text = self.chat.fork(entry_id)
            if text is None:
                self._refuse(command, "Invalid entry ID for forking")
            else:
                self._answer(command, {"text": text, "cancelled": False})

        self._after_abort(fork)

    def _get_fork_messages(self, command: RpcCommand) -> None:
        found = [
            {"entryId": entry.id, "text": text_of(entry.message)}
            for entry in self.chat.entries()
            if entry.message["role"] == "user"
        ]
        self._answer(command, {"messages": found})

    def _set_session_name(self, command: RpcCommand) -> None:
        name = _text(command, "name").strip()
        if not name:
            raise _Refusal("Session name cannot be empty")
        self.chat.session_name = name
        self.emit(SessionInfoChanged(name))
        self._answer(command)

    def _get_state(self, command: RpcCommand) -> None:
        self._answer(command, self.chat.state())

    def _get_messages(self, command: RpcCommand) -> None:
        self._answer(command, {"messages": self.chat.messages()})

    def _get_session_stats(self, command: RpcCommand) -> None:
        self._answer(command, self.chat.stats())

    def _get_last_assistant_text(self, command: RpcCommand) -> None:
        text = last_text(self.chat.messages())
        self._answer(command, {} if text is None else {"text": text})

    def _get_commands(self, command: RpcCommand) -> None:
        where = {
            "path": self._runtime.agent_path,
            "source": "local",
            "scope": "project",
            "origin": "top-level",
        }
        commands = [
            {
                "name": surface_key(domain),
                "description": f"Surface {domain}",
                "source": "extension",
                "sourceInfo": where,
            }
            for domain in self._runtime.surfaces.domains
        ]
        self._answer(command, {"commands": commands})

    # ------------------------------------------------------------ model and levels

    def _set_model(self, command: RpcCommand) -> None:
        provider, name = _text(command, "provider"), _text(command, "modelId")
        self._use_model(ModelRef(provider, name), lambda info: self._answer(command, info), command)

    def _use_model(self, ref: ModelRef, answer: _Answer, command: RpcCommand) -> None:
        """Switch once the model is known to be usable; `answer` gets it in pi's form."""
        if ref == STUB:
            self.chat.set_model(ref, describe_model(ref))
            answer(self.chat.model_info(ref))
            return

        def checked(info: Fields | None, error: str) -> None:
            if info is None:
                self._refuse(command, f"Model not found: {ref.provider}/{ref.id}: {error}")
            else:
                self.chat.set_model(ref, info)
                answer(info)

        self._talk().check(ref, checked)

    def _cycle_model(self, command: RpcCommand) -> None:
        models = self.chat.models
        if len(models) < 2:
            self._answer(command)
            return
        model = self.chat.model
        index = models.index(model) + 1 if model in models else 0
        ref = models[index % len(models)]

        def answer(info: JSON) -> None:
            level = self.chat.level
            self._answer(command, {"model": info, "thinkingLevel": level, "isScoped": False})

        self._use_model(ref, answer, command)

    def _get_available_models(self, command: RpcCommand) -> None:
        models = [self.chat.model_info(ref) for ref in self.chat.models]
        self._answer(command, {"models": models})

    def _levels(self) -> list[str]:
        return list(THINKING_LEVELS) if self.chat.model is not None else ["off"]

    def _set_level(self, level: str) -> None:
        before, self.chat.thinking = self.chat.level, level
        if level != before:
            self.emit(ThinkingLevelChanged(level))

    def _set_thinking_level(self, command: RpcCommand) -> None:
        level = _text(command, "level")
        # pi's: it never fails, an unknown level is "off".
        self._set_level(level if level in self._levels() else "off")
        self._answer(command)

    def _cycle_thinking_level(self, command: RpcCommand) -> None:
        levels = self._levels()
        if len(levels) < 2:
            self._answer(command)
            return
        level = levels[(levels.index(self.chat.level) + 1) % len(levels)]
        self._set_level(level)
        self._answer(command, {"level": level})

    def _get_available_thinking_levels(self, command: RpcCommand) -> None:
        self._answer(command, {"levels": self._levels()})

    def _set_steering_mode(self, command: RpcCommand) -> None:
        self.chat.steering_mode = _mode(command)
        self._answer(command)

    def _set_follow_up_mode(self, command: RpcCommand) -> None:
        self.chat.follow_up_mode = _mode(command)
        self._answer(command)

    def _nothing_to_do(self, command: RpcCommand) -> None:
        self._answer(command)


def _name_of(command: RpcCommand) -> str:
    """The command's type as JavaScript would print it in pi's error."""
    if isinstance(command.type, str):
        return command.type
    if command.type is None:
        return "null" if "type" in command.fields else "undefined"
    return str(command.type)


def _text(command: RpcCommand, key: str) -> str:
    value = command.fields.get(key)
    if not isinstance(value, str):
        raise _Refusal(f"{command.type}: `{key}` must be a string")
    return value


def _mode(command: RpcCommand) -> QueueMode:
    mode = command.fields.get("mode")
    if mode == "all":
        return "all"
    if mode == "one-at-a-time":
        return "one-at-a-time"
    raise _Refusal(f'{command.type}: `mode` must be "all" or "one-at-a-time"')


def _user_input(command: RpcCommand) -> UserInput:
    images = command.fields.get("images")
    if images is None:
        images = []
    if not isinstance(images, list):
        raise _Refusal(f"{command.type}: `images` must be a list")
    for index, image in enumerate(images):
        if (
            not isinstance(image, dict)
            or image.get("type") != "image"
            or not isinstance(image.get("data"), str)
            or not isinstance(image.get("mimeType"), str)
        ):
            raise _Refusal(
                f"{command.type}: `images[{index}]` must be "
                '{"type": "image", "data": base64, "mimeType": "image/png"}'
            )
    return UserInput(_text(command, "message"), images)


_COMMANDS: dict[str, Callable[[RpcLoop, RpcCommand], None]] = {
    "prompt": RpcLoop._prompt,
    "steer": RpcLoop._steer,
    "follow_up": RpcLoop._follow_up,
    "abort": RpcLoop._abort,
    "clear_queue": RpcLoop._clear_queue,
    "new_session": RpcLoop._new_session,
    "fork": RpcLoop._fork,
    "get_fork_messages": RpcLoop._get_fork_messages,
    "set_session_name": RpcLoop._set_session_name,
    "get_state": RpcLoop._get_state,
    "get_messages": RpcLoop._get_messages,
    "get_session_stats": RpcLoop._get_session_stats,
    "get_last_assistant_text": RpcLoop._get_last_assistant_text,
    "get_commands": RpcLoop._get_commands,
    "set_model": RpcLoop._set_model,
    "cycle_model": RpcLoop._cycle_model,
    "get_available_models": RpcLoop._get_available_models,
    "set_thinking_level": RpcLoop._set_thinking_level,
    "cycle_thinking_level": RpcLoop._cycle_thinking_level,
    "get_available_thinking_levels": RpcLoop._get_available_thinking_levels,
    "set_steering_mode": RpcLoop._set_steering_mode,
    "set_follow_up_mode": RpcLoop._set_follow_up_mode,
    # Nothing of the kind is ever running here; pi answers these when idle, so we do.
    "abort_bash": RpcLoop._nothing_to_do,
    "abort_retry": RpcLoop._nothing_to_do,
}
