"""The machine's side of a git workdir: clones it, or updates it and throws nothing away.

A fresh clone is made beside its place and moved there whole. It ends when stdin does.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from typing import Any

from .git_commands import Git, fetch, protocols_for, resolve, tracking
from .git_install import Lock, install_git
from .sync_protocol import CHUNK, Frames, SyncFailure, message, trouble_of

MARKER = b"\0nbprov-fetch 1\0"
"""What it says first; what a login script prints before it is skipped."""
MOST_SUBMODULES = 100
PLACED = "refs/nbprov/placed"
"""The commit that we checked out; another HEAD may hold somebody's work."""

_UNDER_WAY = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "BISECT_LOG",
)


class Checkout:
    """Brings one repository into one folder.

    Parameters
    ----------
    asked
        The request: `url`, `ref`, `folder`, `install`, and where this side cannot reach the
        repository `wanted`, `bundle` and `roots`.
    say
        Sends a message.
    """

    def __init__(self, asked: dict[str, Any], say: Any) -> None:
        self._url, self._ref = str(asked["url"]), str(asked["ref"])
        self.asked, self._say = asked, say
        self._place = os.path.join(os.path.expanduser("~"), str(asked["folder"]))
        self._notes: list[str] = []
        self._git = Git(os.path.expanduser("~"), self._tell, protocols_for(self._url))

    def stop(self) -> None:
        """End what runs."""
        self._git.stop()

    def _tell(self, text: str) -> None:
        self._say(said=text[:120])

    def carry_out(self) -> dict[str, Any]:
        """Do it, and return `{commit, name, kind, same, left, notes}`.

        Where only a bundle of the commit will do, the answer is `{need: true}`.
        """
        if shutil.which("git") is None:
            self._say(said="installing git")
            install_git(bool(self.asked["install"]))
        if not os.path.lexists(self._place) or (
            os.path.isdir(self._place) and not os.listdir(self._place)
        ):
            return self._fresh()
        self._check_place()
        self._git.folder = self._place
        left = self._why_left()
        if left:
            return {**self._now(), "left": left}
        wanted = self._wanted()
        head = self._head()
        # Of a shortened commit only the beginning is known.
        if self._is_on(wanted) and head == (
            wanted["commit"] or (head if head.startswith(wanted["name"].lower()) else "-")
        ):
            return self._done(wanted, head, same=True)
        if self._needs_bundle():
            return {"need": True}
        return self._update(wanted)

    def _wanted(self) -> dict[str, str]:
        given = self.asked.get("wanted")
        return given if given else resolve(self._git, self._url, self._ref)

    def _needs_bundle(self) -> bool:
        return bool(self.asked.get("wanted")) and not self.asked.get("bundle")

    # ------------------------------------------------------------ a fresh clone

    def _fresh(self) -> dict[str, Any]:
        if self._needs_bundle():
            return {"need": True}
        ours = os.path.join(os.path.expanduser("~"), ".nbprov")
        os.makedirs(ours, mode=0o700, exist_ok=True)
        beside = os.path.join(ours, "clone")
        with Lock(beside + ".lock"):
            shutil.rmtree(beside, ignore_errors=True)
            os.mkdir(beside)
            self._git.folder = beside
            try:
                self._git.run("init", "-q")
                self._git.run("remote", "add", "origin", self._url)
                # A default branch of no name yet, so that none of that name is in the way.
                self._git.run("symbolic-ref", "HEAD", "refs/heads/nbprov-none")
                done = self._update(self._wanted(), fresh=True)
                if os.path.isdir(self._place) and not os.path.islink(self._place):
                    os.rmdir(self._place)
                if os.path.lexists(self._place):
                    raise SyncFailure("place", "is a link to an empty folder: remove it")
                os.rename(beside, self._place)
                return done
            finally:
                shutil.rmtree(beside, ignore_errors=True)

    # ------------------------------------------------------------ one that is there

    def _check_place(self) -> None:
        if not os.path.isdir(self._place):
            raise SyncFailure("place", "is a file")
        if not os.path.exists(os.path.join(self._place, ".git")):
            raise SyncFailure("place", "is a folder that is no git repository, and is not empty")
        self._git.folder = self._place
        origin = self._git.run("config", "--get", "remote.origin.url", check=False).strip()
        if _plain(origin) != _plain(self._url):
            shown = re.sub(r"//[^/@]*@", "//", origin)
            raise SyncFailure(
                "place", "holds another repository ({})".format(shown or "without an origin")
            )

    def _why_left(self) -> str:
        """Return why nothing may be changed; empty if nothing of anybody's would be lost."""
        changed = self._git.run(
            "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=untracked"
        ).splitlines()
        if changed:
            return "{:,} file{} changed there".format(
                len(changed), " is" if len(changed) == 1 else "s are"
            )
        inside = self._git.run("rev-parse", "--absolute-git-dir").strip()
        if any(os.path.exists(os.path.join(inside, name)) for name in _UNDER_WAY):
            return "a merge or rebase is under way there"
        return "commits were made there" if self._is_own("HEAD") else ""

    def _is_own(self, name: str) -> bool:
        """Return whether a commit may exist nowhere else."""
        commit = self._git.run(
            "rev-parse", "--verify", "--quiet", name + "^{commit}", check=False
        ).strip()
        if (
            not commit
            or commit
            == self._git.run("rev-parse", "--verify", "--quiet", PLACED, check=False).strip()
        ):
            return False
        return not self._git.run(
            "for-each-ref", "--count=1", "--contains", commit, "refs/remotes", "refs/nbprov"
        ).strip()

    def _update(self, wanted: dict[str, str], *, fresh: bool = False) -> dict[str, Any]:
        shallow = fresh or self._git.run("rev-parse", "--is-shallow-repository").strip() == "true"
        branch = wanted["kind"] == "branch"
        # Asked before a fetch, which may cut history off that then looks like made here.
        if branch and self._is_own("refs/heads/" + wanted["name"]):
            return {
                **self._now(),
                "left": "its branch {} has commits that were made there".format(wanted["name"]),
            }
        commit = (
            self._take_bundle(wanted)
            if self.asked.get("bundle")
            else fetch(self._git, "origin", wanted, shallow=shallow)
        )
        # Files that git does not know, ignored ones too, are not written over.
        how = ["-B", wanted["name"]] if branch else ["--detach"]
        code, _, complaint = self._git.call(
            "checkout", "--progress", "--no-overwrite-ignore", *how, commit, "--"
        )
        if code:
            if not fresh and "overwritten by checkout" in complaint:
                return {
                    **self._now(),
                    "left": "files that are not git's would be written over there",
                }
            raise SyncFailure(
                "failed", "could not be checked out: " + " ".join(complaint.split())[-150:]
            )
        if branch:
            self._git.run(
                "branch",
                "-q",
                "--set-upstream-to=origin/" + wanted["name"],
                wanted["name"],
                check=False,
            )
        self._git.run("update-ref", PLACED, commit)
        self._submodules()
        self._remark_on_lfs()
        return self._done(wanted, commit, same=False)

    def _take_bundle(self, wanted: dict[str, str]) -> str:
        path = os.path.join(os.path.expanduser("~"), str(self.asked["bundle"]))
        inside = self._git.run("rev-parse", "--absolute-git-dir").strip()
        roots = [
            root
            for root in self.asked["roots"]
            if not self._git.holds("cat-file", "-e", root + "^{commit}")
        ]
        if roots:
            # git must know beforehand where history ends: what lies behind is not in the bundle.
            with open(os.path.join(inside, "shallow"), "a", encoding="ascii") as file:
                file.write("".join(root + "\n" for root in roots))
        self._git.protocols = "file"
        try:
            name = tracking(wanted)
            self._git.run(
                "fetch",
                "--progress",
                "--no-tags",
                "--no-recurse-submodules",
                "--",
                path,
                f"+{name}:{name}",
            )
        finally:
            self._git.protocols = protocols_for(self._url)
        return self._git.run("rev-parse", "--verify", tracking(wanted) + "^{commit}").strip()

    # ------------------------------------------------------------ what lies inside

    def _submodules(self) -> None:
        """Fetch submodules by https alone, and note those that cannot be had."""
        if not os.path.exists(os.path.join(self._git.folder, ".gitmodules")):
            return
        out = self._git.run(
            "config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$", check=False
        )
        paths = [line.partition(" ")[2] for line in out.splitlines()][:MOST_SUBMODULES]
        self._git.protocols = ":".join(
            word for word in protocols_for(self._url).split(":") if word != "ssh"
        )
        missing = []
        for path in paths:
            words = ("submodule", "update", "--init", "--recursive", "--progress")
            if not self._git.holds(*words, "--depth", "1", "--", path) and not self._git.holds(
                *words, "--", path
            ):
                missing.append(path)
        self._git.protocols = protocols_for(self._url)
        if missing:
            more = ", …" if len(missing) > 3 else ""
            self._notes.append(
                "submodules not fetched (only https without a log-in is): {}{}".format(
                    ", ".join(missing[:3]), more
                )
            )

    def _remark_on_lfs(self) -> None:
        try:
            with open(
                os.path.join(self._git.folder, ".gitattributes"), encoding="utf-8", errors="replace"
            ) as file:
                has = "filter=lfs" in file.read(1 << 20)
        except OSError:
            has = False
        if has:
            self._notes.append("files of Git LFS are pointers: `git lfs pull` there fetches them")

    # ------------------------------------------------------------ answers

    def _head(self) -> str:
        return self._git.run(
            "rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False
        ).strip()

    def _branch(self) -> str:
        return self._git.run("symbolic-ref", "--quiet", "--short", "HEAD", check=False).strip()

    def _is_on(self, wanted: dict[str, str]) -> bool:
        return self._branch() == (wanted["name"] if wanted["kind"] == "branch" else "")

    def _now(self) -> dict[str, Any]:
        return {
            "commit": self._head(),
            "kind": "branch",
            "name": self._branch(),
            "same": True,
            "left": "",
            "notes": self._notes,
        }

    def _done(self, wanted: dict[str, str], commit: str, *, same: bool) -> dict[str, Any]:
        return {
            "commit": commit,
            "kind": wanted["kind"],
            "name": wanted["name"],
            "same": same,
            "left": "",
            "notes": self._notes,
        }


