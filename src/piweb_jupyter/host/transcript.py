"""Transcript: folds the agent's events into messages, parts, tool calls and notices.

`apply` and its kin return what they changed as *operations*, which the chat view applies verbatim
to its copy, in order:

    ("message", i, message)         set or append message i
    ("part", i, p, part)            set or append part p of message i
    ("append", i, p, name, text)    append to a text field of that part
    ("meta", {name: value, …})      merge into the meta fields
    ("clear",)                      drop all messages

A message is `{"id", "role", "parts", "status", "error"?, "model"?, "usage"?, "time"?}` with role
`user | assistant | bash | custom | summary | notice` and status `streaming | done | error |
aborted`. `content.py` makes the parts, `ambient.py` the meta fields.
"""

from __future__ import annotations

from typing import TypeAlias

from ..wire import events, rpc
from ..wire.json import JSON, Fields, dumps, loads
from .ambient import Ambient
from .content import notice_part, parts_of, text_part
from .messages import Message, Messages, Op
from .section import section
from .summary import RunSummary, ToolCall, summarise
from .toolcards import BashRuns, ToolCards, stored_bash
from .writing import Writing, is_hidden

__all__ = ["Message", "Op", "RunSummary", "ToolCall", "Transcript"]

Ops: TypeAlias = list[Op]


