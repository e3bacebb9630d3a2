"""An IPython of the terminal's kind in this process: no kernel, no front end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


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
