"""The adapter of Google Cloud's Compute Engine."""

from __future__ import annotations

import builtins
import time
from collections.abc import Sequence
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
from nbprov.clouds.gcp import check as account_check
from nbprov.clouds.gcp import errors, labels, stock
from nbprov.clouds.gcp.account import projects
from nbprov.clouds.gcp.account.clients import Compute, ComputeRest, Deadline
from nbprov.clouds.gcp.account.connection import GcpConnection
from nbprov.clouds.gcp.account.credentials import missing
from nbprov.clouds.gcp.billing_quote import BillingQuotes
from nbprov.clouds.gcp.catalog import disk_types
from nbprov.clouds.gcp.instances import listing, side_objects
from nbprov.clouds.gcp.instances.actions import GcpInstanceActions
from nbprov.clouds.gcp.instances.insert import Inserter
from nbprov.clouds.gcp.instances.label_search import rows
from nbprov.clouds.gcp.instances.poweroff_cleanup import (
    GUEST,
    PoweroffCleanup,
    ends_now,
    is_taken_back,
    reason_of,
)
from nbprov.clouds.gcp.network.firewall import KIND, is_gone
from nbprov.clouds.launch_checks import refuse_container, without_secrets_of
from nbprov.model.failures import CloudError, Failure
from nbprov.model.launches import (
    CheckResult,
    CreateOperation,
    Instance,
    Launch,
    PollResult,
    Quote,
    SideObject,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.stock import Stock

NAME = listing.NAME

CAPABILITIES = Capabilities(
    spot=True,
    stop=True,
    multi_node=True,
    ports=True,
    images=True,
    login=listing.LOGIN,
    disk_sizes=True,
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
        "login": (
            "nbprov, created by the start script; the project's ssh keys have no access, "
            "and OS Login is off"
        ),
        "poweroff": (
            "a machine that powers itself off is no longer billed, but Google keeps "
            "its disk: if it was to end, nbprov deletes it "
            "as soon as a notebook lists it (max_lifetime ends a running one with its disk, "
            "without "
            "any notebook)"
        ),
        "network": (
            "the network `default`, or NBPROV_GCP_NETWORK; nbprov's own firewall rules "
            "admit only this computer"
        ),
        "service account": "none: a machine cannot reach anything in the project",
        "prices": (
            "Google's billing catalogue is read before a create, where the login may (an API key or"
            " the Cloud Billing API); else the list's prices hold"
        ),
    },
)


class GcpCloud(Cloud):
    """Compute Engine, with the application default credentials.

    Notes
    -----
    google-cloud-compute is imported by the first call that creates, lists or changes machines, in
    the calling thread; `sdk_import.py` says what that costs and why the kernel does not stall.
    `check` and `stock` do without it.
    """

    name = NAME
    capabilities = CAPABILITIES

    def __init__(self) -> None:
        self._connection = GcpConnection()
        self._quotes = BillingQuotes()
        self._actions = GcpInstanceActions(self._connection)
        self._inserter = Inserter()
        self._firewall = self._inserter.firewall
        self._powered_off = PoweroffCleanup()

    def check(self) -> CheckResult:
        deadline = Deadline(CHECK_SECONDS)
        try:
            return account_check.check(ComputeRest(self._connection.login()), deadline)
        except Exception as error:
            return CheckResult(self.name, enabled=False, problem=self.classify(error))

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        """See `Cloud.stock`.

        Region quotas and, for spot, `advice.capacity` are asked at once by REST.

        Answers that do not arrive in time are left out.
        """
        ours = [offer for offer in offers if offer.cloud == self.name]
        if not ours or missing():
            return ()
        if any(offer.moved_from for offer in ours):
            self._quotes.begin()  # a launch will ask for it, and the catalogue takes a while
        began = time.monotonic()
        rest = ComputeRest(self._connection.login())
        return stock.look(rest, ours, count, STOCK_SECONDS - (time.monotonic() - began))

    def quote(self, candidate: Candidate) -> Quote | None:
        """Return the list price, where the login may read Google's billing catalogue."""
        return self._quotes.quote(candidate.offer, CHECK_SECONDS - 0.5)

    def submit(self, launch: Launch) -> CreateOperation:
        refuse_container(launch, "Google Cloud")
        compute = self._connection.compute()
        # In the project of the plan: a repeat in another one would create a second machine.
        compute = compute.within(launch.candidate.account or compute.project)
        with without_secrets_of(launch):
            return self._inserter.submit(compute, launch)

    def poll(self, operation: CreateOperation) -> PollResult:
        return self._inserter.poll(self._connection.compute(), operation)

    def list(self, owner: str) -> builtins.list[Instance]:
        """See `Cloud.list`.

        Sends one aggregated list for each project (`account/projects.py` says which).

        A machine that powered itself off and was to end with that is ended here, since Google only
        stops it (`instances/poweroff_cleanup.py`).
        """
        deadline = Deadline(LIST_SECONDS)
        here = self._connection.compute()
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
            words = (
                f"machines may run in the project {compute.project}, which this login "
                f"cannot list: {error.failure.message}"
            )
            raise CloudError(replace(error.failure, message=words)) from error

    def _told(
        self, compute: Compute, deadline: Deadline, listed: Sequence[dict[str, Any]], owner: str
    ) -> builtins.list[Instance]:
        """Translate the listed machines; end those that are due."""
        machines = {
            labels.instance_id(labels.last(row["zone"]), str(row["name"])): row for row in listed
        }
        self._connection.note_project(machines, compute.project)
        kinds = {
            key: self._powered_off.kinds(compute, deadline, row) for key, row in machines.items()
        }
        due = [
            key
            for key, row in machines.items()
            if ends_now(row, kinds[key]) and not self._actions.is_ending(key, row)
        ]
        with suppress(CloudError):  # whoever lists next tries again
            self._actions.terminate(due, deadline)
        return [
            listing.instance(
                row,
                owner,
                ending=self._actions.is_ending(key, row) or is_taken_back(row, kinds[key]),
                reason=reason_of(kinds[key]),
                by_itself=kinds[key] == {GUEST},
            )
            for key, row in machines.items()
        ]

    def terminate(self, ids: Sequence[str]) -> None:
        self._actions.terminate(ids, Deadline(CALL_SECONDS))

    def stop(self, ids: Sequence[str]) -> None:
        self._actions.stop(ids)

    def start(self, ids: Sequence[str]) -> None:
        self._actions.start(ids)

    def open_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        deadline = Deadline(CALL_SECONDS)
        for compute, owner, token in self._actions.launches(deadline, ids):
            self._firewall.open_ports(compute, deadline, owner, token, ports)

    def close_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        deadline = Deadline(CALL_SECONDS)
        for compute, owner, token in self._actions.launches(deadline, ids):
            self._firewall.close_ports(compute, deadline, owner, token, ports)

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        deadline = Deadline(LIST_SECONDS)
        compute = self._connection.compute()
        return [
            *self._firewall.of(compute, deadline, owner),
            *side_objects.disks(compute, deadline, owner),
        ]

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        compute, deadline = self._connection.compute(), Deadline(CALL_SECONDS)
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
        for compute, row in self._actions.machines(deadline, ids):
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
        return self._actions.console(instance_id)

    def classify(self, error: BaseException) -> Failure:
        if isinstance(error, CloudError):
            return error.failure
        return errors.failure_of_exception(error) or super().classify(error)
