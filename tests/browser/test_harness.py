from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import Notebooks
from tests.browser.lab import App
from tools.provision import KERNELS


def test_every_application_runs_every_kernel(
    open_notebook: Notebooks, app: App, kernel: str
) -> None:
    page = open_notebook(
        ["import ipykernel\nprint(ipykernel.__version__)", "2 + 2"], app=app, kernel=kernel
    )
    page.run(0)
    page.run(1)
    assert page.text(0).startswith(KERNELS[kernel].removesuffix("*"))
    assert page.text(1) == "4"


def test_a_widget_is_drawn_and_answers_a_click(open_notebook: Notebooks, app: App) -> None:
    page = open_notebook([_BUTTON], app=app)
    page.run(0)
    button = page.output(0).get_by_role("button", name="clicked 0")
    button.click()
    page.output(0).get_by_role("button", name="clicked 1").wait_for()


def test_the_theme_can_be_changed(open_notebook: Notebooks, tmp_path: Path) -> None:
    page = open_notebook(["1"])
    page.set_theme("JupyterLab Dark")
    assert page.screenshot(tmp_path / "dark.png").stat().st_size > 0
    assert not page.page.get_by_text("Jupyter news").is_visible()
    page.set_theme("JupyterLab Light")  # the settings are the server's, and other tests share it


def test_a_page_can_lose_and_regain_its_kernel(open_notebook: Notebooks) -> None:
    page = open_notebook(["x = 1", "print('x' in globals())", _FOREVER])
    page.run(0)
    page.restart_kernel()
    page.run(1)
    assert page.text(1) == "False"
    page.run(2, wait=False)
    page.wait_text(2, "here it is")
    page.interrupt_kernel()
    page.wait_done(2)
    page.reload()
    assert page.sources()[0] == "x = 1"
    page.shutdown_kernel()
    assert page.server.api("kernels") == []


_FOREVER = """
import threading
print("here it is")
threading.Event().wait()
"""
_BUTTON = """
import ipywidgets
button = ipywidgets.Button(description="clicked 0")
button.on_click(lambda _: setattr(button, "description", "clicked 1"))
button
"""
