"""An IPython of the terminal's kind in this process: no kernel, no front end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False  # no file, and no thread that writes it
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Minimal"
    instance = InteractiveShell.instance(config=config)
    yield instance
    instance.restore_sys_module_state()  # type: ignore[no-untyped-call]
    InteractiveShell.clear_instance()


@dataclass(frozen=True)
class Ran:
    """What a cell came to."""

    result: Any
    error: BaseException | None
    out: str

    @property
    def told(self) -> str:
        """The error as its reader sees it."""
        assert self.error is not None, f"no error, but {self.result!r}\n{self.out}"
        return "\n".join(self.error._render_traceback_())  # type: ignore[attr-defined]


Run = Callable[[str], Ran]


@pytest.fixture
def run(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Runs a cell in a shell that has the extension, at the root of the repository."""
    monkeypatch.chdir(ROOT)

    interpreter: Any = shell

    def run_cell(code: str) -> Ran:
        done = interpreter.run_cell(code)
        printed = capsys.readouterr().out.partition("Out[")[0]
        return Ran(done.result, done.error_before_exec or done.error_in_exec, printed)

    assert run_cell("%load_ext piweb_jupyter").error is None
    yield run_cell
    run_cell("%unload_ext piweb_jupyter")
