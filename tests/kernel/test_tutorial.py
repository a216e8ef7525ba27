"""The tutorial works as it is written: its cells, one after the other, in a fresh kernel."""

from __future__ import annotations

import re
from pathlib import Path

from kernels import Kernel

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
CELL = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = {
    "%%on dev\n": "this runs on the machine",
    "%%on dev --bash\nnvidia-smi": "A100",
    "%nbprov jobs dev wait": "count-1: ok",
    "%nbprov logs": "step 1\nstep 2\nstep 3",
    "%nbprov costs": "dev",
    "%nbprov down": "dev",
}
"""By the beginning of a cell: what its output has."""


def test_its_cells_do_what_it_says(kernel: Kernel) -> None:
    cells = CELL.findall(PAGE.read_text(encoding="utf-8"))
    assert len(cells) > 10
    seen = set()
    for cell in cells:
        done = kernel.run(cell.strip())
        for beginning, words in SAID.items():
            if cell.startswith(beginning) and beginning not in seen:
                seen.add(beginning)
                said = "\n".join([done.text, *map(str, done.values)])
                assert words in said, f"{cell}\nsaid {said!r}"
    assert seen == {*SAID}
    assert kernel.value("__import__('pathlib').Path('results/when.txt').read_text() != ''")
