"""Plays the blocks of the pages in a kernel."""

from __future__ import annotations

import page_blocks
from kernels import Kernel
from page_blocks import Block, Line


def play(kernel: Kernel, block: Block, stand_ins: dict[str, str]) -> None:
    """Run a block in its place; its output must have the words that are expected."""

    def here(text: str) -> str:
        for named, stand_in in stand_ins.items():
            text = text.replace(named, stand_in)
        return text

    (code,) = [code for code in page_blocks.blocks(block.page) if code.startswith(block.begins)]
    for cell in block.before:
        kernel.run(here(cell))
    awaited = dict(block.lines)
    for cell in page_blocks.cells(code):
        beginning = next((words for words in awaited if cell.startswith(words)), "")
        line = awaited.pop(beginning, Line())
        for needed in line.before:
            kernel.run(here(needed))
        done = kernel.run(here(f"{cell}\n{line.body}"), ok=not line.is_refused)
        shown = "\n".join([done.everything, *done.values])
        assert here(line.says) in shown, f"{cell}\nshowed {shown!r}"
    assert not awaited, "the block has no such cells"
    for cell in block.after:
        kernel.run(here(cell))
