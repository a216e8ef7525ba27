"""Makes the Python environment of a spec on a machine, with uv. Runs as a job of the agent.

What goes on is printed for the job's log. The result is the record `nbprov.json` of the
environment, which is written last: without it an environment counts as half made. Beside it,
`request.json` keeps what was asked for, so that the very same one can be made elsewhere.
"""
# Percent formats are as readable here as others.

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import time
from typing import Iterator

from .uv import (
    STEP_SECONDS,
    TOO_LONG,
    Json,
    MachinePaths,
    TooLong,
    UvError,
    get_uv,
    index_settings,
    output,
    run,
    say,
)

assert sys.platform != "win32", "this runs on the machine, which is never Windows"
RECORD, REQUEST = "nbprov.json", "request.json"
KEPT = 5
"""Environments left beside the one in use, for those who go back to an earlier spec."""
UNUSED_SECONDS = 30 * 86400.0
"""An environment that was not chosen for so long is removed."""
LOCK_SECONDS = 2 * STEP_SECONDS
"""How long to wait for another job that makes an environment on this machine."""
ALWAYS = ("ipykernel", "pip")
"""Packages of every environment: the kernel of `%%on`, and pip, which `setup` may call."""
LIST = """
import importlib.metadata as m, json, re
every = ((d.metadata["Name"], d.version) for d in m.distributions())
found = {re.sub("[-_.]+", "-", name).lower(): version for name, version in every if name}
print(json.dumps(sorted(found.items())))
"""
TELL = """
import json, platform, sys
print(json.dumps([platform.python_version(), sys.implementation.name]))
"""

_INDEX_OPTION = re.compile(r"\s*(-i|-f|--index-url|--extra-index-url|--find-links|--no-index)\b")


def interpreter_commands(uv: str, version: str) -> tuple[list[str], list[str]]:
    """Return the commands that look for a version of Python, and that fetch it."""
    return [uv, "python", "find", "--no-project", version], [uv, "python", "install", version]


def find_interpreter(uv: str, version: str, machine: MachinePaths) -> str:
    """Return a Python of this version, fetched if the machine has none."""
    look, fetch = interpreter_commands(uv, version)
    found = output(look, machine.env, machine.root)
    if not found:
        say(f"Python {version} is not on this machine; fetching it")
        run(fetch, machine.env, machine.root)
        found = output(look, machine.env, machine.root)
    # The path and not the version: it may lie in an environment, where uv would not look again.
    return found or version


def make_interpreter(uv: str, request: Json, place: str, build: str, machine: MachinePaths) -> str:
    """Make an empty environment with the version asked for, and return its interpreter.

    If no version is asked for it is what the project wants, or the machine's own.
    """
    version = request.get("python") or request["version"]
    if request["kind"] == "project" and not version:
        run([uv, "venv", place], machine.env, build)
    else:
        chosen = find_interpreter(uv, version, machine) if version else machine.python
        run([uv, "venv", "--no-project", "--python", chosen, place], machine.env, machine.root)
    return os.path.join(place, "bin", "python")


def packages_of(python: str, env: dict[str, str]) -> dict[str, str]:
    """Return the versions of all packages in an environment; empty if it cannot be asked."""
    try:
        return {
            str(name): str(version)
            for name, version in json.loads(output([python, "-I", "-c", LIST], env) or "[]")
        }
    except ValueError:
        return {}


def write(path: str, text: str) -> None:
    """Write a private file, since requirements may hold a log-in."""
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)


@contextlib.contextmanager
def workshop(request: Json, place: str) -> Iterator[str]:
    """Yield a private folder with the files of a request, which is removed afterwards."""
    build = place + ".build"
    shutil.rmtree(build, ignore_errors=True)
    os.makedirs(build, mode=0o700)
    try:
        for name, text in request["files"].items():
            write(os.path.join(build, os.path.basename(name)), text)
        yield build
    finally:
        shutil.rmtree(build, ignore_errors=True)


