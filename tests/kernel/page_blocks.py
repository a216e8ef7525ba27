"""The code blocks of README and docs/ that a notebook can run, and how each is run.

A block runs in the place that its page gives it: `before` brings about what the page takes for
granted, and a line that only heads a cell gets a `body`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from page_contexts import (
    DOWN,
    FILES,
    GPU,
    HERE,
    LAUNCH,
    OUTPUTS,
    PAIR,
    PROJECT,
    READS,
    SERVERS,
    SPEC,
    TABLE,
    TORCH,
    TRAIN,
)

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    "docs/tutorial.md": "test_tutorial.py runs it",
    "docs/adding-a-cloud.md": "tests/unit/clouds/test_scaffold.py runs it",
}


@dataclass(frozen=True)
class Line:
    """How one cell of a block is run, and the words that its output or its error has."""

    says: str = ""
    body: str = ""
    before: tuple[str, ...] = ()
    is_refused: bool = False


@dataclass(frozen=True)
class Block:
    """A block of a page by its beginning, with its cells by theirs.

    Cells that are not named here only must not fail.
    """

    page: str
    begins: str
    lines: dict[str, Line]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def blocks(page: str) -> list[str]:
    """Return the blocks of a page that are meant for a notebook."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        code
        for language, code in BLOCK.findall(text)
        if language == "python" or (not language and code.startswith("%"))
    ]


