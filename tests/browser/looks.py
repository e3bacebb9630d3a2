"""How our views look: what overflows, and what cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playwright.sync_api import Locator

from tests.browser.lab import NotebookPage

__all__ = ["THEMES", "WIDTHS", "find_faults", "take_pictures"]

THEMES: dict[str, Literal["JupyterLab Light", "JupyterLab Dark"]] = {
    "light": "JupyterLab Light",
    "dark": "JupyterLab Dark",
}
WIDTHS = (1200, 500)
HEIGHT = 2000  # a picture of what is taller would be stitched

# WCAG's AA for text of ordinary size.
CONTRAST = 4.5

_FAULTS = """(root, least) => {
    const faults = [];
    const say = (what, el) => {
        const tag = `<${el.tagName.toLowerCase()} class="${el.className}">`;
        faults.push(`${what}: ${tag} ${el.textContent.trim().slice(0, 60)}`);
    };
    // `rgb(…)` and `rgba(…)` count to 255, `color(srgb …)` to 1.
    const read = color => {
        const found = color.match(/[\\d.e-]+/g).map(Number).filter(n => !Number.isNaN(n));
        const [r, g, b, a = 1] = found;
        return color.startsWith('color') ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
    const ground = el => {
        if (!el) return [255, 255, 255];
        const color = read(getComputedStyle(el).backgroundColor);
        return color[3] === 1 ? color.slice(0, 3) : over(color, ground(el.parentElement));
    };
    const luminance = rgb => {
        const [r, g, b] = rgb.map(c => c / 255).map(
            c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
        );
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrastOf = el => {
        const back = ground(el);
        const color = read(getComputedStyle(el).color);
        for (let up = el; up && up !== root; up = up.parentElement) {
            color[3] *= Number(getComputedStyle(up).opacity);
        }
        if (color[3] === 0) return Infinity;  // shown when the mouse is there
        const [a, b] = [luminance(over(color, back)), luminance(back)];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    // Disabled controls and old pictures may be pale; that is how they say so.
    const pale = ':disabled, :disabled *, .piweb-is-stale .piweb-own *, .piweb-quiet';
    const scrolls = 'pre, table, .piweb-tool-brief, .piweb-quiet';
    for (const view of root.querySelectorAll('.piweb-root')) {
        const { right } = view.getBoundingClientRect();
        for (const el of [view, ...view.querySelectorAll('*')]) {
            const box = el.getBoundingClientRect();
            if (box.width === 0 || !el.checkVisibility({ visibilityProperty: true })) continue;
            const { overflowX, display } = getComputedStyle(el);
            const cuts = el !== view && overflowX !== 'visible';
            if (!cuts && display !== 'inline' && el.scrollWidth > el.clientWidth + 1) {
                say('overflows', el);
            }
            if (box.right > right + 1 && !el.parentElement.closest(scrolls)) say('sticks out', el);
            const words = [...el.childNodes].some(node => node.nodeType === 3 && node.data.trim());
            const typed = el.matches('input, textarea, select') && el.value;
            if ((!words && !typed) || el.matches(pale)) continue;
            const contrast = contrastOf(el);
            if (contrast < least) say(`contrast ${contrast.toFixed(2)}`, el);
        }
    }
    return faults;
}"""


def find_faults(output: Locator) -> list[str]:
    """What of the views in an output overflows, or is too pale to read."""
    return list(output.evaluate(_FAULTS, CONTRAST))


def take_pictures(page: NotebookPage, cell: int, directory: Path, name: str) -> list[str]:
    """Pictures of a cell's output in both themes and widths; returns the faults that were found."""
    directory.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    for theme, title in THEMES.items():
        page.set_theme(title)
        for width in WIDTHS:
            page.page.set_viewport_size({"width": width, "height": HEIGHT})
            output = page.output(cell)
            output.screenshot(path=directory / f"{name}-{theme}-{width}.png", animations="disabled")
            faults += [f"{theme} {width}: {fault}" for fault in find_faults(output)]
    page.set_theme(THEMES["light"])
    page.page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    return faults
