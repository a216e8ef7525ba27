"""Check that what is drawn can be read, from the browser's computed colours and the rule of
WCAG."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator

READABLE = 4.5
"""The least contrast for text of normal size (WCAG 2, level AA)."""

_MEASURE = """(root) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const channels = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
    const behind = (element) => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) {
            layers.push(channels(getComputedStyle(at).backgroundColor));
            if (layers.at(-1)[3] === 1) break;
        }
        return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const luminance = (rgb) => {
        const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = rgb.map((v) => linear(v / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [];
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        const text = texts.currentNode.textContent.trim();
        if (!text || !element.checkVisibility() || element.closest(":disabled, option")) continue;
        const background = behind(element);
        const foreground = over(channels(getComputedStyle(element).color), background);
        const [dark, light] = [luminance(background), luminance(foreground)].sort((a, b) => a - b);
        found.push({ text, contrast: (light + 0.05) / (dark + 0.05), foreground, background });
    }
    return found;
}"""


def texts(panel: Locator) -> list[dict[str, Any]]:
    """Return every visible text with its contrast and its colours."""
    measured: list[dict[str, Any]] = panel.evaluate(_MEASURE)
    return measured


def assert_readable(panel: Locator, *, dark: bool) -> None:
    """Check that every text can be read, and that the background fits the theme."""
    measured = texts(panel)
    assert measured, "nothing is drawn"
    poor = [text for text in measured if text["contrast"] < READABLE]
    assert not poor, poor
    brightness = sorted(sum(text["background"]) / 3 for text in measured)
    middle = brightness[len(brightness) // 2]
    assert middle < 80 if dark else middle > 200, f"the background is {middle:.0f} of 255"
