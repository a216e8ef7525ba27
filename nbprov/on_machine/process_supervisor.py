"""Supervises one process of an engine: starts it, restarts it when it dies, and ends all of it.

It runs as a job of the agent. Its configuration is in the variable NBPROV_KEEPER and not on the
command line, where whoever kills the process by its name would kill its supervisor too:

  id        marks the engine's processes, so that an earlier supervisor's are found and ended
  state     the file that says where the process listens, once it does
  command   what to run; `{name}` stands for a port that was chosen, `{home}` for the home
  ports     name -> [address that it must be free on, number that is tried first]
  at        the address where it listens, if that is another one
  up        name of the port that is listened on once it is up
  says      a text in a line of its output once it is up; if both are given, both must be so
  env       further variables of the process
  paths     folders where its Python looks for modules first; `{home}` stands for the home
  data      bytes of private memory that a process may have (RLIMIT_DATA); 0 for no limit
  facts     passed on in the state
  private   folders that are made first, for nobody else; `{home}` stands for the home
  files     path -> text of files that are written first; `{home}` stands for the home in both
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from typing import Any

assert sys.platform != "win32", "a machine is never Windows"

MARK = "nbprov-engine: "
"""Begins the line that says that the process is up, and where it listens."""
PORTS_MARK = "nbprov-engine-ports: "
"""Begins the line that says which ports were chosen, before anything listens on them.

So what waits for the process can be started at the same time."""
MARKER, CONFIG = "NBPROV_ENGINE", "NBPROV_KEEPER"
HOME = os.path.expanduser("~")
TRIES = 200
"""Port numbers that are tried, one after the other."""
MOST_FAILURES, MOST_AT_FIRST = 6, 2
"""Failures in a row after which it gives up; fewer if the process was never up."""
HEALTHY_SECONDS = 60.0
"""The end of a process that lived so long begins a new count of failures."""
FIRST_PAUSE, LAST_PAUSE = 0.5, 15.0
LOOK_SECONDS = 0.1
END_SECONDS = 2.5
"""Between SIGTERM and SIGKILL; the agent gives a job 5 s."""


def free_port(address: str, first: int, taken: list[int]) -> int:
    """Return the first port from `first` on that can be listened on."""
    for number in range(first, min(first + TRIES, 65536)):
        if number not in taken:
            with contextlib.suppress(OSError), socket.socket(
                socket.AF_INET, socket.SOCK_STREAM
            ) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind((address, number))
                return number
    raise SystemExit(f"nbprov: no free port from {first} on at {address}")


def listens(address: str, port: int) -> bool:
    """Return whether a connection to a port succeeds."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), 1.0):
        return True
    return False


def marked(mark: str) -> list[int]:
    """Return the processes of this engine and role, whatever group they are in.

    Only Linux can tell; elsewhere the agent ends the process group.
    """
    wanted = (MARKER + "=" + mark).encode()
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def end_marked(mark: str) -> None:
    """Kill the processes of this engine and role until none is left."""
    for _ in range(20):
        pids = marked(mark)
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return
        time.sleep(0.05)


_saying = threading.Lock()


def say(line: bytes) -> None:
    """Write a whole line to stdout, where two threads write."""
    with _saying:
        sys.stdout.buffer.write(line if line.endswith(b"\n") else line + b"\n")
        sys.stdout.buffer.flush()


def put(place: str, text: str) -> None:
    """Replace a small file in one step."""
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    fresh = f"{place}.{os.getpid()}"
    with open(fresh, "w") as file:
        file.write(text)
    os.replace(fresh, place)


def make_private(folder: str) -> None:
    """Make a folder that is ours and that nobody else may enter.

    Raises
    ------
    SystemExit
        If somebody else made it first, or it is a link: he could take the process over.
    """
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
        raise SystemExit(
            f"nbprov: {folder} was made by another user of this machine, who could run code"
            " through it: remove it, or use another machine"
        )
    os.chmod(folder, 0o700)


