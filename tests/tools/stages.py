"""The stages of the suite, in the order of the summary."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import sys
import time
from pathlib import Path

import check_wheel
import environments
import programs
from tree import ROOT
from work import Stage, Work

SCRIPTS = Path(sys.executable).parent
TOOLS = ROOT / "tests" / "tools"
CHAOS = ROOT / "tests" / "chaos" / "run.py"
SHORT_CHAOS = ("--runs", "24", "--seed", "1", "--workers", "2")
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
"""The files of a folder in its order.

Xdist's own order, by the number of tests, leaves files of a few long ones to the end.
"""
PARALLEL = ("-n", "3", *BY_FILE)
"""These tests wait more than they compute: three processes keep two cores busy."""
BESIDE = ("-n", "2", *BY_FILE)
LONG_FIRST = ("machines", "provisioning", "remote", "on_machine", "clouds")
"""Folders of unit tests with real machines or doubles.

They come first, or one of their files would be worked on alone at the end.
"""
ENGINES = tuple(f"tests/unit/machines/engines/test_{name}.py" for name in ("dask", "ray"))
"""Tests with real Dask and Ray on real machines: an eighth of what all tests cost."""
ENGINE_NOTEBOOKS = "tests/kernel/test_engine_notebooks.py"
"""Notebooks that use them."""
HOSTS = tuple(
    f"tests/browser/test_browser_{name}.py"
    for name in (
        "reopening",
        "closed_tab",
        "saved",
        "restart",
        "frames",
        "viewers",
        "foreign",
        "hosts",
        "vscode",
        "theme",
        "time_zone",
        "examples",
        "other_kernels",
        "busy",
        "benchmarks",
    )
)
"""Browser tests of notebooks that are closed and opened again, other front ends and viewers.

They are three fifths of what the browser tests cost, and seldom fail where the others pass.
"""
DEMO_SECONDS = 60.0
LOWEST = (
    "notebook",  # IPython, traitlets, anywidget, ipywidgets; pandas for what is stored
    "spec/test_corpus.py",  # PyYAML, as the next two
    "spec/reading",
    "spec/writing",
    "api/test_catalogue_verbs.py",  # pandas and numpy, as a notebook asks for them
    "api/test_live_rows.py",
    "catalog/test_*.py",
    "catalog/store",  # numpy over columns, pandas
    "catalog/refresh/test_refresh_differences.py",  # pandas, as the next one
    "catalog/refresh/test_refresh_hosted.py",
    "planning/test_plan_*.py",  # numpy over all offers, as the next one
    "planning/test_relax.py",
    "machines/variables/test_restricted_unpickler.py",  # numpy and pandas values that travel
    "clouds/web/test_*.py",  # requests
    "clouds/aws/test_prices.py",  # boto3
    "clouds/gcp/test_prices.py",  # google-auth
    "remote/ssh/test_connection_machine.py",  # asyncssh
)
"""The unit tests of parts that use other libraries.

The engine and the agent use only these parts and Python.
"""
LOWEST_CONTRACT = "(aws or gcp) and (lives or lost or all_or_none)"
"""Of the contract what meets most of the providers' SDKs."""


def lint(work: Work) -> None:
    """Style and format."""
    work.command([sys.executable, "-m", "ruff", "check", "."])
    work.command([sys.executable, "-m", "ruff", "format", "--check", "."])


def types(work: Work) -> None:
    """The strict type check, for this platform."""
    _types(work, sys.platform)


def windows(work: Work) -> None:
    """The strict type check as Windows would have it."""
    # The agent runs on machines with POSIX; what this side imports of it is checked all the same.
    _types(work, "win32", "--exclude", "nbprov/on_machine/agent/")


def _types(work: Work, platform: str, *options: str) -> None:
    # Each platform has its own cache, or they would undo one another's.
    cache = ROOT / ".mypy_cache" / platform
    base = [sys.executable, "-m", "mypy", "--platform", platform, "--cache-dir", str(cache)]
    folders = [name for name in ("nbprov", "benchmarks") if any((ROOT / name).rglob("*.py"))]
    work.command([*base, *options, *folders])
    tools = ["tests/tools", "tests/conftest.py"]
    work.command([*base, *options, *tools], env={"MYPYPATH": str(TOOLS)})


def layers(work: Work) -> None:
    """The import contracts."""
    work.command([SCRIPTS / "lint-imports", "--no-cache"])


