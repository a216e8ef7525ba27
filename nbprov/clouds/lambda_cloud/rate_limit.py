"""Rate limits and short-lived answers, shared by all Lambda adapters of this process.

Lambda allows one launch in 12 s and one other request in a second. An adapter does not sleep: a
launch that comes too early is refused here as `rate_limit` with the remaining seconds, and the
engine comes again. The list of types, from which stock and prices are read, is requested at most
once every few seconds.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause, CloudError, Failure

from .errors import LAUNCH_PAUSE

T = TypeVar("T")
TYPES_KEPT: Seconds = 5.0
"""How long the list of types is valid. The price is asked again just before each create, and that
request would use up the create's turn."""
MOST_REMEMBERED = 4096
"""The most tokens remembered: far more launches than a kernel makes while one may be repeated."""

_lock = threading.Lock()
_last_launch: dict[str, float] = {}
_answers: dict[Hashable, tuple[float, Instant, Any]] = {}


@dataclass(slots=True)
class Sent:
    """What this process knows about a token: its machines, or that its outcome is unknown."""

    ids: tuple[str, ...] = ()
    unclear: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


_sent: OrderedDict[tuple[str, str], Sent] = OrderedDict()


@dataclass(frozen=True, slots=True)
class LaunchPace:
    """The interval between launches in seconds, and how long the list of types is valid."""

    between_launches: Seconds = LAUNCH_PAUSE
    types_kept: Seconds = TYPES_KEPT

    def wait_is_over(self, base: str) -> None:
        """Refuse a launch that Lambda would refuse.

        Raises
        ------
        CloudError
            `rate_limit` with the remaining seconds.
        """
        with _lock:
            self._refuse_too_early(base)

    def launched(self, base: str) -> None:
        """Record a launch that is about to be sent; of several at once only the first may go.

        Raises
        ------
        CloudError
            Like `wait_is_over`.
        """
        with _lock:
            self._refuse_too_early(base)
            _last_launch[base] = time.monotonic()

    def _refuse_too_early(self, base: str) -> None:
        missing = self.between_launches - (time.monotonic() - _last_launch.get(base, float("-inf")))
        if missing > 0:
            message = f"Lambda allows one launch in {self.between_launches:g} s"
            raise CloudError(
                Failure(Cause.RATE_LIMIT, message, "own-pace", retry_after=round(missing + 0.05, 1))
            )


def sent_of(base: str, token: str) -> Sent:
    """Return what is known about a token.

    One object for each, shared by all adapters of this process.
    """
    with _lock:
        found = _sent.setdefault((base, token), Sent())
        _sent.move_to_end((base, token))
        while len(_sent) > MOST_REMEMBERED:
            _sent.popitem(last=False)
        return found


def answer_of(key: Hashable, kept: Seconds, ask: Callable[[], T]) -> tuple[T, Instant]:
    """Return an answer and its time: a cached one that is young enough, or a new one."""
    with _lock:
        old = _answers.get(key)
    if old is not None and time.monotonic() - old[0] < kept:
        return old[2], old[1]
    new, at = ask(), time.time()
    with _lock:
        _answers[key] = (time.monotonic(), at, new)
    return new, at