def _plain(url: str) -> str:
    url = url.rstrip("/")
    return url[:-4] if url.endswith(".git") else url


# ---------------------------------------------------------------- serving


def main() -> None:
    """Do what comes, until the other side has gone."""
    os.write(1, MARKER)
    frames, out = Frames(), threading.Lock()
    running: list[Checkout] = []

    def say(**content: Any) -> None:
        data = memoryview(message(**content))
        try:
            with out:
                while data:
                    data = data[os.write(1, data) :]
        except OSError:
            for checkout in running:
                checkout.stop()

    def work(asked: dict[str, Any]) -> None:
        try:
            checkout = Checkout(asked, say)
            running.append(checkout)
            answer = checkout.carry_out()
        except SyncFailure as trouble:
            answer = {"failed": trouble.code, "why": trouble.why}
        except OSError as error:
            answer = {"failed": trouble_of(error).code, "why": trouble_of(error).why}
        # Before the answer: with it this program may end.
        _remove_bundle(asked)
        say(**answer)

    while True:
        data = os.read(0, CHUNK)
        if not data:
            break
        for frame in frames.feed(data):
            threading.Thread(target=work, args=(frame,), daemon=True).start()
    for checkout in running:
        checkout.stop()
        _remove_bundle(checkout.asked)
    os._exit(0)


def _remove_bundle(asked: dict[str, Any]) -> None:
    # What cannot be removed is in a folder of ours, and the next one takes its place.
    if asked.get("bundle"):
        with contextlib.suppress(OSError):
            os.remove(os.path.join(os.path.expanduser("~"), str(asked["bundle"])))


__all__ = ["MARKER", "main"]
