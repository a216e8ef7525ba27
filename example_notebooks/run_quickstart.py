"""Run the quickstart headless on the `local` cloud and print its story: prices, attempts, machine, what ran, cost, and that nothing is left.

Uses a ledger and a local cloud of its own, in a temporary folder, so that nobody's clusters are touched. Exits with 1 and names
the step if one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
QUICKSTART = HERE / "quickstart.ipynb"
CELL_SECONDS = 120
"""No cell of the quickstart takes longer, on a machine that is busy with other things."""
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Failed(Exception):
    """A step of the demo did not do what it should."""


def story(notebook: Any, home: Path, out: Any = sys.stdout) -> None:
    """Execute the notebook, printing each cell and what it gave."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    def before(cell: Any, cell_index: int) -> None:
        if cell.cell_type == "markdown":
            return
        print(
            "\n"
            + "\n".join(
                f">>> {line}" if n == 0 else f"... {line}"
                for n, line in enumerate(cell.source.splitlines())
            ),
            file=out,
        )

    def after(cell: Any, cell_index: int, execute_reply: Any) -> None:
        for text in _texts(cell.outputs):
            print(text.rstrip(), file=out, flush=True)

    os.environ |= {
        "NBPROV_HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(HERE)}},
        on_cell_start=before,
        on_cell_executed=after,
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise Failed(f"the notebook: {ANSI.sub('', str(error)).strip()}") from None


def _texts(outputs: Any) -> list[str]:
    """What the outputs say; what was printed in one go is one text, though a busy machine may send it in pieces."""
    texts: list[str] = []
    before = None
    for output in outputs:
        stream = output.name if output.output_type == "stream" else None
        if stream is not None and stream == before:
            texts[-1] += _text_of(output)
        else:
            texts.append(_text_of(output))
        before = stream
    return texts


def _text_of(output: Any) -> str:
    if output.output_type == "stream":
        return ANSI.sub("", output.text)
    if output.output_type == "error":
        return ANSI.sub("", "\n".join(output.traceback))
    return str(output.data.get("text/plain", ""))


def check_story(notebook: Any) -> None:
    """See that the notebook told what it should; the cells themselves fail where something did not work."""
    told = "\n".join(
        text for cell in notebook.cells if cell.cell_type == "code" for text in _texts(cell.outputs)
    )
    for step, wanted in {
        "prices": "A100",
        "failover": "out of stock",
        "machine": "dev is ready",
        "remote Python": "still here: [0.5, 1.5, 2.0, 4.0]",
        "simulated GPU": "GPU 0: A100",
        "same cluster again": "dev is running and fits",
        "end": "ended, confirmed by the cloud's list",
    }.items():
        if wanted not in told:
            raise Failed(f"{step}: {wanted!r} is nowhere in the notebook's output")


def check_nothing_left(home: Path) -> str:
    """Ask the local cloud itself, not our books, what is still alive; and look for its processes."""
    answer = subprocess.run(
        [sys.executable, "-m", "nbprov.clouds.local", "status"],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "NBPROV_HOME": str(home)},
    )
    if answer.returncode:
        raise Failed(f"nothing is left: the local cloud did not answer: {answer.stderr.strip()}")
    machines = json.loads(answer.stdout)["machines"]
    alive = {state: count for state, count in machines.items() if state != "gone"}
    if alive or not machines:
        raise Failed(
            f"nothing is left: the local cloud lists {alive or 'no machine at all, not even the one that was ended'}"
        )
    return "the local cloud's own list: no machine is left"


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, help="write the executed notebook here")
    options = parser.parse_args()
    try:
        import nbformat
    except ImportError as error:
        print(f"demo failed at step: installation ({error})", file=sys.stderr)
        return 1
    started = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="nbprov-", dir="/tmp" if os.name == "posix" else None))
    notebook = nbformat.read(QUICKSTART, as_version=4)
    try:
        story(notebook, home)
        check_story(notebook)
        print(f"\n{check_nothing_left(home)}")
    except Failed as failure:
        print(f"\ndemo failed at step: {failure}", file=sys.stderr)
        return 1
    finally:
        subprocess.run(
            [sys.executable, "-m", "nbprov.clouds.local", "stop"],
            capture_output=True,
            timeout=60,
            env={**os.environ, "NBPROV_HOME": str(home)},
        )
        shutil.rmtree(home, ignore_errors=True)
        if options.save:
            nbformat.write(notebook, options.save)
    print(f"done in {time.monotonic() - started:.0f} s; you paid $0: the local cloud is simulated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
