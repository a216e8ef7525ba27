"""uv on a machine: finds or installs it, and runs its steps with their output in the job's log."""
# Percent formats are as readable here as others.

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from typing import Any, Dict

STEP_SECONDS = 3600.0
"""The longest that one step of uv or pip may take.

It may load gigabytes over a slow line, or compile a package."""
LOOK_SECONDS = 60.0
"""How long an interpreter or a tool may take to tell its version, from a cold disk."""
OLDEST_UV = (0, 5)
"""The first series with `uv python` and all options of `uv sync` that are used here."""
KILLED = -9
"""The exit code of a process that was killed, most likely because the memory ran out."""
TOO_LONG = 124
"""The exit code if a step took too long, as `timeout` has it."""
UV_VERSION = "0.13.9"
"""The release that is installed where a machine has no uv, with the digests of its wheels."""
FILES = "https://files.pythonhosted.org/packages/py3/u/uv"
WHEELS = {
    "x86_64": (
        "musllinux_1_1_x86_64",
        "2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
    ),
    "aarch64": (
        "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
        "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
    ),
}
"""By machine, a wheel whose program is linked statically, and its SHA-256."""
DIGESTS = (
    *(digest for _, digest in WHEELS.values()),
    "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",  # manylinux x86_64
    "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",  # manylinux aarch64
    "c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",  # macOS x86_64
    "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",  # macOS arm64
)
"""SHA-256 of every wheel that pip may choose; it installs nothing else."""
DOWNLOAD_SECONDS = 600.0
"""For 20 MB: 35 kB a second."""
MOST_WHEEL = 100_000_000

_LOGIN = re.compile(r"://[^/@\s]+@")

Json = Dict[str, Any]


class UvError(Exception):
    """Something cannot be done; its text is one line."""


class TooLong(UvError):
    """A step was ended, since it took longer than it may."""


def say(text: str) -> None:
    """Print a line of the job's log, with log-ins in URLs masked."""
    print(_LOGIN.sub("://***@", text), flush=True)


def run(command: list[str], env: dict[str, str], folder: str) -> None:
    """Run a step, with its name and its output in the log.

    Raises
    ------
    Trouble
        If it ends with a code other than 0, or not in time.
    """
    what = " ".join(
        [
            os.path.basename(command[0]),
            *(word for word in command[1:4] if not word.startswith(("-", "/"))),
        ]
    )
    say(what)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=folder,
        bufsize=0,
    )
    assert process.stdout is not None
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(STEP_SECONDS, end)
    timer.start()
    try:
        for line in process.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                say("  " + text)
        code = process.wait()
    finally:
        timer.cancel()
    if late.is_set():
        raise TooLong(f"{what} took longer than {STEP_SECONDS / 60:.0f} min, and was ended")
    if code:
        raise UvError(
            f"{what} ended with code {code}"
            if code != KILLED
            else f"{what} was killed; is the memory full?"
        )


def output(command: list[str], env: dict[str, str] | None = None, folder: str | None = None) -> str:
    """Return what a command prints; empty if it fails or is missing."""
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


class MachinePaths:
    """Paths and variables of a machine; `root` is the agent's folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.environments = os.path.join(root, "envs")
        self.chosen = os.path.join(root, "python")
        self.tool = os.path.join(root, "uv")
        self.env = self.plain_environment()
        self.python = shutil.which("python3", path=self.env["PATH"]) or sys.executable

    def plain_environment(self) -> dict[str, str]:
        """Return our variables without those of an active environment.

        The new environment must not be made from the old one.
        """
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in ("VIRTUAL_ENV", "PYTHONHOME", "CONDA_PREFIX")
        }
        ours = os.path.join(os.path.realpath(self.environments), "")
        path = [
            p
            for p in env.get("PATH", os.defpath).split(os.pathsep)
            if not os.path.join(os.path.realpath(p), "").startswith(ours)
        ]
        env.update(PATH=os.pathsep.join(path), UV_NO_PROGRESS="1", NO_COLOR="1")
        # The machine's own certificates: behind a proxy they are the ones that count.
        env.setdefault("UV_SYSTEM_CERTS", "1")
        env.setdefault("UV_NATIVE_TLS", "1")
        return env


def index_settings(env: dict[str, str], said: str) -> dict[str, str]:
    """Return pip's settings as variables for uv, which reads no pip.conf.

    What is set for uv itself stays as it is.

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
        given = env.get("PIP_" + key.upper().replace("-", "_"))
        if given:
            found[key] = given
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


