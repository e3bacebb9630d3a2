"""What holds for every ring: order, a clean environment, and nothing left running."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psutil
import pytest

from tests import leaks
from tests.needs import require_kernel
from tools import provision

# From cheap to dear; a failure in an early ring explains those in the later ones. Playwright
# keeps an event loop on the main thread while it is open, so the browser comes last but for the
# rings that start everything in processes of their own.
RINGS = (
    "wire",
    "agent",
    "host",
    "replay",
    "session",
    "sources",
    "views",
    "notebook",
    "kernel",
    "server",
    "interop",
    "bench",
    "browser",
    "wheel",
)
MARKERS = {"browser": "browser", "interop": "interop", "kernel": "kernel"}
HERE = Path(__file__).parent

_outcome = pytest.StashKey[dict[str, pytest.TestReport]]()
_home = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()


def pytest_configure(config: pytest.Config) -> None:
    """Nothing of the user's settings reaches a test, and no test reaches the user's files.

    It is done in the environment because kernels, servers and agents must inherit it.
    """
    home = tempfile.TemporaryDirectory(prefix="piweb-tests-")
    config.stash[_home] = home
    for name in ("PIWEB_STATE_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        directory = Path(home.name) / name.lower()
        directory.mkdir()
        os.environ[name] = str(directory)
    os.environ["JUPYTER_PATH"] = str(provision.JUPYTER_PATH)
    os.environ["PIWEB_TRUST"] = "always"
    leaks.mark_environment()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts its background jobs so, and every child would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_home].cleanup()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def ring(item: pytest.Item) -> int:
        if item.path.parent == HERE:
            return -1  # tests of the harness itself
        for part in item.path.relative_to(HERE.parent).parts:
            if part in RINGS:
                return RINGS.index(part)
        return len(RINGS)

    items.sort(key=ring)
    for item in items:
        if item.path.suffix == ".ipynb":
            item.add_marker("notebooks")
        for part in item.path.relative_to(HERE.parent).parts:
            if part in MARKERS:
                item.add_marker(MARKERS[part])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep each phase's report, so that a fixture can see how its test went."""
    report = yield
    item.stash.setdefault(_outcome, {})[report.when] = report
    return report


@pytest.fixture
def has_failed(request: pytest.FixtureRequest) -> Callable[[], bool]:
    """For the teardown of another fixture: did the test fail?"""
    node = request.node
    return lambda: any(report.failed for report in node.stash.get(_outcome, {}).values())


@pytest.fixture(params=list(provision.KERNELS))
def kernel(request: pytest.FixtureRequest) -> str:
    """Every test that asks for it runs on the lowest, the last good and the latest ipykernel."""
    return require_kernel(request.param)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Fails the module that leaves one of our threads or any process behind."""
    yield
    threads = leaks.surviving_threads()
    processes = leaks.surviving_processes()
    found = [*threads, *(leaks.describe(process) for process in processes)]
    for process in processes:  # the next module must not be blamed for it
        with contextlib.suppress(psutil.Error):
            process.kill()
    assert not found, "left running:\n" + "\n".join(found)
