"""Tries deliberate bugs in adapters, and lists those that the contract does not see.

    python tests/tools/adapter_mutants.py [--only TEXT] [--jobs 2]

Each mutant runs in a copy of the tree (of links, with one file changed): first the check that it
names, then, if that passed, all checks of its cloud. The exit code is 0 if none survived.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "contract"))

from mutants import MUTANTS, Mutant  # type: ignore[import-not-found]  # noqa: E402

COPIED = ("nbprov", "tests/contract", "tests/doubles", "tests/plugins")
LINKED = ("catalogs", "pyproject.toml", "tests/conftest.py")
SECONDS = 600.0
"""How long the checks of one mutant may take on a busy machine."""


class LostMutantError(Exception):
    """A mutant's text is not in its file exactly once."""


def mutated(mutant: Mutant) -> str:
    """Return the file's text with the bug."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    if (count := text.count(mutant.old)) != 1:
        raise LostMutantError(
            f"{mutant.cloud}: {mutant.what}: {mutant.file} has its text {count} times, not once:"
            f"\n{mutant.old}"
        )
    return str(text.replace(mutant.old, mutant.new))


@contextmanager
def tree_with(mutant: Mutant) -> Iterator[Path]:
    """Make a tree of links to this checkout, in which one file is another."""
    text = mutated(mutant)
    with tempfile.TemporaryDirectory(prefix="mut") as folder:
        tree = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, tree / name, copy_function=os.symlink)
        for name in LINKED:
            if (ROOT / name).exists():
                (tree / name).symlink_to(ROOT / name)
        (tree / mutant.file).unlink()
        (tree / mutant.file).write_text(text, encoding="utf-8")
        yield tree


def checked(tree: Path, cloud: str, check: str = "") -> tuple[bool, str]:
    """Run one check of a cloud, or all; return whether they passed, and what pytest said."""
    which = f"[{cloud}-{check}]" if check else f"[{cloud}-"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=line"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(tree)]
    file = tree / "tests" / "contract" / "test_cloud_contract.py"
    if check:
        command.append(f"{file}::test_cloud_keeps_the_contract{which}")
    else:
        command += [str(file), "-k", cloud]
    env = {**os.environ, "PYTHONPATH": str(tree)}
    run = subprocess.run(
        command, cwd=tree, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if run.returncode not in (0, 1):
        raise RuntimeError(f"pytest did not run: {run.stdout[-2000:]}{run.stderr[-2000:]}")
    return run.returncode == 0, run.stdout


def verdict(mutant: Mutant) -> str:
    """Return how a mutant was caught; empty if it survived."""
    with tree_with(mutant) as tree:
        passed, said = checked(tree, mutant.cloud, mutant.caught_by)
        if not passed:
            return str(mutant.caught_by)
        passed, said = checked(tree, mutant.cloud)
        failed = [line for line in said.splitlines() if line.startswith("FAILED")]
        return "" if passed else f"another check: {' '.join(failed)}"


def main() -> int:
    """Try the mutants; return 1 if one survived, 2 if one is lost."""
    parser = argparse.ArgumentParser(description="deliberate bugs that the contract has to see")
    parser.add_argument("--only", default="", help="part of a cloud's name or of what is wrong")
    parser.add_argument("--jobs", type=int, default=2)
    told = parser.parse_args()
    chosen = [one for one in MUTANTS if told.only in f"{one.cloud}: {one.what}"]
    try:
        for one in MUTANTS:
            mutated(one)
    except LostMutantError as lost:
        print(lost, file=sys.stderr)
        return 2
    began, survived = time.monotonic(), []
    with ThreadPoolExecutor(told.jobs) as pool:
        for one, how in zip(chosen, pool.map(verdict, chosen), strict=True):
            print(f"{'caught' if how else 'SURVIVED'}: {one.cloud}: {one.what} ({how})", flush=True)
            survived += [] if how else [one]
    clouds = len({one.cloud for one in chosen})
    print(
        f"{len(chosen)} mutants of {clouds} adapters in {time.monotonic() - began:.0f} s:", end=""
    )
    print(f" {len(survived)} survived")
    for one in survived:
        print(f"  {one.cloud}: {one.what}: {one.caught_by} passed ({one.file})")
    return 1 if survived else 0


if __name__ == "__main__":
    raise SystemExit(main())