def find_uv(machine: MachinePaths) -> str:
    """Return the path of a uv that is new enough; empty if there is none."""
    home = os.path.expanduser("~")
    places = [shutil.which("uv", path=machine.env["PATH"]) or ""]
    places += [
        os.path.join(home, *parts) for parts in ((".local", "bin", "uv"), (".cargo", "bin", "uv"))
    ]
    places.append(os.path.join(machine.tool, "bin", "uv"))
    for place in places:
        if place and os.access(place, os.X_OK):
            match = re.match(r"uv (\d+)\.(\d+)\.?\S*", output([place, "--version"], machine.env))
            if match and (int(match.group(1)), int(match.group(2))) >= OLDEST_UV:
                say(f"{match.group(0)} ({place})")
                return place
    return ""


def get_uv(machine: MachinePaths) -> str:
    """Return the path of the machine's uv, else of one that is installed now.

    pip installs it, in a virtual environment if there is no other pip; else it comes as a wheel.

    Raises
    ------
    Trouble
        If none of these works.
    """
    found = find_uv(machine)
    if found:
        return found
    say(f"no uv on this machine; installing it once into {machine.tool}")
    for way in (by_pip, by_venv, by_wheel, by_package_manager):
        fresh = machine.tool + ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            made = way(machine, fresh)
        except (UvError, OSError) as error:
            say(f"  {error}")
            continue
        if made:
            shutil.rmtree(machine.tool, ignore_errors=True)
            os.rename(fresh, machine.tool)
            found = find_uv(machine)
            if found:
                return found
    raise UvError(
        "uv could not be installed; the lines above say why. "
        "Put it on the machine's PATH in its image, or let it reach a package index"
    )


def by_pip(machine: MachinePaths, place: str) -> bool:
    if not output([machine.python, "-m", "pip", "--version"], machine.env):
        return False
    pip_install(machine.python, machine, place)
    return True


def by_venv(machine: MachinePaths, place: str) -> bool:
    venv = place + ".venv"
    shutil.rmtree(venv, ignore_errors=True)
    try:
        if not output([machine.python, "-m", "venv", venv, "--help"], machine.env):
            return False
        # Debian's Python has the module, but needs python3-venv to make environments with pip.
        run([machine.python, "-m", "venv", "--clear", venv], machine.env, machine.root)
        pip_install(os.path.join(venv, "bin", "python"), machine, place)
        return True
    finally:
        shutil.rmtree(venv, ignore_errors=True)


def pip_install(python: str, machine: MachinePaths, place: str) -> None:
    options = [
        "--quiet",
        "--progress-bar",
        "off",
        "--disable-pip-version-check",
        "--no-input",
        "--only-binary",
        ":all:",
    ]
    lines = [f"uv=={UV_VERSION}", *(f"--hash=sha256:{digest}" for digest in DIGESTS)]
    wanted = place + ".txt"
    with open(wanted, "w", encoding="ascii") as file:
        file.write(" ".join(lines) + "\n")
    options += ["--require-hashes", "--no-deps", "--target", place, "-r", wanted]
    try:
        run([python, "-m", "pip", "install", *options], machine.env, machine.root)
    finally:
        os.unlink(wanted)


def by_wheel(machine: MachinePaths, place: str) -> bool:
    """Take uv out of its wheel, where Python comes without pip."""
    tag, digest = WHEELS.get(platform.machine(), ("", ""))
    if not tag or not str(sys.platform).startswith("linux"):
        return False
    name = f"uv-{UV_VERSION}-py3-none-{tag}.whl"
    say(f"  from {FILES}/{name}")
    content, end = bytearray(), time.monotonic() + DOWNLOAD_SECONDS
    with urllib.request.urlopen(f"{FILES}/{name}", timeout=LOOK_SECONDS) as answer:
        while True:
            data = answer.read1(1 << 18)
            if not data:
                break
            content += data
            if len(content) > MOST_WHEEL or time.monotonic() > end:
                raise UvError(f"{name} is too large, or comes too slowly")
    unpack_wheel(bytes(content), digest, place)
    return True


def unpack_wheel(content: bytes, digest: str, place: str) -> None:
    """Write the uv of a wheel to `bin` of a folder.

    Raises
    ------
    UvError
        If it is another wheel than the one that was looked at for this release.
    """
    if hashlib.sha256(content).hexdigest() != digest:
        raise UvError("what came is not the uv that nbprov knows: its SHA-256 differs")
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        program = wheel.read(f"uv-{UV_VERSION}.data/scripts/uv")
    os.makedirs(os.path.join(place, "bin"), exist_ok=True)
    path = os.path.join(place, "bin", "uv")
    with open(path, "wb") as file:
        file.write(program)
    os.chmod(path, 0o755)


def by_package_manager(machine: MachinePaths, place: str) -> bool:
    if shutil.which("apt-get") is None:
        return False
    root = [] if getattr(os, "geteuid", int)() == 0 else ["sudo", "-n"]
    say("  with python3-venv of the distribution")
    run([*root, "apt-get", "update", "-q"], machine.env, machine.root)
    run(
        [
            *root,
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "install",
            "-y",
            "-q",
            "python3-venv",
        ],
        machine.env,
        machine.root,
    )
    return by_venv(machine, place)
