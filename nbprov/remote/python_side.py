"""Makes the Python environment of a spec on a machine, with uv. This file is sent there as text and runs as a job of the agent.

Standard library only, Python 3.8 or later. The request is a JSON object (see `make`); what goes on is printed for the job's log; what came
of it stands in the record `nbprov.json` of the environment, which is written last: without it an environment counts as half made.
"""
# Python 3.8 has its say: only annotations may use newer forms. Percent formats are as readable, and work there.
# ruff: noqa: UP031, UP035

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any, Dict, Iterator

RECORD = "nbprov.json"
KEPT = 5
"""Environments left on a machine beside the one in use: some go back to an earlier spec, and each may take gigabytes."""
UNUSED_SECONDS = 30 * 86400.0
"""After so long without a bring-up nobody comes back for an environment."""
STEP_SECONDS = 3600.0
"""The longest that one step of uv or pip may take: gigabytes over a slow line, or a package that is compiled."""
LOCK_SECONDS = 2 * STEP_SECONDS
"""How long another making of an environment on this machine is waited for."""
LOOK_SECONDS = 60.0
"""How long asking an interpreter or a tool for its version may take, on a disk that is just being read for the first time."""
OLDEST_UV = (0, 5)
"""The first series with `uv python` and all of `uv sync --frozen` that is used here."""
INSTALLER = "https://astral.sh/uv/install.sh"
ALWAYS = ("ipykernel", "pip")
"""In every environment: the kernel of `%%on`, and the pip that `setup` means when it says pip."""
LIST = "import json, importlib.metadata as m; print(json.dumps(sorted({(d.metadata['Name'] or '').lower().replace('_', '-').replace('.', '-'): d.version for d in m.distributions() if d.metadata['Name']}.items())))"
TELL = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.implementation.name]))"

_LOGIN = re.compile(r"://[^/@\s]+@")
_INDEX_OPTION = re.compile(r"\s*(-i|-f|--index-url|--extra-index-url|--find-links|--no-index)\b")

Json = Dict[str, Any]  # noqa: UP006


class Trouble(Exception):
    """What cannot be done, in a line."""


def say(text: str) -> None:
    """A line of the job's log, log-ins of URLs blotted out."""
    print(_LOGIN.sub("://***@", text), flush=True)


# ---------------------------------------------------------------- processes


def run(command: list[str], env: dict[str, str], folder: str) -> None:
    """Run a step, its output in the log.

    Raises
    ------
    Trouble
        If it ends with a code other than 0, or not in time.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=folder, bufsize=0
    )
    assert process.stdout is not None
    timer = threading.Timer(STEP_SECONDS, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                say("  " + text)
        code = process.wait()
    finally:
        timer.cancel()
    if code:
        what = " ".join([os.path.basename(command[0]), *(word for word in command[1:4] if not word.startswith("-"))])
        raise Trouble("%s ended with code %d" % (what, code) if code != -signal.SIGKILL else "%s was killed" % what)


def output(command: list[str], env: dict[str, str] | None = None, folder: str | None = None) -> str:
    """What a command says; empty where it fails or is not there."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=folder,
            timeout=LOOK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


# ---------------------------------------------------------------- the machine


