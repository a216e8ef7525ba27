"""The contract catches adapters that would lose machines or end those of others."""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from cloud_contract import CHECKS, run_check
from clouds_under_test import CloudUnderTest, LocalUnderTest

from nbprov.clouds.base import Cloud
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.launches import CreateOperation, Instance, InstanceState, Launch

pytestmark = pytest.mark.machine


class IgnoresTheToken(LocalCloud):
    """Broken on purpose: sends a new idempotency key with every create."""

    def submit(self, launch: Launch) -> CreateOperation:
        return super().submit(replace(launch, token=uuid.uuid4().hex))


class ListsAllOwners(LocalCloud):
    """Broken on purpose: lists the machines of every owner."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.owners: set[str] = set()

    def submit(self, launch: Launch) -> CreateOperation:
        self.owners.add(launch.owner)
        return super().submit(launch)

    def list(self, owner: str) -> builtins.list[Instance]:
        return [
            i
            for each in sorted(self.owners | {owner})
            for i in super(ListsAllOwners, self).list(each)
        ]


class SaysGoneTooEarly(LocalCloud):
    """Broken on purpose: reports an ending or unlisted machine as gone."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.made: dict[str, Launch] = {}

    def submit(self, launch: Launch) -> CreateOperation:
        self.made[launch.token] = launch
        return super().submit(launch)

    def list(self, owner: str) -> builtins.list[Instance]:
        found = [
            replace(i, state=InstanceState.GONE) if i.state is InstanceState.ENDING else i
            for i in super().list(owner)
        ]
        seen = {i.token for i in found}
        missing = [
            launch
            for token, launch in self.made.items()
            if token not in seen and launch.owner == owner
        ]
        offers = [(launch, launch.candidate.offer) for launch in missing]
        return found + [
            Instance("local", "?", m.token, owner, o.place, o.instance_type, InstanceState.GONE)
            for m, o in offers
        ]


def is_skipped(_: CloudUnderTest) -> None:
    pytest.skip("nothing to look at")


def is_run(_: CloudUnderTest) -> None:
    """Looks, and finds nothing wrong."""


def test_a_check_that_does_not_run_is_listed_and_a_listed_one_does_not_run() -> None:
    class Listing(LocalUnderTest):
        does_not_apply: ClassVar[Mapping[str, str]] = {}

    subject = Listing()
    try:
        run_check(subject, is_run)
        with pytest.raises(AssertionError, match=r"did not run for local: .*nothing to look at"):
            run_check(subject, is_skipped)
        Listing.does_not_apply = {"is_run": "so it was", "is_skipped": "so it is"}
        run_check(subject, is_skipped)
        with pytest.raises(AssertionError, match=r"so it was.*it applies now, take it from"):
            run_check(subject, is_run)
    finally:
        subject.close()


def test_a_double_that_starts_machines_without_stock_shows_nothing() -> None:
    (check,) = (one for one in CHECKS if one.__name__ == "a_start_that_stock_refuses_says_so")

    class AlwaysInStock(LocalUnderTest):
        def leave(self, count: int) -> None:
            """Broken on purpose."""

    class KeepsPlaces(AlwaysInStock):
        does_not_apply: ClassVar[Mapping[str, str]] = {check.__name__: "a place is kept"}

    subjects = (AlwaysInStock(), KeepsPlaces())
    try:
        with pytest.raises(AssertionError, match="let it refuse a start as it refuses"):
            run_check(subjects[0], check)
        run_check(subjects[1], check)
    finally:
        for subject in subjects:
            subject.close()


EXPECTED = {
    IgnoresTheToken: {
        "a_machine_lives_and_ends",
        "a_repeated_token_makes_nothing_new",
        "a_repeat_at_the_same_instant_makes_nothing_new",
    },
    ListsAllOwners: {"an_owner_sees_only_their_own"},
    SaysGoneTooEarly: {"gone_means_gone", "a_young_machine_that_is_not_listed_yet_is_not_gone"},
}


@pytest.mark.parametrize("broken", EXPECTED, ids=lambda b: b.__name__)
def test_contract_fails_a_broken_adapter(broken: type[LocalCloud]) -> None:
    class Subject(LocalUnderTest):
        def make(self) -> Cloud:
            return broken(self.folder)

    caught = set()
    for check in CHECKS:
        if check.__name__ not in EXPECTED[broken]:
            continue
        subject = Subject()
        try:
            check(subject)
        except AssertionError:
            caught.add(check.__name__)
        finally:
            subject.close()
    assert caught == EXPECTED[broken]
