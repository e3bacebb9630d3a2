"""Starts agents for the tests of this ring, and ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agent.child import Child

Launch = Callable[..., Child]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Starts an agent from its source; it is ended after the test."""
    with ExitStack() as stack:

        def start(source: str | None = None, *options: str, **more: Any) -> Child:
            return stack.enter_context(Child(tmp_path, source, *options, **more))

        yield start


@pytest.fixture
def counter(launch: Launch) -> Child:
    """The smallest agent with a surface, ready."""
    return launch().ready()