class Machine:
    """Where things are: `root` is the agent's folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.environments = os.path.join(root, "envs")
        self.chosen = os.path.join(root, "python")
        self.tool = os.path.join(root, "uv")
        self.env = self.plain_environment()
        self.python = shutil.which("python3", path=self.env["PATH"]) or sys.executable

    def plain_environment(self) -> dict[str, str]:
        """Our own variables without an environment that is active: the new one must not be made from the old one."""
        env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME", "CONDA_PREFIX")}
        ours = os.path.join(os.path.realpath(self.environments), "")
        path = [p for p in env.get("PATH", os.defpath).split(os.pathsep) if not os.path.join(os.path.realpath(p), "").startswith(ours)]
        env.update(PATH=os.pathsep.join(path), UV_NO_PROGRESS="1", NO_COLOR="1")
        # The machine's own certificates: behind a proxy they are the ones that count.
        env.setdefault("UV_SYSTEM_CERTS", "1")
        env.setdefault("UV_NATIVE_TLS", "1")
        return env


def index_settings(env: dict[str, str], said: str) -> dict[str, str]:
    """What pip is set to, as uv's variables: uv reads no pip.conf. What is set for uv stays as it is.

    Parameters
    ----------
    said
        The answer of `pip config list`: `global.index-url='https://…'`, a line each.
    """
    found: dict[str, str] = {}
    for line in said.splitlines():
        name, sign, value = line.partition("=")
        section, _, key = name.strip().rpartition(".")
        if sign and section in ("global", "install", ":env:"):
            with contextlib.suppress(ValueError, SyntaxError):
                found[key.replace("_", "-")] = str(ast.literal_eval(value.strip()))
    for key in ("index-url", "extra-index-url", "find-links", "cert", "trusted-host"):
        value = env.get("PIP_" + key.upper().replace("-", "_"))
        if value:
            found[key] = value
    made: dict[str, str] = {}
    if "index-url" in found and not (env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL")):
        made["UV_DEFAULT_INDEX"] = found["index-url"]
    if "extra-index-url" in found and not (env.get("UV_INDEX") or env.get("UV_EXTRA_INDEX_URL")):
        made["UV_INDEX"] = " ".join(found["extra-index-url"].split())
    if "find-links" in found and not env.get("UV_FIND_LINKS"):
        made["UV_FIND_LINKS"] = ",".join(found["find-links"].split())
    if "cert" in found and not env.get("SSL_CERT_FILE"):
        made["SSL_CERT_FILE"] = found["cert"]
    if "trusted-host" in found and not env.get("UV_INSECURE_HOST"):
        made["UV_INSECURE_HOST"] = " ".join(found["trusted-host"].split())
    return made


# ---------------------------------------------------------------- uv


def find_uv(machine: Machine) -> str:
    """The uv of the machine that is new enough; empty where there is none."""
    home = os.path.expanduser("~")
    places = [shutil.which("uv", path=machine.env["PATH"]) or ""]
    places += [os.path.join(home, *parts) for parts in ((".local", "bin", "uv"), (".cargo", "bin", "uv"))]
    places.append(os.path.join(machine.tool, "bin", "uv"))
    for place in places:
        if place and os.access(place, os.X_OK):
            match = re.match(r"uv (\d+)\.(\d+)\.?\S*", output([place, "--version"], machine.env))
            if match and (int(match.group(1)), int(match.group(2))) >= OLDEST_UV:
                say("%s (%s)" % (match.group(0), place))
                return place
    return ""


def get_uv(machine: Machine) -> str:
    """The machine's uv, else one of ours: by pip, in a virtual environment where there is no other pip, else by uv's own installer.

    Raises
    ------
    Trouble
        If none of these works.
    """
    found = find_uv(machine)
    if found:
        return found
    say("no uv on this machine; installing it once into %s" % machine.tool)
    for way in (by_pip, by_venv, by_installer, by_package_manager):
        fresh = machine.tool + ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            made = way(machine, fresh)
        except (Trouble, OSError) as error:
            say("  %s" % error)
            continue
        if made:
            shutil.rmtree(machine.tool, ignore_errors=True)
            os.rename(fresh, machine.tool)
            found = find_uv(machine)
            if found:
                return found
    raise Trouble(
        "uv could not be installed; the lines above say why. Put it on the machine's PATH in its image, or let it reach a package index"
    )


def by_pip(machine: Machine, place: str) -> bool:
    if not output([machine.python, "-m", "pip", "--version"], machine.env):
        return False
    pip_install(machine.python, machine, place)
    return True


def by_venv(machine: Machine, place: str) -> bool:
    venv = place + ".venv"
    shutil.rmtree(venv, ignore_errors=True)
    try:
        if not output([machine.python, "-m", "venv", venv, "--help"], machine.env):
            return False
        # Debian's Python has the module and cannot make an environment with pip until python3-venv is there.
        run([machine.python, "-m", "venv", "--clear", venv], machine.env, machine.root)
        pip_install(os.path.join(venv, "bin", "python"), machine, place)
        return True
    finally:
        shutil.rmtree(venv, ignore_errors=True)


def pip_install(python: str, machine: Machine, place: str) -> None:
    options = ["--quiet", "--progress-bar", "off", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
    run([python, "-m", "pip", "install", *options, "--target", place, "uv"], machine.env, machine.root)


def by_installer(machine: Machine, place: str) -> bool:
    os.makedirs(place, exist_ok=True)
    script = os.path.join(place, "install.sh")
    say("  from %s" % INSTALLER)
    with urllib.request.urlopen(INSTALLER, timeout=LOOK_SECONDS) as answer, open(script, "wb") as file:
        file.write(answer.read(1_000_000))
    run(["sh", script, "--quiet"], {**machine.env, "UV_UNMANAGED_INSTALL": os.path.join(place, "bin")}, machine.root)
    return True


def by_package_manager(machine: Machine, place: str) -> bool:
    if shutil.which("apt-get") is None:
        return False
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    say("  with python3-venv of the distribution")
    run([*root, "apt-get", "update", "-q"], machine.env, machine.root)
    run([*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "python3-venv"], machine.env, machine.root)
    return by_venv(machine, place)


# ---------------------------------------------------------------- one environment


def interpreter_commands(uv: str, version: str) -> tuple[list[str], list[str]]:
    """The commands that look for a version of Python, and fetch it where there is none."""
    return [uv, "python", "find", "--no-project", version], [uv, "python", "install", version]


def find_interpreter(uv: str, version: str, machine: Machine) -> str:
    """A Python of this version, fetched where the machine has none."""
    look, fetch = interpreter_commands(uv, version)
    found = output(look, machine.env, machine.root)
    if not found:
        say("Python %s is not on this machine; fetching it" % version)
        run(fetch, machine.env, machine.root)
        found = output(look, machine.env, machine.root)
    # The path, not the version again: what is found may itself stand in an environment, where uv would not look a second time.
    return found or version


def make_interpreter(uv: str, request: Json, place: str, build: str, machine: Machine) -> str:
    """An empty environment with the version asked for; its interpreter.

    Where no version is asked for it is what the project wants, or the machine's own.
    """
    version = request.get("python") or request["version"]
    if request["kind"] == "project" and not version:
        run([uv, "venv", place], machine.env, build)
    else:
        chosen = find_interpreter(uv, version, machine) if version else machine.python
        run([uv, "venv", "--no-project", "--python", chosen, place], machine.env, machine.root)
    return os.path.join(place, "bin", "python")


def packages_of(python: str, env: dict[str, str]) -> dict[str, str]:
    """Name and version of all that an environment holds; empty where it cannot be asked."""
    try:
        return {str(name): str(version) for name, version in json.loads(output([python, "-I", "-c", LIST], env) or "[]")}
    except ValueError:
        return {}


def write(path: str, text: str) -> None:
    """A private file: requirements may hold a log-in."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def workshop(request: Json, place: str) -> Iterator[str]:
    """A private folder with the files of a request, gone afterwards."""
    build = place + ".build"
    shutil.rmtree(build, ignore_errors=True)
    os.makedirs(build, mode=0o700)
    try:
        for name, text in request["files"].items():
            write(os.path.join(build, os.path.basename(name)), text)
        yield build
    finally:
        shutil.rmtree(build, ignore_errors=True)


