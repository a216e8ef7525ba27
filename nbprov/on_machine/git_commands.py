"""Git without questions: what a repository has, and one commit of it. Used on both sides.

Nothing asks for a log-in, no hook runs, and only https and ssh are spoken (http to this computer).
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable

from .sync_protocol import SyncFailure

STALL_SECONDS = 120.0
"""How long git may say nothing.

A server that packs a large repository says how far it is every second."""
LEAST_SPEED = 1000
"""Bytes a second over http; its progress alone is less, while the server packs."""
SLOW_SECONDS = 600
"""How long a transfer over http may be slower than that."""
LONGEST_SECONDS = 4 * 3600.0
"""The longest that one call of git may take: 30 GB at 2 MB/s."""
TOLD_EVERY = 1.0
"""Seconds between two reports of progress."""
MOST_OUT = 8 * 1024 * 1024
"""Bytes of an answer; a list of changed files, or of some branches, is far shorter."""
KEPT_WORDS = 4000
"""Characters kept of the end of git's complaints."""

_NO_LOGIN = re.compile(
    r"could not read (Username|Password)|terminal prompts disabled|Authentication failed"
    r"|Permission denied|access denied|returned error: 40[13]|HTTP Basic"
    r"|Host key verification failed|[Rr]epository .{0,300}not found"
    r"|Could not read from remote repository"
)
_NO_ROAD = re.compile(
    r"Could not resolve host|Failed to connect|Connection (refused|timed out|reset)"
    r"|unable to access|No route to host|early EOF|hung up|Couldn't connect"
)
_SHALLOW = re.compile(
    r"does not support shallow|unadvertised object|not our ref|remote error: upload-pack"
    r"|not advertised",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-f]{7,64}\Z", re.IGNORECASE)
_WHOLE = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_LINE = re.compile(rb"[\r\n]")


