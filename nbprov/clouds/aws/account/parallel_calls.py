"""Calls that run at once within one time limit: to several regions, or several to one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from nbprov.clouds.aws.account.clients import AT_ONCE, REGIONS_VARIABLE, AwsAccount
from nbprov.clouds.web.proxies import without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

T = TypeVar("T")


def in_every_region(
    session: AwsAccount, work: Callable[[str], T], seconds: Seconds, *, also: Iterable[str] = ()
) -> dict[str, T]:
    """Do something in every region in use and in the regions of `also`.

    The time limit includes reading the list of regions.

    Raises
    ------
    CloudError
        If a single region failed, because machines that are missing from a listing count as gone.
    """
    began = time.monotonic()
    regions = sorted({*session.regions(), *also})
    good, bad = call_each(regions, work, max(0.0, seconds - (time.monotonic() - began)))
    if bad:
        raise _worst(bad)
    return {region: good[region] for region in regions}


def _worst(bad: Mapping[str, Exception]) -> CloudError:
    """Return the error for regions that failed; of several, the most informative one."""

    def passing(error: Exception) -> bool:
        return isinstance(error, CloudError) and error.failure.cause in (
            Cause.TRANSIENT,
            Cause.RATE_LIMIT,
        )

    region, error = min(
        bad.items(),
        key=lambda pair: (not isinstance(pair[1], CloudError), passing(pair[1]), pair[0]),
    )
    if not isinstance(error, CloudError):
        return CloudError(
            Failure(
                Cause.UNKNOWN,
                without_proxy_logins(
                    f"EC2 in {region} could not be listed: {type(error).__name__}: {error}"
                ),
            )
        )
    words = f"EC2 in {region} could not be listed: {error.failure.message}"
    if error.failure.cause is Cause.PERMISSION:
        words += (
            " (if the account may not use this region, name those that it uses in "
            f"{REGIONS_VARIABLE})"
        )
    return CloudError(replace(error.failure, message=words))


def call_each(
    things: Iterable[str], work: Callable[[str], T], seconds: Seconds
) -> tuple[dict[str, T], dict[str, Exception]]:
    """Do something for many names at once, in daemon threads, for at most `seconds`.

    Returns
    -------
    Results and errors, both by name. What does not end in time is among the errors, as `transient`.
    """
    names = tuple(dict.fromkeys(things))
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, T | None, Exception | None]] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)

    def worker() -> None:
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((name, work(name), None))
            except Exception as error:
                done.put((name, None, error))

    # Daemon threads, not an executor: one stuck region must not delay the kernel's shutdown.
    for number in range(min(AT_ONCE, len(names))):
        threading.Thread(target=worker, name=f"nbprov-aws-{number}", daemon=True).start()
    good: dict[str, T] = {}
    bad: dict[str, Exception] = {}
    deadline = time.monotonic() + seconds
    while len(good) + len(bad) < len(names):
        try:
            name, result, error = done.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if error is not None:
            bad[name] = error
        else:
            good[name] = result  # type: ignore[assignment]
    for name in names:
        if name not in good and name not in bad:
            bad[name] = CloudError(
                Failure(
                    Cause.TRANSIENT,
                    f"EC2 in {name} did not answer within {seconds:g} s",
                    "no-answer",
                )
            )
    return good, bad
