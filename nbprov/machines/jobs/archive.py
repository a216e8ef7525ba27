"""Keep the logs of jobs beyond their machines, in files of nbprov's home that are private."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.paths import make_folder

from .jobs import LIVE, Job, state_of_row

log = logging.getLogger("nbprov.machines")

FOLDER = "jobs"
KEPT_SECONDS: Seconds = 90 * 86400.0
"""How long a cluster's logs are kept after the last one was added: a quarter of a year."""
KEPT_BYTES = 2 * 1024**3
"""Bytes of all logs together; those of the oldest cluster go first."""

RUN_BYTES = KEPT_BYTES // 4
"""Bytes of the logs of one run, whose oldest go first.

A machine that floods must not push out the logs of others.
"""

RUN_FILES = 20_000
"""Files of one run: a machine can invent many small jobs, and each takes time to read."""

_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}")


class JobArchive:
    """The logs of ended jobs, in a folder for each run. Any thread.

    Several kernels may write at once, since each file is written whole.

    Parameters
    ----------
    home
        nbprov's home.
    """

    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER

    def path(self, run_id: str, job_id: str, node: int = 0) -> Path:
        """Return the path of the log of a node, whether it exists or not."""
        if not _SAFE.fullmatch(run_id) or not _SAFE.fullmatch(job_id):
            raise ValueError(f"{run_id!r}, {job_id!r}")
        return self.folder / run_id / (f"{job_id}.node{node}.log" if node else f"{job_id}.log")

    def keep_logs(self, run_id: str, job: Job, texts: Mapping[int, str]) -> None:
        """Write some of a job's logs, by node. The job itself follows with `keep`.

        Raises
        ------
        OSError
            If the disk is full or not writable.
        """
        first = self.path(run_id, job.id)
        for folder in (self.folder, first.parent):
            make_folder(folder)
        for node, text in texts.items():
            _write(self.path(run_id, job.id, node), text)

    def keep(self, run_id: str, cluster: str, job: Job, texts: Mapping[int, str]) -> None:
        """Write a job and its logs, by node.

        Raises
        ------
        OSError
            If the disk is full or not writable.
        """
        self.keep_logs(run_id, job, texts)
        first = self.path(run_id, job.id)
        told = {f.name: getattr(job, f.name) for f in fields(job) if f.name != "kept"}
        _write(
            first.with_suffix(".json"), json.dumps({"version": 1, "cluster": cluster, "job": told})
        )
        with contextlib.suppress(OSError):
            os.utime(first.parent)

    def has(self, run_id: str, job: Job) -> bool:
        """Return whether the end of this job is kept."""
        found = self._read(self.path(run_id, job.id).with_suffix(".json"))
        return (
            found is not None
            and found.state not in LIVE
            and (found.state, found.created) == (job.state, job.created)
        )

    def jobs(self, run_id: str, *, is_over: bool = False) -> list[Job]:
        """Return the kept jobs of a run, oldest first.

        Parameters
        ----------
        is_over
            Whether their machines have stopped or ended; jobs that ran when kept are then lost.
        """
        if not _SAFE.fullmatch(run_id):
            return []
        found = [
            job
            for path in (self.folder / run_id).glob("*.json")
            if (job := self._read(path)) is not None
        ]
        lost = [
            replace(job, state="lost", position=None) if is_over and not job.is_over else job
            for job in found
        ]
        return sorted(lost, key=lambda job: (job.created, job.id))

    def log(self, run_id: str, job_id: str, node: int = 0) -> str | None:
        """Return the log of a job on a node; None if none is kept."""
        try:
            return self.path(run_id, job_id, node).read_bytes().decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    @staticmethod
    def _read(path: Path) -> Job | None:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))["job"]
            told = {f.name: told[f.name] for f in fields(Job) if f.name in told}
            told |= {"devices": tuple(told["devices"]), "parts": tuple(map(tuple, told["parts"]))}
            return Job(**told, kept=True)
        except (OSError, ValueError, KeyError, TypeError):
            return None  # missing, or not written by nbprov

    def prune(
        self, *, seconds: Seconds = KEPT_SECONDS, size: int = KEPT_BYTES, run_size: int = RUN_BYTES
    ) -> None:
        """Delete logs that are too old, and the oldest ones beyond the limits. Never raises."""
        try:
            runs = sorted(
                (path for path in self.folder.iterdir() if path.is_dir()),
                key=lambda p: p.stat().st_mtime,
                reverse=True,
            )
            total = 0
            for path in runs:
                total += _within(path, run_size)
                if total > size or time.time() - path.stat().st_mtime > seconds:
                    shutil.rmtree(path, ignore_errors=True)
        except FileNotFoundError:
            return  # there are none yet, or another kernel deleted them
        except OSError:
            log.exception("pruning old job logs failed")


def with_told(kept: Sequence[Job], told: Iterable[Mapping[str, Any]]) -> list[Job]:
    """Return the jobs of machines that are gone, as the archive and the ledger know them.

    The ledger knows how a job ended whose log could not be kept, or only from while it ran.

    Parameters
    ----------
    told
        The ledger's rows of the run's jobs.
    """
    rows = {str(row["job_id"]): row for row in told}
    known = [
        replace(job, state=state, exit_code=rows[job.id]["exit_code"])
        if job.state == "lost" and job.id in rows and (state := _state(rows[job.id])) != "lost"
        else job
        for job in kept
    ]
    ids = {job.id for job in kept}
    return known + [
        Job(
            *(id, row["kind"], _state(row), row["exit_code"]),
            created=row["started"],
            kept=True,
        )
        for id, row in rows.items()
        if id not in ids
    ]


def _state(row: Mapping[str, Any]) -> str:
    return state_of_row(row["state"], row["exit_code"])


def _within(folder: Path, size: int) -> int:
    """Delete the oldest logs of a run beyond the limit; return the bytes of the others."""
    total = 0
    for number, file in enumerate(
        sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    ):
        length = file.stat().st_size
        if total + length > size or number >= RUN_FILES:
            file.unlink(missing_ok=True)
        else:
            total += length
    return total


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with open(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            "w",
            encoding="utf-8",
            errors="replace",
            newline="",
        ) as file:
            file.write(text)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