def fill(uv: str, request: Json, place: str, build: str, machine: MachinePaths) -> str:
    """Install the packages, and return the exact list of those that no lock of a project names."""
    python = os.path.join(place, "bin", "python")
    wanted, exact = os.path.join(build, "wanted.in"), os.path.join(build, "exact.txt")
    command = ["--python", python]
    if request["kind"] == "project":
        env = {**machine.env, "UV_PROJECT_ENVIRONMENT": place}
        # The project itself is not built, since its sources are where workdir puts them.
        run([uv, "sync", "--frozen", "--no-install-workspace", *command], env, build)
    if request.get("lock"):
        write(exact, request["lock"])
    else:
        constraints: list[str] = []
        if request["kind"] == "project":
            held = os.path.join(build, "held.txt")
            write(
                held,
                "".join(
                    "{}=={}\n".format(*item)
                    for item in sorted(packages_of(python, machine.env).items())
                ),
            )
            constraints = ["--constraints", held]
        sources = [
            name
            for name in ("requirements.in", "pyproject.toml")
            if name in request["files"] and request["kind"] != "project"
        ]
        write(wanted, "".join(name + "\n" for name in ALWAYS))
        # What stands in the output file is kept with its digests, as far as the request lets it.
        write(exact, request["pins"])
        options = [
            "--quiet",
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
            "--output-file",
            exact,
        ]
        run(
            [uv, "pip", "compile", *options, *constraints, *command, *sources, "wanted.in"],
            machine.env,
            build,
        )
        with open(exact, encoding="utf-8") as file:
            pinned = file.read()
        indexes = [
            line
            for line in request["files"].get("requirements.in", "").splitlines()
            if _INDEX_OPTION.match(line)
        ]
        write(exact, "".join(line + "\n" for line in indexes) + pinned)
    verb = "install" if request["kind"] == "project" else "sync"
    run(
        [uv, "pip", verb, *command, *(["-r"] if verb == "install" else []), exact],
        machine.env,
        build,
    )
    with open(exact, encoding="utf-8") as file:
        return file.read()


