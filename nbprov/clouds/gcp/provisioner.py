"""The adapter of Google Cloud's Compute Engine."""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nbprov.clouds.base import (
    CALL_SECONDS,
    CHECK_SECONDS,
    LIST_SECONDS,
    STOCK_SECONDS,
    Capabilities,
    Cloud,
)
from nbprov.clouds.gcp import check as checking
from nbprov.clouds.gcp import errors, labels, stock
from nbprov.clouds.gcp.account import projects
from nbprov.clouds.gcp.account.clients import Compute, Deadline, Rest
from nbprov.clouds.gcp.account.credentials import Login, endpoint, missing, open_login
from nbprov.clouds.gcp.catalog import disk_types
from nbprov.clouds.gcp.instances import listing, side_objects
from nbprov.clouds.gcp.instances.insert import Creates
from nbprov.clouds.gcp.instances.label_search import rows
from nbprov.clouds.gcp.instances.poweroff_cleanup import (
    GOING,
    GUEST,
    PoweredOff,
    ends_now,
    is_taken_back,
    reason_of,
)
from nbprov.clouds.gcp.network.firewall import KIND, is_gone
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CheckResult, Instance, Launch, Operation, PollResult, SideObject
from nbprov.model.offers import Offer
from nbprov.model.stock import Stock

NAME = listing.NAME
START_SECONDS: Seconds = 15.0
"""How long a start is waited for, by Google and in one request: a refusal for want of stock comes within that; the engine looks on after it."""
AT_ONCE = 8
"""Machines that are ended, stopped or started side by side."""
CONSOLE = 64 * 1024
ENDING_SECONDS: Seconds = 60.0
"""How long a machine that was asked to end may still be listed as running or stopped: Google says STOPPING within seconds. One that is so for
longer lives on, its end having failed, and has to be asked again."""

CAPABILITIES = Capabilities(
    spot=True,
    stop=True,
    multi_node=True,
    ports=True,
    images=True,
    login=listing.LOGIN,
    # A machine of Google's is no container, and nothing of ours starts one in it: better said than ignored.
    docker=False,
    disk_tiers=frozenset(disk_types.TIERS),
    network_best=True,
    replayable=True,
    replaces_nodes=True,
    settle=30.0,
    own_timer=True,
    zones=True,
    stock_probe=True,
    poweroff_ends_bill=True,
    accept_deadline=180.0,
    boot_deadline=600.0,
    ssh_deadline=300.0,
    poll_every=3.0,
    default_families=tuple(
        f"{series}-{kind}" for series in ("n2", "n4") for kind in ("standard", "highmem", "highcpu")
    ),
    notes={
        "login": "nbprov, made by the start script; keys of the project are not let in, and OS Login is off",
        "poweroff": "a machine that powers itself off is no longer billed, but Google keeps its disk: where it was to end, nbprov deletes it "
        "as soon as a notebook looks (max_lifetime ends a running one, disk and all, without any notebook)",
        "network": "the network `default`, or NBPROV_GCP_NETWORK; rules of its own let in this computer alone",
        "service account": "none: nothing of the project can be reached from a machine",
        "prices": "Google has no call that quotes one machine: the list's prices hold",
    },
)