def fill(uv: str, request: Json, place: str, build: str, machine: Machine) -> str:
    """Put the packages in; returns the exact list that others install: all of them, or what stands beside a project's lock."""
    python = os.path.join(place, "bin", "python")
    wanted, exact = os.path.join(build, "wanted.in"), os.path.join(build, "exact.txt")
    command = ["--python", python]
    if request["kind"] == "project":
        env = {**machine.env, "UV_PROJECT_ENVIRONMENT": place}
        # The project itself is not built: its sources are where workdir puts them.
        run([uv, "sync", "--frozen", "--no-install-workspace", *command], env, build)
    if request.get("lock"):
        write(exact, request["lock"])
    else:
        constraints: list[str] = []
        if request["kind"] == "project":
            held = os.path.join(build, "held.txt")
            write(held, "".join("%s==%s\n" % item for item in sorted(packages_of(python, machine.env).items())))
            constraints = ["--constraints", held]
        sources = [name for name in ("requirements.in", "pyproject.toml") if name in request["files"] and request["kind"] != "project"]
        write(wanted, "".join(name + "\n" for name in ALWAYS))
        options = ["--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--output-file", exact]
        run([uv, "pip", "compile", *options, *constraints, *command, *sources, "wanted.in"], machine.env, build)
        with open(exact, encoding="utf-8") as file:
            pinned = file.read()
        indexes = [line for line in request["files"].get("requirements.in", "").splitlines() if _INDEX_OPTION.match(line)]
        write(exact, "".join(line + "\n" for line in indexes) + pinned)
    verb = "install" if request["kind"] == "project" else "sync"
    run([uv, "pip", verb, *command, *(["-r"] if verb == "install" else []), exact], machine.env, build)
    with open(exact, encoding="utf-8") as file:
        return file.read()


