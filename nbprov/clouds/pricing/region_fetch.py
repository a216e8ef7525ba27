"""What fetchers share: regions read side by side with their failures kept apart, progress, and where credentials lie."""

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
"""How many parts are read side by side: enough to hide the waiting, too few to be taken for an attack."""
GLANCE: Seconds = 0.1
LASTING = (Cause.CREDENTIALS, Cause.BALANCE)
"""Causes that no other part of the same list will escape."""
MOST_IN_VAIN = 6
"""Where so many parts failed for the moment's reasons and none was read, the service is down: the rest is not waited for."""


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What came of several parts: each part's value, or the sentence that says why there is none."""

    good: dict[str, T] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Steps:
    """Tells a context's `progress` how far several parts are; from any thread, bytes at most once a megabyte."""

    def __init__(self, context: FetchContext, total: int) -> None:
        self._tell = context.progress
        self._total = total
        self._lock = threading.Lock()
        self._done = 0
        self._bytes: dict[str, int] = {}

    def seen(self, what: str) -> Callable[[int], None]:
        """What `Http.lines` and `Http.download` call with the bytes of this part."""

        def add(received: int) -> None:
            with self._lock:
                step = received >> 20 > self._bytes.get(what, 0) >> 20
                self._bytes[what] = received
                now = Progress(self._done, self._total, what, sum(self._bytes.values()))
            if step:
                self._tell(now)

        return add

    def begin(self, what: str) -> None:
        """A part is being read."""
        with self._lock:
            now = Progress(self._done, self._total, what, sum(self._bytes.values()))
        self._tell(now)

    def end(self, what: str) -> None:
        """A part is read, or has failed."""
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
    """Read every part in threads of their own.

    Raises
    ------
    CloudError
        If no part could be read: the first part's error. At once where the key is refused, for it is the same for all parts, and after
        `MOST_IN_VAIN` parts where the service fails for the moment.
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
        # A part may wait in an SDK that knows nothing of our stop.
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
    """Begin one part; a daemon thread, so that a part that hangs keeps no kernel from ending."""
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
    """A base address: the provider's own unless the context has another. Without a slash at its end."""
    return context.endpoints.get(name, usual).rstrip("/")


def find_key(
    context: FetchContext,
    *variables: str,
    file: Path | None = None,
    inside: Callable[[str], str] | None = None,
) -> str:
    """An API key: given with the context (`api_key`), or from the environment, or out of the provider's own file; empty where there is none."""
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
    """A provider's price an hour in dollars as micros; None where it says nothing that is a positive amount: zero stands for `unknown`, not for free."""
    try:
        amount = usd(str(value))
    except ValueError:
        return None
    return amount if 0 < amount <= MOST_HOURLY else None


def number(value: object) -> float | None:
    """A positive number as a provider writes it (`1,152 GiB`, `"8"`, 8); None where there is none."""
    text = str(value).replace(",", "").strip().split(" ")[0]
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < 1e9 else None


def expect(value: Any, kind: type[T], what: str) -> T:
    """The value, if it has the shape that the provider's documents promise; else an error that says whose answer is odd."""
    if not isinstance(value, kind):
        raise CloudError(
            Failure(
                Cause.TRANSIENT,
                f"{what} is not as documented: {str(value)[:80]!r}",
                code="odd-answer",
            )
        )
    return value