class GcpCloud(Cloud):
    """Compute Engine in one project, with the application default credentials.

    Notes
    -----
    google-cloud-compute is imported by the first call that makes, lists or changes machines, in the thread that calls (`importing.py` says
    what that costs and why it does not stall a kernel). `check` and `stock` do without it.
    """

    name = NAME
    capabilities = CAPABILITIES

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[tuple[str, ...], Login] | None = None
        self._compute: Compute | None = None
        self._creates = Creates()
        self._firewall = self._creates.firewall
        self._powered_off = PoweredOff()
        self._ending: dict[str, float] = {}
        self._where: dict[str, str] = {}

    def check(self) -> CheckResult:
        deadline = Deadline(CHECK_SECONDS)
        try:
            return checking.check(Rest(self._login()), deadline)
        except Exception as error:
            return CheckResult(self.name, enabled=False, problem=self.classify(error))

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        """Region quotas, and for spot what `advice.capacity` says; both by REST, side by side. What is late is left out."""
        ours = [offer for offer in offers if offer.cloud == self.name]
        if not ours or missing():
            return ()
        began = time.monotonic()
        rest = Rest(self._login())
        return stock.look(rest, ours, count, STOCK_SECONDS - (time.monotonic() - began))

    def submit(self, launch: Launch) -> Operation:
        compute = self._open()
        # In the project that was planned for and agreed to: a repeat in another one would make a second machine.
        return self._creates.submit(
            compute.within(launch.candidate.account or compute.project), launch
        )

    def poll(self, operation: Operation) -> PollResult:
        return self._creates.poll(self._open(), operation)

    def list(self, owner: str) -> builtins.list[Instance]:
        """All machines of an owner, by one aggregated list a project (`projects.py` says which).

        A machine that powered itself off and was to end with that is ended here, since Google only stops it (`powered_off.py`).
        """
        deadline = Deadline(LIST_SECONDS)
        here = self._open()
        found = []
        for compute in (here, *map(here.within, projects.others(owner, here.project))):
            listed = self._listed(compute, here, deadline, owner)
            if not listed and compute is not here:
                projects.drop_old(owner, compute.project, projects.EMPTY_SECONDS)
            found += self._told(compute, deadline, listed, owner)
        return found

    def _listed(
        self, compute: Compute, here: Compute, deadline: Deadline, owner: str
    ) -> builtins.list[dict[str, Any]]:
        try:
            return [*rows(compute, deadline, labels.OWNER, labels.clean(owner))]
        except CloudError as error:
            if compute is here:
                raise
            if is_gone(error) and projects.drop_old(owner, compute.project, projects.GONE_SECONDS):
                return []
            words = f"machines may run in the project {compute.project}, which this login cannot list: {error.failure.message}"
            raise CloudError(replace(error.failure, message=words)) from error

    def _told(
        self, compute: Compute, deadline: Deadline, listed: Sequence[dict[str, Any]], owner: str
    ) -> builtins.list[Instance]:
        """The machines of a list; those that are to end now are asked to."""
        machines = {
            labels.instance_id(labels.last(row.get("zone")), str(row["name"])): row
            for row in listed
        }
        with self._lock:
            self._where |= dict.fromkeys(machines, compute.project)
        kinds = {
            key: self._powered_off.kinds(compute, deadline, row) for key, row in machines.items()
        }
        due = [
            key
            for key, row in machines.items()
            if ends_now(row, kinds[key]) and not self._is_ending(key, row)
        ]
        with suppress(CloudError):  # whoever lists next tries again
            self._end(due, deadline)
        return [
            listing.instance(
                row,
                owner,
                ending=self._is_ending(key, row) or is_taken_back(row, kinds[key]),
                reason=reason_of(kinds[key]),
                by_itself=kinds[key] == {GUEST},
            )
            for key, row in machines.items()
        ]

    def _is_ending(self, key: str, row: dict[str, Any]) -> bool:
        """Whether this machine was asked to end, and still may."""
        with self._lock:
            asked = self._ending.get(key)
            if asked is None:
                return False
            if row.get("status") != GOING and time.monotonic() - asked > ENDING_SECONDS:
                del self._ending[key]
                return False
            return True

    def terminate(self, ids: Sequence[str]) -> None:
        self._end(ids, Deadline(CALL_SECONDS))

    def _end(self, ids: Sequence[str], deadline: Deadline) -> None:
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
                # What lies on a disk inside the machine is lost at any stop; without this word Google refuses to stop such machines.
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
                Failure(Cause.NOT_OFFERED, f"{unknown} is no machine of Google's", "notFound")
            )
        self._side_by_side(begin, ids)

    def open_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        deadline = Deadline(CALL_SECONDS)
        for compute, owner, token in self._launches(deadline, ids):
            self._firewall.open_ports(compute, deadline, owner, token, ports)

    def close_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        deadline = Deadline(CALL_SECONDS)
        for compute, owner, token in self._launches(deadline, ids):
            self._firewall.close_ports(compute, deadline, owner, token, ports)

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        deadline = Deadline(LIST_SECONDS)
        compute = self._open()
        return [
            *self._firewall.of(compute, deadline, owner),
            *side_objects.disks(compute, deadline, owner),
        ]

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        compute, deadline = self._open(), Deadline(CALL_SECONDS)
        left = []
        for thing in objects:
            if thing.kind == KIND:
                gone = self._firewall.remove(compute, deadline, thing.id)
            else:
                gone = side_objects.remove_disk(compute, deadline, thing.id)
            if not gone:
                left.append(thing)
        return left

    def admit(self, ids: Sequence[str]) -> bool:
        deadline = Deadline(CALL_SECONDS)
        found: dict[str, tuple[Compute, set[str]]] = {}
        for compute, row in self._machines(deadline, ids):
            tags = {
                tag
                for tag in (row.get("tags") or {}).get("items") or ()
                if labels.is_owner_tag(tag)
            }
            found.setdefault(compute.project, (compute, set()))[1].update(tags)
        changed = [
            self._firewall.admit(compute, deadline, sorted(tags))
            for compute, tags in found.values()
            if tags
        ]
        return any(changed)

    def console(self, instance_id: str) -> str:
        place = labels.parts(instance_id)
        if place is None:
            return ""
        zone, name = place
        try:
            told = self._at(instance_id).call(
                "Instances",
                "get_serial_port_output",
                Deadline(LIST_SECONDS),
                zone=zone,
                instance=name,
                port=1,
            )
        except CloudError as error:
            # A machine that is gone, or stopped, has none.
            if is_gone(error) or error.failure.code in ("resourceNotReady", "RESOURCE_NOT_READY"):
                return ""
            raise
        return str(told.get("contents") or "").encode()[-CONSOLE:].decode("utf-8", "ignore")

    def classify(self, error: BaseException) -> Failure:
        if isinstance(error, CloudError):
            return error.failure
        return errors.failure_of_exception(error) or super().classify(error)

    def _login(self) -> Login:
        """The login as the environment and the files have it now; read again when one of them changed."""
        key = (endpoint(), *checking.login_state())
        with self._lock:
            if self._opened is None or self._opened[0] != key:
                self._opened = (key, open_login())
                self._compute = None
            return self._opened[1]

    def _open(self) -> Compute:
        login = self._login()
        with self._lock:
            if self._compute is None or self._compute.login is not login:
                self._compute = Compute(login)
            return self._compute

    def _at(self, instance_id: str) -> Compute:
        """The project where a machine was listed last; one that never was can only be in the present one."""
        compute = self._open()
        with self._lock:
            return compute.within(self._where.get(instance_id, compute.project))

    def _await_start(self, compute: Compute, zone: str, told: dict[str, Any]) -> None:
        """Let Google wait for a start, once: it refuses for want of stock in the operation. One that takes longer is the engine's to follow."""
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

    def _machines(
        self, deadline: Deadline, ids: Sequence[str]
    ) -> Iterator[tuple[Compute, dict[str, Any]]]:
        """The machines of these that are there, each with its project."""
        for instance_id in ids:
            place = labels.parts(instance_id)
            if place is None:
                continue
            compute = self._at(instance_id)
            try:
                yield (
                    compute,
                    compute.call("Instances", "get", deadline, zone=place[0], instance=place[1]),
                )
            except CloudError as error:
                if not is_gone(error):
                    raise

    def _launches(
        self, deadline: Deadline, ids: Sequence[str]
    ) -> builtins.list[tuple[Compute, str, str]]:
        """Project, owner and token of each launch that these machines are of."""
        found = {}
        for compute, row in self._machines(deadline, ids):
            labels = row.get("labels") or {}
            if labels.OWNER in labels and labels.TOKEN in labels:
                found[str(labels[labels.TOKEN])] = (
                    compute,
                    str(labels[labels.OWNER]),
                    str(labels[labels.TOKEN]),
                )
        return [found[token] for token in sorted(found)]

    def _side_by_side(self, call: Callable[[Compute, str, str], None], ids: Sequence[str]) -> None:
        """Do something to several machines at once, each in its project. What is no id of ours is passed over."""
        _side_by_side(
            call, [(self._at(i), *place) for i in ids if (place := labels.parts(i)) is not None]
        )


def _side_by_side(
    call: Callable[[Compute, str, str], None], places: Sequence[tuple[Compute, str, str]]
) -> None:
    """Do something to several machines at once; raises the first failure after all were tried."""
    failures: builtins.list[BaseException] = []
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
    # Daemon threads: a stuck call must not hold a kernel's end.
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