def read_record(place: str) -> Json:
    """What was made in a place; empty where nothing was, or only half."""
    try:
        with open(os.path.join(place, RECORD), encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and os.access(os.path.join(place, "bin", "python"), os.X_OK) else {}


def changed(record: Json, now: dict[str, str]) -> list[str]:
    """The packages of a record that are gone or of another version now."""
    return sorted(name for name, version in record["packages"].items() if now.get(name) != version)


def make(request: Json, machine: Machine) -> None:
    """Make the environment of a request, or find that it is there, and make it the machine's.

    `key` names it; `kind` is `requirements` or `project`; `files` are its texts by name; `version` is asked for where not empty; `lock` is the
    exact list of another node, `python` the exact version that goes with it.
    """
    begun = time.monotonic()
    system = [request["key"], sys.platform, platform.machine(), platform.libc_ver()[0]]
    mark = hashlib.sha256("|".join(system).encode()).hexdigest()
    place = os.path.join(machine.environments, mark[:16])
    record = read_record(place)
    if record and request.get("lock") and (record["lock"], record["python"]) != (request["lock"], request["python"]):
        record = {}
    differing = changed(record, packages_of(os.path.join(place, "bin", "python"), machine.env)) if record else []
    if record and not differing:
        choose(machine, place)
        say("python: as before: %s" % words(record))
        return
    uv = get_uv(machine)
    machine.env.update(index_settings(machine.env, output([machine.python, "-m", "pip", "config", "list"], machine.env)))
    with workshop(request, place) as build:
        if record:
            say("changed since it was made, and put back: %s" % ", ".join(differing))
            put_back(uv, record, differing, place, build, machine)
        else:
            make_anew(uv, request, place, build, machine)
    choose(machine, place)
    say("python: made in %.0f s: %s" % (time.monotonic() - begun, words(read_record(place))))


def put_back(uv: str, record: Json, differing: list[str], place: str, build: str, machine: Machine) -> None:
    """Install again what was changed, as it was; what was added since then is left alone."""
    exact = os.path.join(build, "exact.txt")
    write(exact, record["lock"])
    again = [word for name in differing for word in ("--reinstall-package", name)]
    if os.path.exists(os.path.join(build, "uv.lock")):
        env = {**machine.env, "UV_PROJECT_ENVIRONMENT": place}
        run([uv, "sync", "--frozen", "--inexact", "--no-install-workspace", *again], env, build)
    run([uv, "pip", "install", "--python", os.path.join(place, "bin", "python"), *again, "-r", exact], machine.env, build)


def make_anew(uv: str, request: Json, place: str, build: str, machine: Machine) -> None:
    """Make an environment from nothing; the record is its last file."""
    shutil.rmtree(place, ignore_errors=True)
    try:
        python = make_interpreter(uv, request, place, build, machine)
        lock = fill(uv, request, place, build, machine)
        version, implementation = json.loads(output([python, "-I", "-c", TELL], machine.env) or "[0, 0]")
        if not version:
            raise Trouble("the new interpreter does not start: %s" % python)
        record = {"key": request["key"], "python": version, "implementation": implementation, "lock": lock, "made": time.time()}
        record["packages"] = packages_of(python, machine.env)
        write(os.path.join(place, RECORD + ".new"), json.dumps(record))
        os.rename(os.path.join(place, RECORD + ".new"), os.path.join(place, RECORD))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def words(record: Json) -> str:
    """An environment in some words."""
    return "Python %s with %d packages" % (record["python"], len(record["packages"]))


def choose(machine: Machine, place: str) -> None:
    """Make an environment the machine's: everything that is started from now on is in it."""
    os.utime(os.path.join(place, RECORD))
    if os.path.realpath(machine.chosen) == os.path.realpath(place):
        return
    fresh = machine.chosen + ".new"
    with contextlib.suppress(OSError):
        os.unlink(fresh)
    os.symlink(os.path.join("envs", os.path.basename(place)), fresh)
    os.rename(fresh, machine.chosen)


# ---------------------------------------------------------------- tidying


def tidy(machine: Machine) -> None:
    """Remove environments that are half made, long unused, or too many; never one that something runs in."""
    current, used = os.path.realpath(machine.chosen), places_in_use(machine)
    found = []
    for entry in os.scandir(machine.environments):
        if entry.is_dir(follow_symlinks=False) and os.path.realpath(entry.path) != current and entry.path not in used:
            try:
                last = os.stat(os.path.join(entry.path, RECORD)).st_mtime
            except OSError:
                last = 0.0
            found.append((last, entry.path))
    for number, (last, path) in enumerate(sorted(found, reverse=True)):
        if number >= KEPT or time.time() - last > UNUSED_SECONDS:
            say("removing %s, which nothing has used for long" % path)
            shutil.rmtree(path, ignore_errors=True)


def places_in_use(machine: Machine) -> set[str]:
    """The environments that some process of ours was started in."""
    found = set()
    marks = [entry.path for entry in os.scandir(machine.environments)]
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        with contextlib.suppress(OSError):
            if name.isdigit() and int(name) != os.getpid():
                with open("/proc/%s/environ" % name, "rb") as file:
                    text = file.read().decode("utf-8", "replace")
                found |= {mark for mark in marks if os.path.join(mark, "bin") in text}
    return found


@contextlib.contextmanager
def alone(machine: Machine) -> Iterator[None]:
    """Keep another making on this machine, of another kernel, out of the way."""
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
                    raise Trouble("another making of an environment on this machine does not end") from None
            if not is_told:
                say("another making of an environment goes on here; waiting for it")
                is_told = True
            time.sleep(0.2)
        yield
    finally:
        os.close(lock)


def main(request: Json) -> int:
    """Do what a request says; the exit code of the job."""
    machine = Machine(os.path.join(os.path.expanduser("~"), ".nbprov"))
    try:
        with alone(machine):
            make(request, machine)
            tidy(machine)
    except (Trouble, OSError) as error:
        say("nbprov: %s" % error)
        return 1
    return 0