def site(work: Work) -> None:
    """The documentation as a site, in build/site: no link leads nowhere."""
    options = ["-q", "-W", "--keep-going", "-b", "html"]
    work.command([sys.executable, "-m", "sphinx", *options, "docs", "build/site"])


def widgets(work: Work) -> None:
    """The panels' ESM: types and syntax."""
    script = TOOLS / "check_widgets.py"
    if not script.exists():
        work.absent("tests/tools/check_widgets.py does not exist")
        return
    work.command([sys.executable, script])


def unit(work: Work) -> None:
    """What needs no kernel."""
    found = sorted(
        path.relative_to(ROOT)
        for path in (ROOT / "tests" / "unit").iterdir()
        if any(path.rglob("test_*.py")) or path.match("test_*.py")
    )
    found.sort(
        key=lambda path: LONG_FIRST.index(path.name) if path.name in LONG_FIRST else len(LONG_FIRST)
    )
    # Each of the workers would compile all tests for itself, and rewrite their assertions: 15 s.
    ignored = [f"--ignore={file}" for file in ENGINES]
    collect = ["-m", "pytest", "-qq", "--collect-only", *ignored, *map(str, found)]
    work.command([sys.executable, *collect], test=False)
    work.pytest(found, *ignored, "-n", "4", *BY_FILE)


def engines(work: Work) -> None:
    """Real Dask and Ray on real machines."""
    work.pytest([*ENGINES, ENGINE_NOTEBOOKS], *BESIDE)


def contract(work: Work) -> None:
    """Every cloud against the contract."""
    work.pytest(["tests/contract", "tests/plugins"], "-n", "2")


def kernel(work: Work) -> None:
    """Fresh kernels, and the notebooks."""
    work.note(f"ipykernel {importlib.metadata.version('ipykernel')}")
    work.pytest(["tests/kernel"], f"--ignore={ENGINE_NOTEBOOKS}", *PARALLEL)


def chaos(work: Work) -> None:
    """Kills at every state transition, in the short form.

    The harness's own tests and a short soak run before it.
    """
    if any((ROOT / "tests" / "chaos").glob("test_*.py")):
        work.pytest(["tests/chaos"])
    work.pytest(["tests/soak"])
    if not CHAOS.exists():
        work.absent("tests/chaos/run.py does not exist")
        return
    work.command([sys.executable, CHAOS, *SHORT_CHAOS])


def browser(work: Work) -> None:
    """Launches, tables and the dashboard in real JupyterLab, in a real browser."""
    if lacking := programs.missing([programs.CHROMIUM]):
        work.absent(programs.advice(lacking))
        return
    work.pytest(["tests/browser"], *(f"--ignore={file}" for file in HOSTS), *BESIDE)


def hosts(work: Work) -> None:
    """Notebooks that are opened again, other front ends, and viewers of a machine's output."""
    if lacking := programs.missing([programs.CHROMIUM]):
        work.absent(programs.advice(lacking))
        return
    work.pytest(HOSTS, *BESIDE)


def firefox(work: Work) -> None:
    """The browser tests marked `firefox`, in Firefox as the system's archive has it."""
    if lacking := programs.install_missing([programs.FIREFOX]):
        work.absent(programs.advice(lacking))
        return
    work.note(programs.version(programs.FIREFOX))
    work.pytest(["tests/browser"], *BESIDE, "-m", "firefox", env={"NBPROV_TEST_BROWSER": "firefox"})


def wheel(work: Work) -> None:
    """The wheel a user would install."""
    work.command([sys.executable, TOOLS / "check_wheel.py"])


def install(work: Work) -> None:
    """Fetch what the stages `lowest` and `ipykernel` need, beside the quick stages."""
    work.command([sys.executable, TOOLS / "environments.py"], test=False)


def lowest(work: Work) -> None:
    """The tests of what uses other libraries, with the lowest versions that pyproject.toml allows.

    The kernel tests marked `versions` run too. The property tests are left out: they look for
    faults of our own, and do so in the stage `unit`.
    """
    if not work.command(
        [sys.executable, TOOLS / "environments.py", "--only", "lowest"], test=False
    ):
        return
    python, pins = environments.lowest_environment()
    work.note(", ".join(pins))
    places = [path for name in LOWEST for path in sorted((ROOT / "tests" / "unit").glob(name))]
    work.pytest(places, *BESIDE, "-m", "not hypothesis", python=python)
    work.pytest(
        ["tests/contract/test_cloud_contract.py"], "-n", "2", "-k", LOWEST_CONTRACT, python=python
    )
    work.pytest(["tests/kernel"], *BESIDE, "-m", "versions", python=python)


