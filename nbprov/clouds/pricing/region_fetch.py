"""Helpers of price fetchers: regions read in parallel, progress, credentials, and numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.money import Micros, usd
from nbprov.model.price_list import MOST_HOURLY

from .fetcher import FetchContext, Progress

T = TypeVar("T")
AT_ONCE = 4
"""How many parts are read at once: enough to hide the waiting, too few to look like an attack."""
GLANCE: Seconds = 0.1
LASTING = (Cause.CREDENTIALS, Cause.BALANCE)
"""Causes that affect every part of the same list."""
MOST_IN_VAIN = 6
"""If this many parts failed temporarily and none was read, the service is down and the rest is not
awaited."""


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """The results of several parts: each part's value, or the sentence that says why there is
    none.
    """

    good: dict[str, T] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Steps:
    """Reports the progress of several parts from any thread, bytes at most once a megabyte."""

    def __init__(self, context: FetchContext, total: int) -> None:
        self._tell = context.progress
        self._total = total
        self._lock = threading.Lock()
        self._done = 0
        self._bytes: dict[str, int] = {}

    def seen(self, what: str) -> Callable[[int], None]:
        """Return the callback for the bytes of this part.

        `HttpClient.lines` and `HttpClient.download` call it.
        """

        def add(received: int) -> None:
            with self._lock:
                step = received >> 20 > self._bytes.get(what, 0) >> 20
                self._bytes[what] = received
                now = Progress(self._done, self._total, what, sum(self._bytes.values()))
            if step:
                self._tell(now)

        return add

    def begin(self, what: str) -> None:
        """Report that a part is being read."""
        with self._lock:
            now = Progress(self._done, self._total, what, sum(self._bytes.values()))
        self._tell(now)

    def end(self, what: str) -> None:
        """Report that a part was read, or has failed."""
        with self._lock:
            self._done += 1
            now = Progress(self._done, self._total, what, sum(self._bytes.values()))
        self._tell(now)


def each(
    parts: Iterable[str],
    read: Callable[[str], T],
    context: FetchContext,
    *,
    at_once: int = AT_ONCE,
    steps: Steps | None = None,
) -> Read[T]:
    """Read every part in a thread of its own.

    Raises
    ------
    CloudError
        The first part's error if no part could be read. It is raised at once if the key is refused,
        which concerns all parts, and after `MOST_IN_VAIN` parts if the service fails temporarily.
    Stopped
        If the caller stopped it.
    """
    names = list(dict.fromkeys(parts))
    steps = steps or Steps(context, len(names))
    result: Read[T] = Read()
    errors: dict[str, CloudError] = {}
    waiting = list(reversed(names))
    running: dict[Future[T], str] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop()
            running[_started(read, name, steps)] = name
        # A part may wait in an SDK that does not know our stop.
        context.http.check()
        done, _ = wait(running, timeout=GLANCE, return_when=FIRST_COMPLETED)
        for future in done:
            name = running.pop(future)
            try:
                result.good[name] = future.result()
            except CloudError as error:
                if error.failure.cause in LASTING:
                    raise
                errors[name] = error
                result.failed[name] = str(error)
            steps.end(name)
        passing = sum(
            error.failure.cause in (Cause.TRANSIENT, Cause.RATE_LIMIT) for error in errors.values()
        )
        if passing >= MOST_IN_VAIN and not result.good:
            break
    if errors and not result.good:
        raise next(errors[name] for name in names if name in errors)
    return result


def _started(read: Callable[[str], T], name: str, steps: Steps) -> Future[T]:
    """Begin one part in a daemon thread, so that one that hangs does not keep a kernel from
    ending.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            steps.begin(name)
            future.set_result(read(name))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=f"nbprov-fetch-{name}", daemon=True).start()
    return future


def endpoint(context: FetchContext, name: str, usual: str) -> str:
    """Return a base address: the provider's own, or the context's. Without a slash at its end."""
    return context.endpoints.get(name, usual).rstrip("/")


def find_key(
    context: FetchContext,
    *variables: str,
    file: Path | None = None,
    inside: Callable[[str], str] | None = None,
) -> str:
    """Return an API key from the context (`api_key`), the environment, or the provider's own file.

    Empty if there is none.
    """
    import os

    key = context.keys.get("api_key", "") or next(
        (os.environ[name] for name in variables if os.environ.get(name)), ""
    )
    if key or file is None:
        return key.strip()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return (inside or str.strip)(text)


def price(value: object) -> Micros | None:
    """Convert a provider's hourly price in dollars into micros.

    None if it is not a positive amount: zero stands for unknown, not for free.
    """
    try:
        amount = usd(str(value))
    except ValueError:
        return None
    return amount if 0 < amount <= MOST_HOURLY else None


def number(value: object) -> float | None:
    """Return a positive number as a provider writes it (`1,152 GiB`, `"8"`, 8).

    None if there is none.
    """
    text = str(value).replace(",", "").strip().split(" ")[0]
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < 1e9 else None


def expect(value: Any, kind: type[T], what: str) -> T:
    """Return the value if it has the documented shape.

    Otherwise raise an error that names the source.
    """
    if not isinstance(value, kind):
        raise CloudError(
            Failure(
                Cause.TRANSIENT,
                f"{what} is not as documented: {str(value)[:80]!r}",
                code="odd-answer",
            )
        )
    return value
