"""Any model of pydantic-ai's providers behind the conversation: extra `piweb-jupyter[llm]`.

Imported with the first prompt to such a model, and pydantic-ai itself (1 to 2 s) in a thread, so
that clicks go on. One call here is one response; the tool loop is the conversation's.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import importlib.util
import logging
import os
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Any

from ..wire.events import ContentDelta, ContentEnd, ContentStart
from ..wire.json import dumps
from .backend import Backend, ModelEvent, ModelRequest, ModelStop, ModelUsage, ToolSpec
from .model import Entry, Fields, ModelError, ModelRef, describe_model
from .offload import in_thread

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse

__all__ = ["open_backend"]

_log = logging.getLogger(__name__)

# Environment variables whose values never appear in a message of ours.
_SECRET_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD")


async def open_backend(ref: ModelRef) -> Backend:
    """A backend for `provider:name`.

    Raises:
        ModelError: If pydantic-ai, the provider or its key is missing; it says what to do.
    """
    if importlib.util.find_spec("pydantic_ai") is None:
        raise ModelError(
            f"{ref} needs the model engine: pip install 'piweb-jupyter[llm]' and restart the "
            'agent, or use model="stub".'
        )
    model = await in_thread(lambda: _open(ref), "import")
    return PydanticBackend(ref, model)


def _open(ref: ModelRef) -> Model:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        model = infer_model(f"{ref.provider}:{ref.id}")
        # Imported here, on this thread: the first stream must not import on the loop.
        importlib.import_module("pydantic_ai.direct")
    except ImportError as exc:
        raise ModelError(
            f"{ref} needs a package that is not installed. {exc} and restart the agent, or use "
            'model="stub".'
        ) from None
    except UserError as exc:
        # The rest of pydantic-ai's hint is about its own API.
        reason = str(exc).split(" or pass it via", 1)[0].split(" To try ", 1)[0].rstrip(".")
        if reason.startswith("Unknown model"):
            raise ModelError(
                f"{reason}: {ref.provider!r} is no provider. Write provider:name, for example "
                '"openai:gpt-5-mini", or use model="stub".'
            ) from None
        raise ModelError(
            f'{reason} to use {ref}, then restart the agent, or use model="stub".'
        ) from None
    except Exception as exc:
        raise ModelError(f"{ref} cannot be used: {_without_secrets(str(exc))}") from None
    return model


class PydanticBackend:
    """One model of one provider."""

    def __init__(self, ref: ModelRef, model: Model) -> None:
        self._model = model
        window = model.profile.get("context_window") or 0
        self._info = describe_model(ref, contextWindow=window)

    @property
    def info(self) -> Fields:
        return self._info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.settings import ModelSettings

        level: Any = False if request.thinking == "off" else request.thinking
        settings = ModelSettings() if level is None else ModelSettings(thinking=level)
        try:
            async with model_request_stream(
                self._model,
                _history(request),
                model_settings=settings,
                model_request_parameters=_parameters(request.tools),
            ) as stream:
                async for event in _events(stream):
                    yield event
                response = stream.get()
        except ModelError:
            raise
        except Exception as exc:
            raise ModelError(_explain(exc)) from None
        yield _usage(response)
        yield ModelStop(_reason(response), native=response)


async def _events(stream: StreamedResponse) -> AsyncGenerator[ModelEvent, None]:
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartEndEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
        ToolCallPart,
        ToolCallPartDelta,
    )

    sent_arguments: set[int] = set()
    async for event in stream:
        match event:
            case PartStartEvent(index=index, part=TextPart(content=text)):
                yield ContentStart("text", index)
                yield ContentDelta("text", index, text)
            case PartStartEvent(index=index, part=ThinkingPart(content=text)):
                yield ContentStart("thinking", index)
                yield ContentDelta("thinking", index, text)
            case PartStartEvent(index=index, part=ToolCallPart() as call):
                yield ContentStart("toolcall", index, call.tool_call_id, call.tool_name)
                if isinstance(call.args, str) and call.args:
                    sent_arguments.add(index)
                    yield ContentDelta("toolcall", index, call.args)
            case PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=text)):
                yield ContentDelta("text", index, text)
            case PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=str(text))):
                yield ContentDelta("thinking", index, text)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(text))):
                sent_arguments.add(index)
                yield ContentDelta("toolcall", index, text)
            case PartEndEvent(index=index, part=ToolCallPart() as call):
                if index not in sent_arguments and call.args:
                    yield ContentDelta("toolcall", index, call.args_as_json_str())
                yield ContentEnd("toolcall", index)
            case PartEndEvent(index=index, part=TextPart()):
                yield ContentEnd("text", index)
            case PartEndEvent(index=index, part=ThinkingPart()):
                yield ContentEnd("thinking", index)


def _reason(response: ModelResponse) -> Any:
    from pydantic_ai.messages import ToolCallPart

    if any(isinstance(part, ToolCallPart) for part in response.parts):
        return "toolUse"
    if response.finish_reason == "content_filter":
        raise ModelError("The provider's content filter stopped the answer.")
    return "length" if response.finish_reason == "length" else "stop"


def _usage(response: ModelResponse) -> ModelUsage:
    usage = response.usage
    cached, written = usage.cache_read_tokens, usage.cache_write_tokens
    try:
        cost = float(response.cost().total_price)
    except Exception:  # no price is known for most models, and none is needed
        cost = 0.0
    return ModelUsage(
        input=max(usage.input_tokens - cached - written, 0),
        output=usage.output_tokens,
        cache_read=cached,
        cache_write=written,
        cost=cost,
    )


def _parameters(tools: list[ToolSpec]) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description or None,
                parameters_json_schema=tool.parameters,
            )
            for tool in tools
        ]
    )


# ---------------------------------------------------------------- pi's messages to pydantic-ai's


def _history(request: ModelRequest) -> list[ModelMessage]:
    """The conversation as pydantic-ai has it; what the model was sent together is one request."""
    from pydantic_ai.messages import ModelRequest as NativeRequest

    history: list[ModelMessage] = []
    for entry in request.entries:
        if entry.message["role"] == "assistant":
            response = _response(entry)
            if response is not None:
                history.append(response)
            continue
        parts = list(_request_parts(entry.message))
        last = history[-1] if history else None
        if isinstance(last, NativeRequest):
            last.parts = [*last.parts, *parts]
        else:
            history.append(NativeRequest(parts=parts))
    _instruct(history, request.system_prompt)
    return history


def _instruct(history: list[ModelMessage], system_prompt: str) -> None:
    from pydantic_ai.messages import ModelRequest as NativeRequest

    if system_prompt:
        for message in history:
            if isinstance(message, NativeRequest):
                message.instructions = system_prompt


def _response(entry: Entry) -> ModelResponse | None:
    """An assistant message; its native form where a provider made it, so that signatures survive.

    What was aborted or failed keeps its text only: its tool calls were never run.
    """
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    message = entry.message
    # Arguments that are not JSON are an obstacle for some providers, whatever they say to them.
    broken = any("argumentsError" in block for block in message["content"])
    if isinstance(entry.native, ModelResponse) and not broken:
        return entry.native
    complete = message["stopReason"] not in ("error", "aborted")
    parts: list[Any] = []
    for block in message["content"]:
        if block["type"] == "text" and block["text"]:
            parts.append(TextPart(content=block["text"]))
        elif block["type"] == "toolCall" and complete:
            parts.append(
                ToolCallPart(
                    tool_name=block["name"], args=block["arguments"], tool_call_id=block["id"]
                )
            )
    return ModelResponse(parts=parts) if parts else None


def _request_parts(message: Fields) -> Iterator[Any]:
    from pydantic_ai.messages import ToolReturnPart, UserPromptPart

    content = [_content(block) for block in message["content"]]
    if message["role"] == "user":
        yield UserPromptPart(content=content[0] if len(content) == 1 else content)
    elif message["role"] == "toolResult":
        yield ToolReturnPart(
            tool_name=message["toolName"],
            content=content[0] if len(content) == 1 else content,
            tool_call_id=message["toolCallId"],
            outcome="failed" if message["isError"] else "success",
        )


def _content(block: Fields) -> Any:
    from pydantic_ai.messages import BinaryContent

    if block["type"] == "text":
        return block["text"]
    try:
        data = base64.b64decode(block["data"], validate=True)
    except (binascii.Error, ValueError):
        return "[an image that could not be read]"
    return BinaryContent(data=data, media_type=block["mimeType"])


# ---------------------------------------------------------------- errors


def _explain(error: Exception) -> str:
    """A provider's error in pi's form, `status: text`, without secrets."""
    from pydantic_ai.exceptions import ModelHTTPError

    if isinstance(error, ModelHTTPError):
        text = f"{error.status_code}: {_body_text(error.body) or error.message}"
        if error.status_code in (401, 403):
            text += " (check the provider's key and restart the agent)"
        return _without_secrets(text)
    return _without_secrets(str(error) or type(error).__name__)


def _body_text(body: object) -> str:
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        if isinstance(message, str):
            return message
        return dumps(body).decode()
    return body if isinstance(body, str) else ""


def _without_secrets(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= 8 and name.upper().endswith(_SECRET_ENDINGS):
            text = text.replace(value, f"<{name}>")
    return text
