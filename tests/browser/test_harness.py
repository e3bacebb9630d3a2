from __future__ import annotations

from tests.browser.conftest import OpenNotebook
from tests.browser.lab import App
from tools.provision import KERNELS


def test_every_application_runs_every_kernel(
    open_notebook: OpenNotebook, app: App, kernel: str
) -> None:
    page = open_notebook(
        ["import ipykernel\nprint(ipykernel.__version__)", "2 + 2"], app=app, kernel=kernel
    )
    page.run(0)
    page.run(1)
    assert page.text(0).startswith(KERNELS[kernel].removesuffix("*"))
    assert page.text(1) == "4"


def test_a_widget_is_drawn_and_answers_a_click(open_notebook: OpenNotebook, app: App) -> None:
    page = open_notebook([_BUTTON], app=app)
    page.run(0)
    button = page.output(0).get_by_role("button", name="clicked 0")
    button.click()
    page.output(0).get_by_role("button", name="clicked 1").wait_for()


_BUTTON = """
import ipywidgets
button = ipywidgets.Button(description="clicked 0")
button.on_click(lambda _: setattr(button, "description", "clicked 1"))
button
"""
