"""Actions on machines by their ids: end, stop, start, read the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbprov.clouds.base import CALL_SECONDS, LIST_SECONDS
from nbprov.clouds.gcp import errors, labels
from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.clouds.gcp.account.connection import GcpConnection
from nbprov.clouds.gcp.instances.poweroff_cleanup import GOING
from nbprov.clouds.gcp.network.firewall import is_gone
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

START_SECONDS: Seconds = 15.0
"""How long Google may wait for a start within one request. A refusal for lack of stock comes in
that time; longer starts are watched by the engine."""
AT_ONCE = 8
"""How many machines are ended, stopped or started at once."""
CONSOLE_BYTES = 64 * 1024
ENDING_SECONDS: Seconds = 60.0
"""How long a machine that was asked to end may still be listed as running or stopped.

Google reports STOPPING within seconds. After this time its end has failed, and it has to be asked
again.
"""


class GcpInstanceActions:
    """Actions on machines by their ids, each in the project where it was last listed."""

    def __init__(self, connection: GcpConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._ending: dict[str, float] = {}

    def is_ending(self, key: str, row: Mapping[str, Any]) -> bool:
        """Whether this machine was asked to end and may still be ending."""
        with self._lock:
            asked = self._ending.get(key)
            if asked is None:
                return False
            if row.get("status") != GOING and time.monotonic() - asked > ENDING_SECONDS:
                del self._ending[key]
                return False
            return True

    def terminate(self, ids: Sequence[str], deadline: Deadline) -> None:
        def end(compute: Compute, zone: str, name: str) -> None:
            key = labels.instance_id(zone, name)
            with self._lock:
                self._ending.setdefault(key, time.monotonic())
            try:
                compute.call("Instances", "delete_unary", deadline, zone=zone, instance=name)
            except CloudError as error:
                if not is_gone(error):
                    with self._lock:
                        self._ending.pop(key, None)
                    raise

        self._side_by_side(end, ids)

    def stop(self, ids: Sequence[str]) -> None:
        deadline = Deadline(CALL_SECONDS)

        def halt(compute: Compute, zone: str, name: str) -> None:
            try:
                # Any stop loses the data of a local SSD; Google refuses to stop such machines
                # without this argument.
                compute.call(
                    "Instances",
                    "stop_unary",
                    deadline,
                    zone=zone,
                    instance=name,
                    discard_local_ssd=True,
                )
            except CloudError as error:
                if not is_gone(error):
                    raise

        self._side_by_side(halt, ids)

    def start(self, ids: Sequence[str]) -> None:
        deadline = Deadline(CALL_SECONDS)

        def begin(compute: Compute, zone: str, name: str) -> None:
            try:
                told = compute.call("Instances", "start_unary", deadline, zone=zone, instance=name)
            except CloudError as error:
                if is_gone(error):
                    raise CloudError(replace(error.failure, cause=Cause.NOT_OFFERED)) from error
                raise
            self._await_start(compute, zone, told)

        unknown = next((i for i in ids if labels.parts(i) is None), None)
        if unknown is not None:
            raise CloudError(
                Failure(Cause.NOT_OFFERED, f"{unknown} is not a Google Cloud machine", "notFound")
            )
        self._side_by_side(begin, ids)

    def console(self, instance_id: str) -> str:
        place = labels.parts(instance_id)
        if place is None:
            return ""
        zone, name = place
        try:
            told = self._connection.compute_of(instance_id).call(
                "Instances",
                "get_serial_port_output",
                Deadline(LIST_SECONDS),
                zone=zone,
                instance=name,
                port=1,
            )
        except CloudError as error:
            # A machine that is gone or stopped has no console.
            if is_gone(error) or error.failure.code in ("resourceNotReady", "RESOURCE_NOT_READY"):
                return ""
            raise
        return str(told.get("contents") or "").encode()[-CONSOLE_BYTES:].decode("utf-8", "ignore")

    def machines(
        self, deadline: Deadline, ids: Sequence[str]
    ) -> Iterator[tuple[Compute, dict[str, Any]]]:
        """Return those of these machines that exist, each with its project."""
        for instance_id in ids:
            place = labels.parts(instance_id)
            if place is None:
                continue
            compute = self._connection.compute_of(instance_id)
            try:
                yield (
                    compute,
                    compute.call("Instances", "get", deadline, zone=place[0], instance=place[1]),
                )
            except CloudError as error:
                if not is_gone(error):
                    raise

    def launches(self, deadline: Deadline, ids: Sequence[str]) -> list[tuple[Compute, str, str]]:
        """Return project, owner and token of each launch that these machines belong to."""
        found = {}
        for compute, row in self.machines(deadline, ids):
            tags = row.get("labels") or {}
            if labels.OWNER in tags and labels.TOKEN in tags:
                found[str(tags[labels.TOKEN])] = (
                    compute,
                    str(tags[labels.OWNER]),
                    str(tags[labels.TOKEN]),
                )
        return [found[token] for token in sorted(found)]

    def _await_start(self, compute: Compute, zone: str, told: dict[str, Any]) -> None:
        """Let Google wait for a start once, because it refuses for lack of stock in the operation.

        The engine watches a start that takes longer.
        """
        if told.get("status") != "DONE":
            try:
                told = compute.call(
                    "ZoneOperations",
                    "wait",
                    Deadline(START_SECONDS),
                    zone=zone,
                    operation=str(told.get("name") or ""),
                )
            except CloudError as error:
                if error.failure.cause is Cause.TRANSIENT or is_gone(error):
                    return
                raise
        if said := errors.said_of_operation(told):
            raise CloudError(errors.worst_of(said, call="start"))

    def _side_by_side(self, call: Callable[[Compute, str, str], None], ids: Sequence[str]) -> None:
        """Act on several machines at once, each in its project; foreign ids are skipped."""
        _side_by_side(
            call,
            [
                (self._connection.compute_of(i), *place)
                for i in ids
                if (place := labels.parts(i)) is not None
            ],
        )


def _side_by_side(
    call: Callable[[Compute, str, str], None], places: Sequence[tuple[Compute, str, str]]
) -> None:
    """Do something to several machines at once; raise the first failure after all were tried."""
    failures: list[BaseException] = []
    gate = threading.Semaphore(AT_ONCE)

    def run(compute: Compute, zone: str, name: str) -> None:
        try:
            with gate:
                call(compute, zone, name)
        except BaseException as error:
            failures.append(error)

    if len(places) == 1:
        call(*places[0])
        return
    # Daemon threads: a stuck call must not delay the kernel's shutdown.
    threads = [
        threading.Thread(target=run, args=place, name="nbprov-gcp", daemon=True) for place in places
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + CALL_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if failures:
        raise failures[0]
    if any(thread.is_alive() for thread in threads):
        raise CloudError(Failure(Cause.TRANSIENT, "Google's Compute API took too long", "deadline"))