def read_record(place: str) -> Json:
    """Return the record of an environment; empty if there is none, or a half-made one."""
    try:
        with open(os.path.join(place, RECORD), encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return {}
    return (
        record
        if isinstance(record, dict) and os.access(os.path.join(place, "bin", "python"), os.X_OK)
        else {}
    )


def changed(record: Json, now: dict[str, str]) -> list[str]:
    """Return the packages of a record that are gone or of another version now."""
    return sorted(name for name, version in record["packages"].items() if now.get(name) != version)


def make(request: Json, machine: MachinePaths) -> None:
    """Make the environment of a request, or find that it is there, and make it the machine's.

    In the request, `key` names the environment; `kind` is `requirements` or `project`; `files` are
    its texts by name; `version` may be empty; `lock` is the exact list of another node, and
    `python` the exact version that goes with it; `pins` are versions and digests of packages,
    taken where the files ask for no others.
    """
    begun = time.monotonic()
    system = [request["key"], sys.platform, platform.machine(), platform.libc_ver()[0]]
    mark = hashlib.sha256("|".join(system).encode()).hexdigest()
    place = os.path.join(machine.environments, mark[:16])
    record = read_record(place)
    if (
        record
        and request.get("lock")
        and (record["lock"], record["python"]) != (request["lock"], request["python"])
    ):
        record = {}
    differing = (
        changed(record, packages_of(os.path.join(place, "bin", "python"), machine.env))
        if record
        else []
    )
    if record and not differing:
        choose(machine, place)
        say(f"python: as before: {words(record)}")
        return
    uv = get_uv(machine)
    machine.env.update(
        index_settings(
            machine.env, output([machine.python, "-m", "pip", "config", "list"], machine.env)
        )
    )
    with workshop(request, place) as build:
        if record:
            say("changed since it was made, and put back: {}".format(", ".join(differing)))
            put_back(uv, record, differing, place, build, machine)
        else:
            make_anew(uv, request, place, build, machine)
    choose(machine, place)
    say(f"python: made in {time.monotonic() - begun:.0f} s: {words(read_record(place))}")


def put_back(
    uv: str, record: Json, differing: list[str], place: str, build: str, machine: MachinePaths
) -> None:
    """Install changed packages again as they were; what was added is left alone."""
    exact = os.path.join(build, "exact.txt")
    write(exact, record["lock"])
    again = [word for name in differing for word in ("--reinstall-package", name)]
    if os.path.exists(os.path.join(build, "uv.lock")):
        env = {**machine.env, "UV_PROJECT_ENVIRONMENT": place}
        run([uv, "sync", "--frozen", "--inexact", "--no-install-workspace", *again], env, build)
    run(
        [
            uv,
            "pip",
            "install",
            "--python",
            os.path.join(place, "bin", "python"),
            *again,
            "-r",
            exact,
        ],
        machine.env,
        build,
    )


def make_anew(uv: str, request: Json, place: str, build: str, machine: MachinePaths) -> None:
    """Make an environment from nothing; its record is written last."""
    shutil.rmtree(place, ignore_errors=True)
    try:
        python = make_interpreter(uv, request, place, build, machine)
        lock = fill(uv, request, place, build, machine)
        version, implementation = json.loads(
            output([python, "-I", "-c", TELL], machine.env) or "[0, 0]"
        )
        if not version:
            raise UvError(f"the new interpreter does not start: {python}")
        record = {
            "key": request["key"],
            "python": version,
            "implementation": implementation,
            "lock": lock,
        }
        record["packages"] = packages_of(python, machine.env)
        keep_request(request, place)
        write(os.path.join(place, RECORD + ".new"), json.dumps(record))
        os.rename(os.path.join(place, RECORD + ".new"), os.path.join(place, RECORD))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def keep_request(request: Json, place: str) -> None:
    """Write down what was asked for, without the exact list of another node."""
    write(
        os.path.join(place, REQUEST + ".new"),
        json.dumps({name: request[name] for name in ("key", "kind", "version", "files")}),
    )
    os.rename(os.path.join(place, REQUEST + ".new"), os.path.join(place, REQUEST))


def words(record: Json) -> str:
    """Return a short description of an environment."""
    return f"Python {record['python']} with {len(record['packages'])} packages"


def choose(machine: MachinePaths, place: str) -> None:
    """Make an environment the machine's: all that is started from now on uses it."""
    os.utime(os.path.join(place, RECORD))
    if os.path.realpath(machine.chosen) == os.path.realpath(place):
        return
    fresh = machine.chosen + ".new"
    with contextlib.suppress(OSError):
        os.unlink(fresh)
    os.symlink(os.path.join("envs", os.path.basename(place)), fresh)
    os.rename(fresh, machine.chosen)


def tidy(machine: MachinePaths) -> None:
    """Remove environments that are half made, long unused, or too many, but none in use."""
    current, used = os.path.realpath(machine.chosen), places_in_use(machine)
    found = []
    for entry in os.scandir(machine.environments):
        if (
            entry.is_dir(follow_symlinks=False)
            and os.path.realpath(entry.path) != current
            and entry.path not in used
        ):
            try:
                last = os.stat(os.path.join(entry.path, RECORD)).st_mtime
            except OSError:
                last = 0.0
            found.append((last, entry.path))
    for number, (last, path) in enumerate(sorted(found, reverse=True)):
        if number >= KEPT or time.time() - last > UNUSED_SECONDS:
            say(f"removing {path}, which nothing has used for long")
            shutil.rmtree(path, ignore_errors=True)


def places_in_use(machine: MachinePaths) -> set[str]:
    """Return the environments that some process of ours was started in."""
    found = set()
    marks = [entry.path for entry in os.scandir(machine.environments)]
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        with contextlib.suppress(OSError):
            if name.isdigit() and int(name) != os.getpid():
                with open(f"/proc/{name}/environ", "rb") as file:
                    text = file.read().decode("utf-8", "replace")
                found |= {mark for mark in marks if os.path.join(mark, "bin") in text}
    return found


@contextlib.contextmanager
def alone(machine: MachinePaths) -> Iterator[None]:
    """Hold the lock under which one job at a time makes environments on this machine."""
    os.makedirs(machine.environments, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(machine.root, "python.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    deadline, is_told = time.monotonic() + LOCK_SECONDS, False
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise TooLong("another job that makes an environment does not end") from None
            if not is_told:
                say("another job makes an environment here; waiting for it")
                is_told = True
            time.sleep(0.2)
        yield
    finally:
        os.close(lock)


def main(request: Json) -> int:
    """Do what a request says, and return the exit code of the job."""
    machine = MachinePaths(os.path.join(os.path.expanduser("~"), ".nbprov"))
    try:
        with alone(machine):
            make(request, machine)
            tidy(machine)
    except (UvError, OSError) as error:
        say(f"nbprov: {error}")
        return TOO_LONG if isinstance(error, TooLong) else 1
    return 0
