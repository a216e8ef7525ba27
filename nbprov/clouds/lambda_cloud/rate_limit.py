"""What all adapters of this process share: how far apart launches keep, what was sent before, and answers that hold for a moment.

Lambda allows one launch in 12 s and one other request in a second. An adapter does not sleep: a launch that comes too early is refused here
as `rate_limit` with the seconds that are missing, and the engine comes again; the list of types, which stock and prices are read from,
is asked once for a few seconds' worth of questions.
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
"""How long the list of types holds: the price is asked again just before each create, and that request would use up the create's turn."""
MOST_REMEMBERED = 4096
"""Tokens of this process: far more launches than a kernel makes in the time in which one may be repeated."""

_lock = threading.Lock()
_last_launch: dict[str, float] = {}
_answers: dict[Hashable, tuple[float, Instant, Any]] = {}


@dataclass(slots=True)
class Sent:
    """What this process knows of a token: the machines it made, or that its outcome is not known."""

    ids: tuple[str, ...] = ()
    unclear: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


_sent: OrderedDict[tuple[str, str], Sent] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two launches, and how long the list of types is good for."""

    between_launches: Seconds = LAUNCH_PAUSE
    types_kept: Seconds = TYPES_KEPT

    def wait_is_over(self, base: str) -> None:
        """Refuse a launch that Lambda would refuse.

        Raises
        ------
        CloudError
            `rate_limit` with the seconds that are missing.
        """
        with _lock:
            self._refuse_too_early(base)

    def launched(self, base: str) -> None:
        """Note a launch that is about to be sent; of several at once only the first may go.

        Raises
        ------
        CloudError
            As `wait_is_over`.
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
    """What is known of a token; one object a token, shared by all adapters of this process."""
    with _lock:
        found = _sent.setdefault((base, token), Sent())
        _sent.move_to_end((base, token))
        while len(_sent) > MOST_REMEMBERED:
            _sent.popitem(last=False)
        return found


def answer_of(key: Hashable, kept: Seconds, ask: Callable[[], T]) -> tuple[T, Instant]:
    """An answer and the instant it was given: a kept one that is young enough, else a new one."""
    with _lock:
        old = _answers.get(key)
    if old is not None and time.monotonic() - old[0] < kept:
        return old[2], old[1]
    new, at = ask(), time.time()
    with _lock:
        _answers[key] = (time.monotonic(), at, new)
    return new, at