class ProcessSupervisor:
    """One process, started again and again.

    Parameters
    ----------
    config
        As at the top of this module.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.state = os.path.expanduser(config["state"])
        self.ending = threading.Event()
        self.up = threading.Event()
        self.was_up = False
        self.ports: dict[str, int] = {}
        self.child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run the process until told to end, or until it fails too often."""
        failures = 0
        for folder in self.config.get("private", []):
            make_private(folder.replace("{home}", HOME))
        for place, text in self.config.get("files", {}).items():
            put(place.replace("{home}", HOME), text.replace("{home}", HOME))
        end_marked(self.config["id"])
        while not self.ending.is_set():
            born = time.monotonic()
            code = self.once()
            if self.ending.is_set():
                break
            failures = 1 if time.monotonic() - born > HEALTHY_SECONDS else failures + 1
            if failures >= (MOST_FAILURES if self.was_up else MOST_AT_FIRST):
                say(
                    f"nbprov: it ended {failures} times in a row, "
                    f"the last time with code {code}; given up".encode()
                )
                return 1
            pause = min(LAST_PAUSE, FIRST_PAUSE * 2 ** (failures - 1))
            say(f"nbprov: it ended with code {code}; it is started again in {pause:g} s".encode())
            self.ending.wait(pause)
        return 0

    def once(self) -> int:
        """Run the process once, and return its exit code."""
        for name, (address, first) in self.config["ports"].items():
            # The same number again if it is free: others know it.
            self.ports[name] = free_port(
                address,
                self.ports.get(name, first),
                [v for k, v in self.ports.items() if k != name],
            )
        command = [
            word.format(home=HOME, **self.ports) if "{" in word else word
            for word in self.config["command"]
        ]
        say((PORTS_MARK + json.dumps(self.ports)).encode())
        env = {**os.environ, **self.config.get("env", {}), MARKER: self.config["id"]}
        paths = [place.replace("{home}", HOME) for place in self.config.get("paths", [])]
        if paths:
            env["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [env.get("PYTHONPATH")])])
        self.up.clear()
        self.child = child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            preexec_fn=self.limit,
        )
        threading.Thread(target=self.pump, args=(child,), daemon=True).start()
        if self.ending.is_set():
            child.terminate()
        told = False
        while child.poll() is None:
            if not told and self.is_up():
                self.tell(child.pid)
                told = self.was_up = True
            time.sleep(LOOK_SECONDS if not told else 2 * LOOK_SECONDS)
        code = int(child.returncode)
        end_marked(self.config["id"])
        with contextlib.suppress(OSError):
            os.unlink(self.state)
        return code

    def limit(self) -> None:
        if self.config.get("data"):
            resource.setrlimit(resource.RLIMIT_DATA, (self.config["data"], self.config["data"]))

    def pump(self, child: subprocess.Popen[bytes]) -> None:
        """Pass its output on, and notice the line that says that it is up."""
        assert child.stdout is not None
        wanted = self.config.get("says", "").encode()
        for line in child.stdout:
            if wanted and wanted in line:
                self.up.set()
            say(line)

    def is_up(self) -> bool:
        if self.config.get("says") and not self.up.is_set():
            return False
        name = self.config.get("up")
        return not name or listens(
            self.config.get("at") or self.config["ports"][name][0], self.ports[name]
        )

    def tell(self, pid: int) -> None:
        text = json.dumps({"ports": self.ports, "pid": pid, **self.config.get("facts", {})})
        put(self.state, text)
        say((MARK + text).encode())

    def end(self, number: int, frame: Any) -> None:
        """End the process and all that it started, on SIGTERM."""
        self.ending.set()
        child = self.child
        if child is not None and child.poll() is None:
            child.terminate()
            threading.Thread(target=self.end_for_good, args=(child,), daemon=True).start()

    def end_for_good(self, child: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until and child.poll() is None:
            time.sleep(LOOK_SECONDS)
        end_marked(self.config["id"])
        with contextlib.suppress(OSError):
            child.kill()


def main(text: str) -> int:
    """Supervise one process until its end, and return the exit code."""
    config = json.loads(text)
    os.umask(0o077)
    supervisor = ProcessSupervisor(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.end)
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main(os.environ.pop(CONFIG)))