def ipykernel(work: Work) -> None:
    """The kernel tests marked `versions`, with every other supported ipykernel.

    All releases run at once, each one test at a time.
    """
    work.at_once(
        {
            version: functools.partial(_with_ipykernel, version)
            for version in environments.other_ipykernels()
        }
    )


def _with_ipykernel(version: str, work: Work) -> None:
    if not work.command([sys.executable, TOOLS / "environments.py", "--only", version], test=False):
        return
    folder = environments.ipykernel_folder(version, Path(sys.executable))
    inherited = os.environ.get("PYTHONPATH")
    env = {"PYTHONPATH": os.pathsep.join([str(folder), *([inherited] if inherited else [])])}
    check = (
        "import sys, ipykernel; print(ipykernel.__version__);"
        f" sys.exit(ipykernel.__version__ != {version!r})"
    )
    if work.command([sys.executable, "-c", check], env=env, test=False):
        work.note(version)
        work.pytest(["tests/kernel"], "-m", "versions", env=env)


def demo(work: Work) -> None:
    """What a person does first: `make demo` in a fresh copy, with an environment of its own."""
    if not (ROOT / "example_notebooks" / "run_quickstart.py").exists():
        work.absent("example_notebooks/run_quickstart.py does not exist")
        return
    copy = work.scratch / "clone"
    check_wheel.copy_sources(copy)
    make = shutil.which("make") or "make"
    home = {"NBPROV_HOME": str(work.scratch / "home"), "MAKEFLAGS": "", "MAKELEVEL": ""}
    if not work.command([make, "setup-demo"], cwd=copy, env=home, test=False):
        return
    started = time.monotonic()
    work.command([make, "demo"], cwd=copy, env=home)
    seconds = time.monotonic() - started
    work.note(f"{seconds:.0f} s after the installation")
    if seconds > DEMO_SECONDS:
        work.result.log.append(
            f"make demo took {seconds:.0f} s after its installation; it may take"
            f" {DEMO_SECONDS:.0f} s\n"
        )
        work.result.failed += 1


STAGES = (
    Stage(
        "install",
        "the environments of the stages ipykernel and lowest",
        install,
        beside=True,
        in_ci_only=True,
    ),
    Stage("lint", "ruff: style and format", lint, beside=True),
    Stage("types", "mypy --strict, for this platform", types, beside=True),
    Stage("windows", "mypy --strict, for Windows", windows, beside=True, in_ci_only=True),
    Stage("layers", "the import contracts of the house", layers, beside=True),
    Stage("widgets", "the panels' ESM", widgets, beside=True),
    Stage("site", "the documentation as a site, without a warning", site, beside=True),
    Stage("wheel", "the wheel, built from a clean copy and used", wheel, beside=True),
    # Before the unit tests, which alone keep all cores busy to the end.
    Stage("kernel", "fresh kernels and the notebooks", kernel, deadline=2400.0),
    Stage("unit", "what needs no account and no kernel", unit, deadline=2400.0),
    Stage("contract", "every cloud against the contract", contract, beside=True),
    Stage("browser", "the story in real JupyterLab", browser, beside=True),
    Stage(
        "hosts",
        "notebooks opened again, other front ends and viewers, in a browser",
        hosts,
        beside=True,
        in_ci_only=True,
    ),
    Stage(
        "firefox",
        "the marked browser tests in Firefox",
        firefox,
        beside=True,
        in_ci_only=True,
    ),
    Stage(
        "lowest",
        "what uses other libraries, with their lowest supported versions",
        lowest,
        beside=True,
        after=("install",),
        in_ci_only=True,
    ),
    Stage("engines", "Dask and Ray on real machines", engines, beside=True, in_ci_only=True),
    Stage("chaos", "kills at every state transition, short", chaos, beside=True, in_ci_only=True),
    Stage(
        "ipykernel",
        "the marked kernel tests with the other ipykernels",
        ipykernel,
        beside=True,
        in_ci_only=True,
    ),
    Stage("demo", "make demo in a fresh copy", demo, beside=True),
)