class Transcript:
    """The conversation as a chat shows it. One thread changes it; any thread may read it."""

    def __init__(self) -> None:
        self._lock = section()
        self._messages = Messages()
        self._cards = ToolCards(self._messages, self._home)
        self._bash = BashRuns(self._messages)
        self._ambient = Ambient()
        self._writing = Writing(self._messages, self._cards, self._ambient)
        self._run_start = 0
        self._retry: int | None = None  # the notice that stands for a failed attempt
        self._settles = False  # the agent says `agent_settled` (pi >= 0.80.4)

    def __repr__(self) -> str:
        count = len(self)
        state = "busy" if self.busy else "idle"
        return f"<Transcript {count} message{'s' * (count != 1)}, {state}>"

    def __len__(self) -> int:
        return len(self._messages.kept)

    # ------------------------------------------------------------ reading

    @property
    def messages(self) -> list[Message]:
        """The messages as they are now; changing what you got changes nothing."""
        messages: list[Message] = self.to_json()["messages"]
        return messages

    @property
    def meta(self) -> dict[str, JSON]:
        """What is beside the messages: `busy`, `model`, `thinkingLevel`, `queue`, `usage`, `stats`,
        `title`, `status`, `widgets`, `editorText`, `compacting`."""
        meta: dict[str, JSON] = loads(dumps(self._ambient.fields))
        return meta

    @property
    def busy(self) -> bool:
        """Whether a run is going on.

        pi says when it is idle (`agent_settled`); with older ones a run ends at its `agent_end`.
        """
        return self._ambient.fields["busy"] is True

    @property
    def model(self) -> str:
        """The model as `provider/id`; empty while there is none."""
        model: str = self._ambient.fields["model"]
        return model

    def mark(self) -> int:
        """This moment, for `run_summary` and `clear`: how many operations there have been."""
        return self._messages.seq

    def present(self) -> bytes:
        """All of it as JSON, `{"seq", "messages", "meta"}`. Safe from any thread.

        `seq` is the number of operations that are in it.
        """
        with self._lock:
            self._messages.join()
            return dumps(
                {
                    "seq": self._messages.seq,
                    "messages": self._messages.kept,
                    "meta": self._ambient.fields,
                }
            )

    def to_json(self) -> dict[str, JSON]:
        """`present`, decoded afresh."""
        present: dict[str, JSON] = loads(self.present())
        return present

    def run_summary(self, since: int = 0) -> RunSummary:
        """What has happened since a `mark`, so far. Safe from any thread."""
        with self._lock:
            self._messages.join()
            return summarise(self._messages.since(since))

    # ------------------------------------------------------------ changing

    def apply(self, event: events.Event) -> Ops:
        """Fold one event in. Unknown ones change nothing."""
        with self._lock:
            # Nine of ten events are deltas: 1 µs each this way.
            if type(event) is events.ContentDelta:
                stream = self._writing.streams.get(event.index)
                if stream is not None and stream.kind == event.kind:
                    return self._messages.told(self._messages.grow(stream, event.delta))
            return self._messages.told(self._fold(event))

    def apply_response(self, response: rpc.Response) -> Ops:
        """Fold in what answers tell and events do not: model, level, statistics, `bash`."""
        with self._lock:
            return self._messages.told(self._fold_response(response))

    def apply_ui(self, request: rpc.UiRequest) -> Ops:
        """Fold in a UI request that only tells something (`rpc.TELL_METHODS`)."""
        with self._lock:
            if request.method != "notify":
                return self._messages.told(self._ambient.apply_ui(request, self._messages.seq))
            level, text = request.fields.get("notifyType"), request.fields.get("message")
            level = level if level in ("info", "warning", "error") else "info"
            return self._messages.told(self._note(level, text if isinstance(text, str) else ""))

    def note(self, level: str, text: str) -> Ops:
        """Add a notice: `info`, `warning` or `error`."""
        with self._lock:
            return self._messages.told(self._note(level, text))

    def start_bash(self, id_: JSON, command: str) -> Ops:
        """The host has sent an rpc `bash` command; its output and end come by themselves."""
        with self._lock:
            return self._messages.told(self._bash.start(id_, command))

    def load(self, messages: list[JSON]) -> Ops:
        """Start over with the messages of a stored session (`get_messages`)."""
        with self._lock:
            self._forget()
            self._messages.restart()
            ops = self._ambient.set(usage=None)
            for message in messages:
                if isinstance(message, dict):
                    ops += self._load(message)
            self._cards.close(0, "aborted")
            meta = [op for op in ops if op[0] == "meta"]
            return self._messages.told([*self._messages.tell_all(), *meta])

    def clear(self, since: int | None = None) -> Ops:
        """Drop the conversation: another session begins.

        The new session's first notices and statuses come before the answer to `new_session`. With
        `since`, the mark of when that was sent, what came after it stays.
        """
        with self._lock:
            mark = self._messages.seq if since is None else since
            kept = [m for m in self._messages.since(mark) if m["role"] == "notice"]
            self._forget()
            ops = self._messages.restart(kept)
            return self._messages.told(ops + self._ambient.forget(mark))

    def end(self, reason: str, level: str = "error") -> Ops:
        """The agent is gone: streaming ends, open tool calls fail, the queue is lost.

        With any other level than `error` somebody wanted it so: what was going on is `aborted`.
        """
        with self._lock:
            ops: Ops = []
            failed = level == "error"
            # A run that fails without an open message says so in the notice.
            error = reason if failed and self.busy else None
            self._writing.check()
            if (n := self._writing.answer) is not None:
                message = self._messages[n]
                message["status"] = "error" if failed else "aborted"
                if failed:
                    message["error"] = reason
                error = None
            ops += self._writing.close()
            ops += self._cards.close(0, "error" if failed else "aborted", reason)
            ops += self._bash.end_all("error" if failed else "aborted", reason)
            ops += self._note(level, reason, error)
            self._retry = None
            self._settles = False
            return self._messages.told(ops + self._ambient.end())

    # ------------------------------------------------------------ events

    def _fold(self, event: events.Event) -> Ops:
        self._writing.check()
        match event:
            case events.ContentStart(kind, index, id_, name):
                return self._writing.start_content(kind, index, id_, name)
            case events.ContentDelta(kind, index, delta):
                return self._writing.grow(kind, index, delta)
            case events.ContentEnd():
                return self._writing.end_content(event)
            case events.ContentError(reason, error):
                return self._writing.break_off(reason, error)
            case events.MessageStart(message):
                return self._writing.start(message)
            case events.MessageEnd({"role": "toolResult"} as message):
                return self._cards.take_message(message)
            case events.MessageEnd(message):
                return self._writing.end(message)
            case events.ToolStart(id_, name, args):
                return self._cards.start(id_, name, args)
            case events.ToolUpdate(id_, name, args, partial):
                return self._cards.update(id_, name, args, partial)
            case events.ToolEnd(id_, name, result, is_error, duration):
                return self._cards.end(id_, name, result, is_error, duration)
            case events.AgentStart():
                return self._start_run()
            case events.AgentEnd(messages, will_retry):
                return self._end_run(messages, will_retry)
            case events.AgentSettled(aborted):
                return self._settle(aborted)
            case events.QueueUpdate(steering, follow_up):
                return self._ambient.set(queue={"steering": steering, "followUp": follow_up})
            case events.RetryStart(attempt, most, _, error):
                return self._start_retry(attempt, most, error)
            case events.RetryEnd(success, attempt, error):
                return self._end_retry(success, attempt, error)
            case events.CompactionStart(reason):
                return self._ambient.set(compacting=reason or "manual")
            case events.CompactionEnd():
                return self._end_compaction(event)
            case events.BashUpdate(id_, delta):
                return self._bash.update(id_, delta)
            case events.SessionInfoChanged(name):
                return self._ambient.set_title(name, self._messages.seq)
            case events.ThinkingLevelChanged(level):
                return self._ambient.set(thinkingLevel=level)
            case events.ExtensionError(path, about, error):
                where = f"{path} ({about})" if about else path
                return self._note("error", f"An extension failed: {where}: {error}")
            case events.OtherEvent("summarization_retry_scheduled", fields):
                trial = f"{fields.get('attempt')} of {fields.get('maxAttempts')}"
                why = fields.get("errorMessage")
                return self._note("warning", f"Summarizing failed: {why}. Retry {trial}.")
        return []

    # ------------------------------------------------------------ runs

    def _start_run(self) -> Ops:
        if self._retry is None:
            self._run_start = self._messages.end
            self._cards.forget_ended()
        return self._ambient.set(busy=True)

    def _end_run(self, messages: list[JSON], will_retry: bool) -> Ops:
        ops: Ops = []
        if self._writing.answer is not None:
            # Its end was lost; what is told at the end of the run makes up for it.
            last = next((m for m in reversed(messages) if _is_assistant(m)), None)
            ops = self._writing.close() if last is None else self._writing.end_assistant(last)
        if will_retry:
            return ops + self._excuse()
        ops += self._close_run(aborted=False)
        return ops if self._settles else ops + self._ambient.set(busy=False)

    def _settle(self, aborted: bool) -> Ops:
        self._settles = True
        ops = self._writing.close() + self._close_run(aborted=aborted)
        last = self._messages.kept[-1] if len(self) else {}
        if aborted and last.get("role") == "notice" and last.pop("error", None) is not None:
            # A retry was given up because the run was stopped: that is no failure.
            last["status"] = "aborted"
            ops.append(self._messages.tell(self._messages.end - 1))
        return ops + self._ambient.set(busy=False)

    def _close_run(self, *, aborted: bool) -> Ops:
        self._retry = None
        last = self._last_assistant()
        aborted = aborted or (last is not None and self._messages[last]["status"] == "aborted")
        ops = self._cards.close(self._run_start, "aborted")
        return ops + self._cards.mark_aborted(self._run_start) if aborted else ops

    def _excuse(self, outlook: str = "") -> Ops:
        """Turn the attempt that failed and will be made again into a notice."""
        n = self._last_assistant()
        if n is None or self._messages[n]["status"] != "error":
            return []
        if n == self._writing.current:
            self._writing.close()
        message = self._messages[n]
        text = f"The answer failed: {message.pop('error')}. {outlook}".rstrip()
        message.pop("usage", None)
        message.update(role="notice", status="done")
        self._messages.replace(n, [notice_part("warning", text)])
        self._cards.enroll(n)
        self._retry = n
        return [self._messages.tell(n)]

    def _start_retry(self, attempt: int, most: int, error: str) -> Ops:
        text = f"The answer failed: {error}. Retry {attempt} of {most}."
        self._excuse()
        if self._retry is None or self._retry not in self._messages:
            self._retry = self._messages.add("notice", [])
        self._messages.replace(self._retry, [notice_part("warning", text)])
        return [self._messages.tell(self._retry)]

    def _end_retry(self, success: bool, attempt: int, error: str) -> Ops:
        self._retry = None
        last = self._last_assistant()
        if success or (last is not None and self._messages[last]["status"] == "error"):
            return []
        error = error or "the model failed"
        return self._note("error", f"Gave up after attempt {attempt}: {error}", error)

    def _end_compaction(self, event: events.CompactionEnd) -> Ops:
        ops = self._ambient.set(compacting=None)
        if event.will_retry:
            ops += self._excuse("The conversation was summarized to make room.")
        summary = event.result.get("summary") if isinstance(event.result, dict) else None
        if summary and isinstance(summary, str):
            return [*ops, self._messages.tell(self._messages.add("summary", [text_part(summary)]))]
        if event.aborted:
            return ops + self._note("info", "Compaction was cancelled.")
        return ops + self._note("error", event.error) if event.error else ops

    def _last_assistant(self) -> int | None:
        """The assistant's last message since the user's last one in this run."""
        for n in range(self._messages.end - 1, self._run_start - 1, -1):
            if n not in self._messages or self._messages[n]["role"] == "user":
                return None
            if self._messages[n]["role"] == "assistant":
                return n
        return None

    def _home(self) -> tuple[Ops, int]:
        """The message that a tool call belongs to whose announcement was never seen."""
        n = self._last_assistant()
        if n is not None:
            return [], n
        n = self._messages.add("assistant", [])
        return [self._messages.tell(n)], n

    # ------------------------------------------------------------ the rest

    def _note(self, level: str, text: str, error: str | None = None) -> Ops:
        part = notice_part(level, text)
        last = self._messages.kept[-1] if len(self) else None
        if last is not None and last["role"] == "notice" and error is None:
            # An agent that says the same in a loop gets one line with a count.
            [before] = last["parts"]
            if (before["level"], before["text"]) == (level, part["text"]):
                before["count"] = before.get("count", 1) + 1
                return [self._messages.tell_part(self._messages.end - 1, 0)]
        n = self._messages.add("notice", [part])
        if error is not None:
            self._messages[n]["error"] = error
        return [self._messages.tell(n)]

    def _fold_response(self, response: rpc.Response) -> Ops:
        if response.command == "bash":
            return self._bash.end(response)
        data = response.data
        if not response.success or not isinstance(data, dict):
            return []
        match response.command:
            case "prompt":
                # Every pi that says this is newer than `agent_settled`.
                self._settles = self._settles or "disposition" in data
            case "get_state":
                ops = self._ambient.set_model(data)
                name = data.get("sessionName")
                if isinstance(name, str) and name:
                    ops += self._ambient.set_title(name, self._messages.seq)
                return ops
            case "set_model":
                return self._ambient.set_model({"model": data})
            case "cycle_model":
                return self._ambient.set_model(data)
            case "cycle_thinking_level":
                return self._ambient.set_model({"thinkingLevel": data.get("level")})
            case "get_session_stats":
                keys = ("contextUsage", "tokens", "cost")
                return self._ambient.set(stats={key: data[key] for key in keys if key in data})
        return []

    def _load(self, message: Fields) -> Ops:
        match message.get("role"):
            case "user" | "custom" as role if not is_hidden(message):
                self._messages.add(role, parts_of(message.get("content")), "done", message)
            case "assistant":
                n = self._messages.add("assistant", [], "done", message)
                self._writing.finish(n, message)
                return self._ambient.count_usage(message)
            case "toolResult":
                self._cards.take_message(message)
            case "bashExecution":
                part, status = stored_bash(message)
                self._messages.add("bash", [part], status, message)
            case "compactionSummary" | "branchSummary":
                summary = message.get("summary")
                parts = [text_part(summary)] if isinstance(summary, str) else []
                self._messages.add("summary", parts, "done", message)
        return []

    def _forget(self) -> None:
        self._writing.forget()
        self._retry = None
        self._cards.forget()
        self._bash = BashRuns(self._messages)
        self._run_start = self._messages.end


def _is_assistant(message: JSON) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"
