"""The code blocks of README and the pages of docs/ run as they are written, on the `local` cloud.

They share one kernel and one home, in the order of `page_blocks.STORY`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import page_blocks
import pytest
from kernels import Kernel, new_kernel
from page_blocks import ENGINES, NOT_RUN, STORY, Block
from page_player import play

SHIPPED = files("nbprov.clouds.local.daemon") / "market.toml"


def free_port() -> str:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return str(trial.getsockname()[1])


@pytest.fixture(scope="module")
def reader(shared_home: Path) -> Iterator[Kernel]:
    """A kernel without the extension, where a page begins, on the market that is shipped."""
    market = SHIPPED.read_text(encoding="utf-8")
    for line in ("accept = 0.3", "boot = 0.7"):
        assert line in market
        market = market.replace(line, f"{line.partition(' ')[0]} = 0.02")
    (shared_home / "local" / "market.toml").write_text(market, encoding="utf-8")
    with new_kernel(shared_home, load=False) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def stand_ins() -> dict[str, str]:
    """What a page names and only one test at a time could have here."""
    return {
        "6006": free_port(),
        "8080": free_port(),
        "9000": free_port(),
        "/data/out": "~/data/out",
    }


@pytest.mark.parametrize(
    "block", STORY, ids=lambda block: f"{block.page}:{block.begins.splitlines()[0]}"
)
def test_a_block_does_what_its_page_says(
    reader: Kernel, stand_ins: dict[str, str], block: Block
) -> None:
    play(reader, block, stand_ins)


def test_every_block_is_run_or_has_a_reason() -> None:
    named = [(block.page, block.begins) for block in [*STORY, *ENGINES]] + [*NOT_RUN]
    assert len(named) == len(set(named))
    for page in page_blocks.pages():
        for code in page_blocks.blocks(page):
            found = [one for one in named if one[0] == page and code.startswith(one[1])]
            assert len(found) == 1, f"{page} has a block that is named {len(found)} times:\n{code}"
            named.remove(found[0])
    assert not named, "these are in no page"
    for block in [*STORY, *ENGINES]:
        says_something = any(line.says for line in block.lines.values())
        assert says_something or block.after, f"nothing is looked at: {block.page} {block.begins}"