class Git:
    """Git in one folder.

    Parameters
    ----------
    folder
        Where it works.
    told
        Told the last line of its progress.
    protocols
        What it may speak.
    """

    def __init__(
        self,
        folder: str,
        told: Callable[[str], None] = lambda text: None,
        protocols: str = "https:ssh",
    ) -> None:
        self.folder, self._told, self.protocols = folder, told, protocols
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._last_told = 0.0
        self._own_ssh: bool | None = None

    def stop(self) -> None:
        """End what runs, from any thread; what is asked for later fails."""
        self._stopped = True
        process = self._process
        if process is not None:
            _kill(process)

    def run(self, *words: str, check: bool = True) -> str:
        """Return the output of `git WORDS`; with `check=False` empty if it fails.

        Raises
        ------
        Trouble
            If it fails.
        """
        code, out, complaint = self.call(*words)
        if code and check:
            raise trouble_of_git(complaint)
        return "" if code else out

    def holds(self, *words: str) -> bool:
        """Return whether `git WORDS` succeeds."""
        return self.call(*words)[0] == 0

    def call(self, *words: str) -> tuple[int, str, str]:
        """Return the exit code, the output and the complaints of `git WORDS`."""
        settings = [
            "core.hooksPath=" + os.devnull,
            "gc.auto=0",
            "maintenance.auto=false",
            "advice.detachedHead=false",
            f"http.lowSpeedLimit={LEAST_SPEED}",
            f"http.lowSpeedTime={SLOW_SECONDS}",
        ]
        flags = [part for setting in settings for part in ("-c", setting)]
        more: dict[str, Any] = (
            {"creationflags": 0x08000000}
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        try:
            environment = self._environment()
            process = subprocess.Popen(
                ["git", *flags, *words],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                **more,
            )
        except FileNotFoundError:
            raise SyncFailure("git", "git is not installed") from None
        self._process = process
        if self._stopped:
            _kill(process)
        try:
            out, complaint = self._heard(process)
        finally:
            _kill(process)
            code = process.wait()
            self._process = None
        if self._stopped:
            raise SyncFailure("stopped", "was stopped")
        return code, out, complaint

    def _environment(self) -> dict[str, str]:
        # What points git to another repository, as inside a hook, would make it work there.
        own = {
            name: value
            for name, value in os.environ.items()
            if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
        }
        own.update(
            GIT_TERMINAL_PROMPT="0",
            GIT_ALLOW_PROTOCOL=self.protocols,
            GIT_LFS_SKIP_SMUDGE="1",
            LC_ALL="C",
            LANGUAGE="C",
        )
        if "GIT_SSH" not in own and not self._has_own_ssh():
            own.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=30")
        return own

    def _has_own_ssh(self) -> bool:
        # The variable would win over a setting, which may name the key to use.
        if self._own_ssh is None:
            asked = subprocess.run(
                ["git", "config", "--get", "core.sshCommand"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=STALL_SECONDS,
                check=False,
            )
            self._own_ssh = bool(asked.stdout.strip())
        return self._own_ssh

    def _heard(self, process: subprocess.Popen[bytes]) -> tuple[str, str]:
        heard: queue.Queue[tuple[int, bytes]] = queue.Queue()

        def read(number: int, pipe: Any) -> None:
            for data in iter(lambda: os.read(pipe.fileno(), 65536), b""):
                heard.put((number, data))
            pipe.close()
            heard.put((number, b""))

        for number, pipe in enumerate((process.stdout, process.stderr)):
            threading.Thread(target=read, args=(number, pipe), daemon=True).start()
        texts, still_open, end = [bytearray(), bytearray()], 2, time.monotonic() + LONGEST_SECONDS
        while still_open:
            try:
                number, data = heard.get(timeout=STALL_SECONDS)
            except queue.Empty:
                raise SyncFailure(
                    "stalled", f"git has said nothing for {STALL_SECONDS:.0f} s"
                ) from None
            still_open -= not data
            texts[number] += data
            if number == 1:
                del texts[1][:-KEPT_WORDS]
                self._tell(texts[1])
            if len(texts[0]) > MOST_OUT or time.monotonic() > end:
                raise SyncFailure(
                    "foul" if len(texts[0]) > MOST_OUT else "stalled", "git comes to no end"
                )
        return texts[0].decode("utf-8", "surrogateescape"), texts[1].decode("utf-8", "replace")

    def _tell(self, words: bytearray) -> None:
        now = time.monotonic()
        lines = (
            [line for line in _LINE.split(bytes(words[-400:])) if b"%" in line]
            if now - self._last_told >= TOLD_EVERY
            else []
        )
        if lines:
            self._last_told = now
            self._told(lines[-1].decode("utf-8", "replace").replace("remote: ", "").strip())


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            # Its helpers (ssh, index-pack) too: the group lives as long as one of them does.
            os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass  # it has ended


def trouble_of_git(complaint: str) -> SyncFailure:
    """Return the kind of git's complaint: login, road (to the server), ref, full or failed."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip() and "%" not in line]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))]
    said = re.sub(r"//[^/@\s]*@", "//", (fatal or lines or ["it failed and did not say why"])[0])
    for prefix in ("fatal: ", "error: "):
        said = said[len(prefix) :] if said.startswith(prefix) else said
    if "No space left" in complaint:
        return SyncFailure("full", "the disk is full")
    if "Operation too slow" in complaint:  # libcurl's words
        moved = f"git moved less than {LEAST_SPEED // 1000} kB a second for {SLOW_SECONDS} s"
        return SyncFailure("stalled", moved)
    if "certificate" in complaint:
        return SyncFailure("road", said)
    if _NO_LOGIN.search(complaint):
        return SyncFailure("login", said)
    if _NO_ROAD.search(complaint):
        return SyncFailure("road", said)
    return SyncFailure("failed", said)


def protocols_for(url: str) -> str:
    """Return what git may speak on the way to a repository.

    That is http only for a repository on this computer, whose URL says so.
    """
    return "https:ssh:http" if url.lower().startswith("http://") else "https:ssh"


# ---------------------------------------------------------------- one commit


def resolve(git: Git, url: str, ref: str) -> dict[str, str]:
    """Return what a ref means now: `{kind: branch | tag | commit, name, commit, full}`.

    `full` is its name in the repository. `commit` is empty for a shortened commit, which only the
    repository's content can lengthen.
    """
    if _WHOLE.match(ref.lower()):
        return {"kind": "commit", "name": ref, "commit": ref.lower(), "full": ref.lower()}
    plain = (
        [ref]
        if ref.startswith("refs/")
        else ["refs/heads/" + ref, "refs/tags/" + ref]
        if ref and ref != "HEAD"
        else []
    )
    patterns = [*plain, *(name + "^{}" for name in plain)] or ["HEAD"]
    out = git.run(
        "ls-remote", "--symref", "--", url, *patterns, *(["refs/heads/*"] if not plain else [])
    )
    known: dict[str, str] = {}
    head = ""
    for line in out.splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: ") and name == "HEAD":
            head = value[5:]
        elif _WHOLE.match(value):
            known[name] = value
    if not plain:
        # A server may not say what its HEAD is named after: a branch with the same commit is it.
        head = head or _branch_at(known.get("HEAD"), known)
        if head not in known:
            raise SyncFailure(
                "ref", "it is empty" if not known else "it has no default branch: name a ref"
            )
        plain = [head]
    for name in plain:
        if name in known:
            kind = (
                "branch"
                if name.startswith("refs/heads/")
                else "tag"
                if name.startswith("refs/tags/")
                else "commit"
            )
            short = name.split("/", 2)[2] if kind != "commit" else name
            return {
                "kind": kind,
                "name": short,
                "commit": known.get(name + "^{}", known[name]),
                "full": name,
            }
    if _HEX.match(ref):
        return {"kind": "commit", "name": ref, "commit": "", "full": ""}
    raise SyncFailure("ref", "it has no branch, tag or commit of that name")


def _branch_at(commit: str | None, known: dict[str, str]) -> str:
    """Return the name of a branch with this commit; empty if there is none."""
    return next((name for name, value in known.items() if name != "HEAD" and value == commit), "")


def tracking(wanted: dict[str, str]) -> str:
    """Return the name under which a fetched commit is kept."""
    if wanted["kind"] == "branch":
        return "refs/remotes/origin/" + wanted["name"]
    return "refs/tags/" + wanted["name"] if wanted["kind"] == "tag" else "refs/nbprov/wanted"


def fetch(git: Git, source: str, wanted: dict[str, str], *, shallow: bool) -> str:
    """Fetch what is wanted, without its history where the server can, and return its commit."""
    full = wanted["full"]
    if full:
        depth = ["--depth", "1"] if shallow else []
        into = f"+{full}:{tracking(wanted)}"
        words = ("fetch", "--progress", "--no-tags", "--no-recurse-submodules")
        code, _, complaint = git.call(*words, *depth, "--", source, into)
        if code and depth and wanted["kind"] != "commit" and _SHALLOW.search(complaint):
            code, _, complaint = git.call(*words, "--", source, into)
        if not code:
            return git.run("rev-parse", "--verify", tracking(wanted) + "^{commit}").strip()
        if wanted["kind"] != "commit" or not _SHALLOW.search(complaint):
            raise trouble_of_git(complaint)
    # A shortened commit, or a server that gives out branches and tags alone.
    everything = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    deep = (
        ["--unshallow"] if git.run("rev-parse", "--is-shallow-repository").strip() == "true" else []
    )
    git.run("fetch", "--progress", "--no-recurse-submodules", *deep, "--", source, *everything)
    commit = git.run(
        "rev-parse", "--verify", "--quiet", (full or wanted["name"]) + "^{commit}", check=False
    ).strip()
    if not commit:
        raise SyncFailure("ref", "it has no branch, tag or commit of that name")
    git.run("update-ref", tracking(wanted), commit)
    return commit


__all__ = ["Git", "fetch", "protocols_for", "resolve", "tracking", "trouble_of_git"]
