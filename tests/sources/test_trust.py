"""A source runs only when its user said so, once, in the right place."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import piweb_jupyter
from piweb_jupyter.errors import AgentNotTrusted, SourceError
from piweb_jupyter.sources.resolve import resolve_command, resolve_source
from piweb_jupyter.sources.spec import LaunchSpec
from piweb_jupyter.sources.trust import (
    AskPolicy,
    TrustStore,
    always,
    apply_trust,
    find_policy,
    find_state_directory,
    never,
)


@pytest.fixture
def spec(tmp_path: Path) -> LaunchSpec:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "agent.py").touch()
    return resolve_source(tmp_path / "box", environ={})


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state" / "trust.json")


def answer(text: str, asked: list[str] | None = None) -> Callable[[str], str]:
    def ask(question: str) -> str:
        if asked is not None:
            asked.append(question)
        return text

    return ask


def nobody(question: str) -> str:
    raise NotImplementedError("raw_input was called, but this frontend does not support it")


def test_the_question_names_the_path_and_the_rights(spec: LaunchSpec, store: TrustStore) -> None:
    asked: list[str] = []
    assert AskPolicy(store)(spec, answer("y", asked))
    (question,) = asked
    assert str(spec.path) in question
    assert "your rights" in question
    assert "views" in question


def test_yes_holds_for_this_kernel_and_always_for_the_next(
    spec: LaunchSpec, store: TrustStore
) -> None:
    policy = AskPolicy(store)
    assert policy(spec, answer("y"))
    assert policy(spec, nobody)  # not asked again
    assert not AskPolicy(store)(spec, answer("n"))
    assert AskPolicy(store)(spec, answer("always"))
    assert AskPolicy(store)(spec, nobody)
    assert json.loads(store.path.read_text()) == {str(spec.path): True}
    assert list(spec.path.iterdir()) == [spec.path / "agent.py"]  # nothing in the project


@pytest.mark.parametrize("text", ["", "n", "N", "no", "what?"])
def test_anything_but_yes_is_a_no_that_fails_the_cell(
    spec: LaunchSpec, store: TrustStore, text: str
) -> None:
    with pytest.raises(AgentNotTrusted) as caught:
        apply_trust(spec, AskPolicy(store), answer(text), given=False)
    assert str(spec.path) in str(caught.value)
    assert caught.value.source == str(spec.path)


@pytest.mark.parametrize("error", [NotImplementedError, EOFError])
def test_without_a_person_it_refuses_and_names_both_ways_on(
    spec: LaunchSpec, store: TrustStore, error: type[Exception]
) -> None:
    def ask(question: str) -> str:
        raise error

    with pytest.raises(AgentNotTrusted, match=r"--trust .* PIWEB_TRUST=always"):
        apply_trust(spec, AskPolicy(store), ask, given=False)


def test_ipythons_refusal_to_ask_is_understood() -> None:
    from IPython.core.error import StdinNotImplementedError

    assert issubclass(StdinNotImplementedError, NotImplementedError)


def test_trust_given_on_the_line_asks_nobody_and_is_not_stored(
    spec: LaunchSpec, store: TrustStore
) -> None:
    assert apply_trust(spec, AskPolicy(store), nobody, given=True) == spec
    assert not store.path.exists()


def test_never_refuses_even_what_is_trusted_on_the_line(spec: LaunchSpec) -> None:
    with pytest.raises(AgentNotTrusted, match="says never"):
        apply_trust(spec, never, nobody, given=True)


def test_the_environment_goes_before_the_configuration() -> None:
    assert find_policy("ask", {"PIWEB_TRUST": "always"}) is always
    assert find_policy("always", {"PIWEB_TRUST": "never"}) is never
    assert find_policy("never", {}) is never
    assert isinstance(find_policy("ask", {}), AskPolicy)


def test_a_policy_of_ones_own_is_named_by_module_or_passed(spec: LaunchSpec) -> None:
    assert find_policy("piweb_jupyter.sources.trust:never", {}) is never

    def mine(spec: LaunchSpec, ask: object, /) -> bool:
        return spec.kind == "python"

    assert find_policy(mine, {}) is mine
    assert apply_trust(spec, mine, nobody, given=False) == spec
    for wrong in ("alwys", "no_such_module:x", "os:nothing", "os:sep"):
        with pytest.raises(SourceError, match="trust policy"):
            find_policy(wrong, {})


def test_pi_gets_the_same_decision_as_an_option(tmp_path: Path, store: TrustStore) -> None:
    pi = tmp_path / "pi"
    pi.write_text("#!/bin/sh\n")
    pi.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    spec = resolve_source(work, environ={"PIWEB_PI": str(pi)})
    policy = AskPolicy(store)
    assert apply_trust(spec, policy, answer("n"), given=False).argv[-1] == "--no-approve"
    assert apply_trust(spec, policy, answer("y"), given=False).argv[-1] == "--approve"
    assert apply_trust(spec, never, nobody, given=True).argv[-1] == "--no-approve"
    with pytest.raises(AgentNotTrusted):
        apply_trust(spec, AskPolicy(store), nobody, given=False)


def test_pi_web_hears_of_trust_in_its_environment(tmp_path: Path) -> None:
    (tmp_path / "index.ts").touch()
    runner = tmp_path / "runner"
    runner.touch()
    spec = resolve_source(tmp_path, environ={"PIWEB_RUNNER": str(runner)})
    assert apply_trust(spec, always, nobody, given=False).env == {"PI_WEB_TRUST_PROJECT": "1"}


def test_a_command_is_trusted_with_its_words_not_for_its_directory(
    tmp_path: Path, store: TrustStore
) -> None:
    one = resolve_command("sh -c true", directory=tmp_path)
    other = resolve_command("sh -c false", directory=tmp_path)
    assert AskPolicy(store)(one, answer("always"))
    assert AskPolicy(store)(one, nobody)
    assert not AskPolicy(store)(other, answer("n"))


def test_the_agent_inside_the_package_needs_no_question(store: TrustStore) -> None:
    package = Path(piweb_jupyter.__file__).resolve().parent
    spec = LaunchSpec("python", "demo", package / "demo", ("python",), package, title="demo")
    assert AskPolicy(store)(spec, nobody)


def test_a_damaged_trust_file_allows_nothing_and_is_replaced(
    spec: LaunchSpec, store: TrustStore
) -> None:
    store.path.parent.mkdir()
    for text in ("{", "[]", '{"' + str(spec.path) + '": "yes"}'):
        store.path.write_text(text)
        assert not store.is_trusted(str(spec.path))
    store.trust(str(spec.path))
    assert store.is_trusted(str(spec.path))


def test_an_answer_that_cannot_be_stored_still_counts(spec: LaunchSpec, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    policy = AskPolicy(TrustStore(blocked / "trust.json"))
    with pytest.warns(UserWarning, match="cannot remember"):
        assert policy(spec, answer("always"))


def test_kernels_that_write_at_once_forget_nothing(store: TrustStore) -> None:
    names = [f"/agents/{number}" for number in range(20)]
    threads = [threading.Thread(target=store.trust, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.is_trusted(name) for name in names)
    left = sorted(path.name for path in store.path.parent.iterdir())
    assert left == ["trust.json", "trust.lock"]
    assert os.stat(store.path).st_mode & 0o077 == 0


def test_the_state_directory_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert find_state_directory({"PIWEB_STATE_DIR": "/mine"}) == Path("/mine")
    assert find_state_directory({"XDG_STATE_HOME": "/xdg"}) == Path("/xdg/piweb-jupyter")
    home = Path.home() / ".local" / "state" / "piweb-jupyter"
    assert find_state_directory({"XDG_STATE_HOME": "relative"}) == home
    assert find_state_directory({}) == home