def pages() -> list[str]:
    """Return README and the pages of docs/ that have such blocks."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return [name for name in names if name not in ELSEWHERE and blocks(name)]


def cells(code: str) -> Iterator[str]:
    """Split a block: each magic begins a cell, and so does each statement of Python."""
    if not re.search("^%", code, re.MULTILINE):
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        for statement in compile(code, "page", "exec", flags).body:
            yield ast.get_source_segment(code, statement) or ""
        return
    yield from (
        part.strip() for part in re.split(r"^(?=(?:\w+ = )?%)", code, flags=re.MULTILINE) if part
    )


STORY = [
    Block(
        "docs/getting-a-machine.md",
        "%load_ext nbprov\n%nbprov check",
        {
            "%nbprov check": Line("local-demo"),
            "%prices --gpus": Line("A100"),
            "%prices A100": Line("$/h"),
        },
    ),
    Block(
        "README.md",
        "%load_ext nbprov",
        {"%prices A100": Line("$/h"), "%%provision dev": Line("L4:1 sim-l4-1")},
        after=("dev.launch().wait()", DOWN),
    ),
    Block(
        "docs/getting-a-machine.md",
        "%%provision dev\nresources:",
        {"%%provision dev": Line("waiting for Launch")},
        after=("dev.launch().wait()",),
    ),
    Block(
        "docs/getting-a-machine.md",
        "%nbprov attempts dev",
        {
            "%nbprov attempts": Line("out of stock"),
            "%nbprov blocks": Line("over your quota"),
            "%nbprov log dev": Line("attempt 6"),
            # The local cloud does not report its stock.
            "%nbprov watch": Line("watch.nobody-tells", is_refused=True),
        },
    ),
    Block(
        "README.md",
        "%%on dev",
        {"%%on dev": Line("A100"), "%nbprov down dev": Line("confirmed by the cloud's list")},
        before=(TORCH,),
    ),
    Block(
        "docs/getting-a-machine.md",
        "%%provision dev --env",
        {"%%provision dev --env": Line("waiting for Launch")},
        before=(PROJECT,),
        after=(
            "dev.launch().wait()",
            "dev.wait_job('run')",
            "told = dev.logs('run'); assert '--epochs 3 --lr 0.0003 run 7' in told, told",
        ),
    ),
    Block(
        "docs/using.md",
        "%%on dev  ",
        {
            "%%on dev  ": Line("3", body="x = 3\nx"),
            "%%on dev --bash": Line("a line of the shell", body="echo a line of the shell"),
            "%%on dev -i": Line("6", body="loss = sum(batch)\nloss"),
            "%%on dev --nodes": Line(
                "on 0", body="import os; print('on', os.environ['NODE_RANK'])"
            ),
            "%%on dev --env": Line(
                "fast ***", body="import os; print(os.environ['MODE'], os.environ['HF_TOKEN'])"
            ),
            "%nbprov cells dev  ": Line("loss = sum(batch)"),
            "%nbprov cells dev last": Line("fast ***"),
        },
        before=("batch = [1, 2, 3]",),
        after=("assert loss == 6",),
    ),
    Block(
        "docs/commands.md",
        "%%on dev -i batch",
        {},
        before=("%%on dev\nimport numpy\nmodel = lambda batch: numpy.array(batch) * 3",),
        after=("assert loss == 6",),
    ),
    Block(
        "docs/commands.md",
        "%prices A100:8",
        {
            "%prices A100:8": Line("spot"),
            "%prices A100:4+": Line("prices of A100:4+"),
            "%prices 80GB+:8": Line("H100:8"),
            "%prices --gpus": Line("H100"),
            "x = %prices": Line(),
        },
        after=("assert set(x.accelerator) >= {'H100', 'H200'}",),
    ),
    Block(
        "docs/commands.md",
        "%%provision dev\n",
        {"%%provision dev": Line("provision.not-set-up", is_refused=True)},
        before=(DOWN,),
    ),
    Block(
        "docs/using.md",
        "%nbprov tunnel dev",
        {
            "%nbprov tunnel dev 6006  ": Line("is port 6006 of dev"),
            "%nbprov tunnel dev 8888": Line("http://127.0.0.1:9000 is port 8888 of dev"),
            "%nbprov tunnel pair": Line("is port 8265 of pair node 1"),
            "%nbprov tunnel  ": Line("9000"),
            "%nbprov tunnel dev 6006 --close": Line("closed"),
        },
        before=(LAUNCH, PAIR),
    ),
    Block(
        "docs/using.md",
        "board = ",
        {
            "board.url": Line("'http://127.0.0.1:"),
            "with": Line("a page of the machine"),
            "nbprov.session().tunnels()": Line("8888"),
            "await": Line("6006"),
        },
        before=(SERVERS, READS),
    ),
    Block(
        "docs/files-and-outputs.md",
        "%nbprov sync dev src",
        {
            "%nbprov sync dev src --push  ": Line("1 file"),
            "%nbprov sync dev results": Line("1 file"),
            "%nbprov sync dev notes": Line("2 files"),
            "%nbprov sync dev src --push --dry": Line("nothing"),
            "%nbprov sync dev src --push --delete": Line(
                "old.py", before=("%%on dev --bash\ntouch src/old.py",)
            ),
            "%nbprov sync dev src --push --node": Line("1 file"),
        },
        before=(DOWN, PAIR.replace("pair", "dev"), FILES, HERE),
        after=("assert Path('results/figures.csv').read_text() == '1\\n'",),
    ),
    Block(
        "docs/files-and-outputs.md",
        "dev = nbprov",
        {
            "dev.push": Line("1"),
            "dev.pull": Line("more.csv"),
            "dev.sync": Line("()"),
            "await": Line("1 of 1 files moved"),
        },
        before=(
            "Path('src/code.py').write_text('x = 22')",
            "%%on dev --bash\necho 3 > /data/out/more.csv",
        ),
        after=("assert Path('results/more.csv').exists()",),
    ),
    Block(
        "docs/jobs-and-engines.md",
        "%%nbprov jobs dev submit",
        {"%%nbprov jobs": Line("train-1")},
        before=(DOWN, GPU, TRAIN),
    ),
    Block(
        "docs/jobs-and-engines.md",
        "%nbprov jobs dev submit",
        {
            "%nbprov jobs dev submit": Line("job-1"),
            "%nbprov jobs  ": Line("train-1"),
            "%nbprov logs dev train  ": Line(
                "trains --lr 3e-4", before=("%nbprov jobs dev wait train",)
            ),
            "%nbprov logs dev train -f": Line("trains --lr 3e-4"),
            "%nbprov jobs dev wait": Line("train-1: ok"),
            "%nbprov jobs dev cancel": Line("no job was running or waiting"),
        },
    ),
    Block(
        "docs/jobs-and-engines.md",
        "dev = nbprov",
        {
            "job.id": Line("('train-2'"),
            "job.wait": Line("0"),
            "print": Line("trains with 3e-4"),
            "dev.jobs()": Line("job-1"),
            "nbprov.session().jobs": Line("trains"),
        },
    ),
    Block(
        "docs/commands.md",
        "%%nbprov jobs dev submit",
        {
            "%%nbprov jobs dev submit": Line("train-", body="python train.py"),
            "%nbprov jobs dev submit": Line("job-"),
            "%nbprov logs dev train -f": Line("trains"),
            "%nbprov jobs dev cancel": Line("no job was running or waiting"),
            "%nbprov jobs dev": Line("train-3"),
        },
    ),
    Block(
        "docs/using.md",
        "%nbprov stop dev",
        {
            "%nbprov stop dev": Line("stopped"),
            "%nbprov start dev  ": Line("dev"),
            "%nbprov start dev --wait": Line("dev"),
            "%nbprov rename": Line("train"),
            "%%provision dev --replace": Line(
                "If this launch fails, dev stays as it is",
                body="resources: {cpus: 8, infra: local}",
                before=("%nbprov rename train dev",),
            ),
            "%clusters": Line("running"),
            "%nbprov dashboard": Line("today"),
            "%nbprov history": Line("dev"),
            "%nbprov down --all": Line("confirmed by the cloud's list"),
        },
        before=(DOWN, LAUNCH),
    ),
    Block(
        "docs/files-and-outputs.md",
        "%nbprov outputs dev",
        {
            "%nbprov outputs dev": Line("loss.csv"),
            "%nbprov down dev  ": Line("loss.csv"),
            "%nbprov down dev --no-outputs": Line("confirmed", before=(OUTPUTS,)),
        },
        before=(OUTPUTS,),
    ),
    Block(
        "docs/python.md",
        "import nbprov",
        {
            'nbprov.prices("A100:8").to_frame()': Line("hourly"),
            'nbprov.prices(region="eu")': Line("A100"),
            'nbprov.prices("80GB+:4+"': Line("offers>"),
            "plan.chosen": Line("3670000"),
            'dev.cell("x': Line("'42'"),
            "dev.bash": Line("A100"),
            "job.wait()": Line(
                "0",
                before=(
                    "dev.bash('echo > train.py')",
                    "job.cancel()",
                    "job = dev.submit('python train.py')",
                ),
            ),
            "dev.jobs()": Line("train-1"),
            "dev.logs": Line("prepared"),
            "dev.view()": Line("idle"),
        },
    ),
    Block(
        "docs/python.md",
        "run = await",
        {'result = await nbprov.aio.cell("dev"': Line(before=("dev.cell('x = 41')",))},
        before=(SPEC,),
        after=("assert result.value == '42'",),
    ),
    Block(
        "docs/reference-python.md",
        "run = nbprov.provision",
        {"[(view": Line("[('dev', 'running')]")},
        after=(DOWN,),
    ),
    Block("docs/reference-python.md", "sum(", {"sum(": Line("0.")}),
    Block(
        "docs/reference-python.md",
        "run = await",
        {},
        before=(SPEC,),
        after=("assert result.value == '42'",),
    ),
    Block(
        "docs/reference-handles.md",
        "run = nbprov",
        {"run.plan": Line("3670000")},
        after=("assert dev.view().state.value == 'running'", DOWN),
    ),
    Block(
        "docs/reference-exceptions.md",
        "from nbprov",
        {"try:": Line("3 places were tried")},
        before=("spec = 'resources: {accelerators: A100:8, infra: local/local-south}'",),
    ),
]
"""In this order, in one kernel."""

ENGINES = [
    Block(
        "docs/jobs-and-engines.md",
        "%%provision gang",
        {"%%provision gang": Line("waiting for Launch")},
        after=("gang.launch().wait()",),
    ),
    Block(
        "docs/jobs-and-engines.md",
        "client = gang",
        {"client": Line(), "table": Line("2.0")},
        before=(TABLE,),
        after=("assert len(client.scheduler_info()['workers']) == 4", DOWN),
    ),
]
"""These need the extra `dask`; test_engine_notebooks.py runs them."""

NOT_RUN = {
    ("docs/catalogue.md", "%nbprov catalog refresh"): "fetches prices from the network",
    ("docs/catalogue.md", "%config Nbprov.catalog_refresh"): "begins to fetch prices",
    (
        "docs/jobs-and-engines.md",
        "%%on pair --bash",
    ): "asks for 32 cores; test_gangs.py runs mpirun",
}
"""By page and beginning: why a block is not run."""
