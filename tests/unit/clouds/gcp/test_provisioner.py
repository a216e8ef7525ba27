"""The Google Cloud adapter over a server made from the official model, with simulated machines."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gcp_double import OTHER_PROJECT, GcpDouble

from nbprov.clouds.gcp import make
from nbprov.clouds.gcp.account import projects
from nbprov.clouds.gcp.labels import owner_tag
from nbprov.clouds.gcp.provisioner import GcpCloud
from nbprov.clouds.web.public_ip import VARIABLE
from nbprov.model.failures import Cause, CloudError, Scope
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    InstanceState,
    Launch,
    OnShutdown,
    Pending,
    PollResult,
    Refused,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import Request

DEADLINE = 15.0


@pytest.fixture(scope="module")
def server() -> Iterator[GcpDouble]:
    """Yield one server for all tests; each begins with an empty world."""
    with GcpDouble() as made:
        yield made


@pytest.fixture
def double(server: GcpDouble) -> Iterator[GcpDouble]:
    """Yield the double, and check that no request or answer broke its model."""
    before = {name: os.environ.get(name) for name in server.env}
    os.environ.update(server.env)
    os.environ[VARIABLE] = "203.0.113.7"
    server.tell("reset")
    yield server
    problems = server.problems
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    assert problems == []


@pytest.fixture
def cloud(double: GcpDouble) -> GcpCloud:
    """Its adapter."""
    found = make()
    assert isinstance(found, GcpCloud)
    return found


def launch(
    kind: str = "n1-standard-4+1xT4",
    *,
    market: Market = Market.ON_DEMAND,
    zone: str = "us-central1-a",
    **changes: Any,
) -> Launch:
    offer = Offer("gcp", zone[:-2], zone, kind, "T4", 1, 4, 15, market, 540_000)
    count = changes.get("count", 1)
    made = Launch(
        uuid.uuid4().hex,
        "owner-1",
        "run-1",
        "dev",
        Candidate(offer, Request(), 0, count),
        count,
        50,
        user_data_template="#!/bin/sh\n",
    )
    return replace(made, **changes)


def eventually(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE
    while not (found := look()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)
    return found


def decided(cloud: GcpCloud, operation: CreateOperation) -> PollResult:
    found: PollResult = eventually(
        lambda: (r := cloud.poll(operation)) and not isinstance(r, Pending) and r
    )
    return found


def running(cloud: GcpCloud, wanted: Launch) -> tuple[str, ...]:
    result = decided(cloud, cloud.submit(wanted))
    assert isinstance(result, Accepted), result
    eventually(
        lambda: (
            {i.id for i in cloud.list("owner-1") if i.state is InstanceState.RUNNING}
            >= set(result.ids)
        )
    )
    return result.ids


def state(cloud: GcpCloud, machine: str) -> str:
    return next((i.state.value for i in cloud.list("owner-1") if i.id == machine), "absent")


def test_first_launch_makes_the_rules_and_the_next_none(cloud: GcpCloud, double: GcpDouble) -> None:
    running(cloud, launch())
    assert len(double.calls("firewalls.insert")) == 3
    running(cloud, launch())
    make().submit(launch())
    assert len(double.calls("firewalls.insert")) == 3
    assert double.calls("firewalls.patch") == []
    assert [o.shared for o in cloud.side_objects("owner-1")] == [True] * 3
    assert cloud.side_objects("owner") == []


def test_new_address_is_let_in(cloud: GcpCloud, double: GcpDouble) -> None:
    ids = running(cloud, launch())
    assert cloud.admit(ids) is False
    os.environ[VARIABLE] = "198.51.100.4"
    assert cloud.admit(ids) is True
    rules = double.tell("state")["firewalls"]
    assert rules[f"{owner_tag('owner-1')}-ssh"]["sourceRanges"] == ["198.51.100.4/32"]
    assert cloud.admit(ids) is False
    assert cloud.admit(["us-central1-a/never"]) is False


def test_computer_that_could_never_reach_a_machine_is_told_before_one_is_made(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    os.environ[VARIABLE] = "2001:db8::7"
    with pytest.raises(CloudError, match=VARIABLE) as raised:
        cloud.submit(launch())
    told = raised.value.failure
    assert (told.cause, told.scope) == (Cause.BAD_REQUEST, Scope.ACCOUNT)
    assert double.calls("instances.insert") == double.calls("firewalls.insert") == []


def test_ipv6_address_does_not_lock_out_a_session(cloud: GcpCloud, double: GcpDouble) -> None:
    ids = running(cloud, launch())
    os.environ[VARIABLE] = "2001:db8::7"
    with pytest.raises(CloudError, match=f"set {VARIABLE} to its public IPv4"):
        cloud.admit(ids)
    assert double.calls("firewalls.patch") == []


def test_rule_that_was_changed_by_hand_is_put_right(cloud: GcpCloud, double: GcpDouble) -> None:
    running(cloud, launch())
    os.environ[VARIABLE] = "198.51.100.4"
    running(make_gcp(), launch())
    assert double.tell("state")["firewalls"][f"{owner_tag('owner-1')}-ssh"]["sourceRanges"] == [
        "198.51.100.4/32"
    ]


def make_gcp() -> GcpCloud:
    found = make()
    assert isinstance(found, GcpCloud)
    return found


def test_network_that_is_not_there_is_said_with_what_to_do(
    cloud: GcpCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBPROV_GCP_NETWORK", "gone")
    with pytest.raises(CloudError, match="name the network to use in NBPROV_GCP_NETWORK") as raised:
        cloud.submit(launch())
    assert raised.value.failure.cause is Cause.PERMISSION
    monkeypatch.setenv("NBPROV_GCP_NETWORK", "lab")
    running(cloud, launch())


def test_ports_of_a_launch_are_its_own_side_object(cloud: GcpCloud, double: GcpDouble) -> None:
    wanted = launch(ports=((8888, 8888), (6000, 6005)))
    ids = running(cloud, wanted)
    (rule,) = [
        r for r in double.tell("state")["firewalls"].values() if r["name"].endswith("-ports")
    ]
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["6000-6005", "8888"]}]
    cloud.open_ports(ids, [(9999, 9999), (8888, 8888)])
    cloud.close_ports(ids, [(6000, 6005)])
    (thing,) = [o for o in cloud.side_objects("owner-1") if not o.shared]
    assert (thing.kind, thing.token) == ("firewall", wanted.token)
    assert double.tell("state")["firewalls"][thing.id]["allowed"] == [
        {"IPProtocol": "tcp", "ports": ["8888", "9999"]}
    ]
    cloud.close_ports(ids, [(8888, 8888), (9999, 9999)])
    cloud.close_ports(ids, [(8888, 8888)])
    assert [o for o in cloud.side_objects("owner-1") if not o.shared] == []
    assert cloud.remove([thing]) == []


def test_machine_that_powered_itself_off_ends_if_it_was_to(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    (ends,) = running(cloud, launch())
    (stays,) = running(cloud, launch(on_shutdown=OnShutdown.STOP))
    for machine in (ends, stays):
        double.tell("set", id=machine, guest_off=True)
    eventually(lambda: state(make_gcp(), ends) == "absent")
    shown = next(i for i in cloud.list("owner-1") if i.id == stays)
    assert (shown.state, shown.reason) == (InstanceState.STOPPED, "it powered itself off")
    assert [o for o in cloud.side_objects("owner-1") if o.kind == "disk"] == []


def test_machines_that_power_off_together_are_ended_in_one_list(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    ids = running(cloud, launch(count=3))
    for machine in ids:
        double.tell("set", id=machine, guest_off=True)
    other = make_gcp()
    assert {i.state for i in other.list("owner-1")} == {InstanceState.ENDING}
    assert len(double.calls("instances.delete")) == 3
    eventually(lambda: other.list("owner-1") == [])
    assert len(double.calls("instances.delete")) == 3


def test_stop_of_which_nothing_is_recorded_is_asked_for_once(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    (machine,) = running(cloud, launch())
    double.tell("set", id=machine, status="TERMINATED")
    for since, asked in ((60, 2), (7200, 1)):
        stopped = datetime.fromtimestamp(time.time() - since, UTC).isoformat()
        double.tell("set", id=machine, stopped=stopped)
        before, other = len(double.calls("zoneOperations.list")), make_gcp()
        assert [[i.state.value for i in other.list("owner-1")] for _ in range(2)] == [
            ["stopped"]
        ] * 2
        assert len(double.calls("zoneOperations.list")) - before == asked


def test_machine_that_a_person_stopped_is_kept(cloud: GcpCloud, double: GcpDouble) -> None:
    (machine,) = running(cloud, launch())
    cloud.stop([machine])
    eventually(lambda: state(cloud, machine) == "stopped")
    # Google may note the shutdown of the guest beside the stop that was asked for.
    double.tell("set", id=machine, guest_off=True)
    assert [(i.state, i.reason) for i in make_gcp().list("owner-1")] == [
        (InstanceState.STOPPED, "it was stopped")
    ]
    assert double.calls("instances.delete") == []


def test_preempted_machine_goes_or_stays_as_the_spec_says(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    (ends,) = running(cloud, launch(market=Market.SPOT))
    (stays,) = running(cloud, launch(market=Market.SPOT, on_shutdown=OnShutdown.STOP))
    double.tell("preempt")
    eventually(lambda: state(cloud, ends) == "absent")
    eventually(lambda: state(cloud, stays) == "stopped")
    assert [(i.spot, i.reason) for i in cloud.list("owner-1")] == [
        (True, "Google took the spot machine back")
    ]


def test_spot_machine_that_is_being_taken_back_is_ending_and_says_why(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    (machine,) = running(cloud, launch(market=Market.SPOT))
    double.tell("preempt", seconds=600)
    (shown,) = make_gcp().list("owner-1")
    assert (shown.id, shown.state, shown.reason) == (
        machine,
        InstanceState.ENDING,
        "Google took the spot machine back",
    )


def test_end_that_failed_at_google_is_not_believed_for_ever(
    cloud: GcpCloud, double: GcpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine,) = running(cloud, launch())
    double.add_fault(call="terminate", do="late_failure")
    cloud.terminate([machine])
    assert state(cloud, machine) == "ending"
    monkeypatch.setattr("nbprov.clouds.gcp.instances.actions.ENDING_SECONDS", 0.0)
    assert state(cloud, machine) == "running"
    monkeypatch.undo()
    cloud.terminate([machine])
    eventually(lambda: state(cloud, machine) == "absent")


@pytest.mark.parametrize("do", ["unreachable", "partial", "unreachables"])
def test_list_that_lacks_a_zone_is_none(cloud: GcpCloud, double: GcpDouble, do: str) -> None:
    running(cloud, launch())
    for method, look in (
        ("instances.aggregatedList", cloud.list),
        ("disks.aggregatedList", cloud.side_objects),
    ):
        double.add_fault(call=method, do=do)
        with pytest.raises(CloudError) as raised:
            look("owner-1")
        assert raised.value.failure.cause is Cause.TRANSIENT


def test_rules_of_other_people_are_not_touched(cloud: GcpCloud, double: GcpDouble) -> None:
    """Somebody puts a tag of theirs on our machine, whose name looks like one of ours.

    Or makes a rule under a name of ours.
    """
    (machine,) = running(cloud, launch())
    theirs = {
        "teamweb-12345678-ssh": "teamweb-12345678",
        f"{owner_tag('owner-1')}-ssh-mine": owner_tag("owner-1"),
    }
    for name, tag in theirs.items():
        double.tell(
            "set",
            rule={
                "name": name,
                "sourceRanges": ["192.0.2.0/24"],
                "targetTags": [tag],
                "description": "keep out",
            },
        )
    double.tell("set", id=machine, tag="teamweb-12345678")
    os.environ[VARIABLE] = "198.51.100.4"
    assert cloud.admit([machine]) is True
    rules = double.tell("state")["firewalls"]
    assert {rules[name]["sourceRanges"][0] for name in theirs} == {"192.0.2.0/24"}
    assert [name for name, rule in rules.items() if not rule["targetTags"]] == []


def test_machines_of_another_project_are_listed_and_ended_there(
    cloud: GcpCloud, double: GcpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another notebook has another project in its environment.

    What this one made must not look gone to it.
    """
    wanted = launch()
    operation = cloud.submit(wanted)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", OTHER_PROJECT)
    other = make_gcp()
    assert isinstance(decided(other, operation), Accepted)
    eventually(lambda: [i.state for i in other.list("owner-1")] == [InstanceState.RUNNING])
    (shown,) = other.list("owner-1")
    other.open_ports([shown.id], [(8888, 8888)])
    assert other.list("somebody") == []
    double.add_fault(call="list", do="permission")
    double.add_fault(call="list", do="permission")
    with pytest.raises(CloudError, match="machines may run in the project nbprov-test"):
        other.list("owner-1")
    double.tell("faults", clear=True)
    other.terminate([shown.id])
    eventually(lambda: other.list("owner-1") == [])
    monkeypatch.setattr("nbprov.clouds.gcp.account.projects.EMPTY_SECONDS", 0.0)
    asked = len(double.calls("instances.aggregatedList"))
    other.list("owner-1")
    other.list("owner-1")
    assert (
        len(double.calls("instances.aggregatedList")) == asked + 1
    )  # once more after the last machine, and then no longer


@pytest.mark.parametrize("content", [b"", b"nbprov-te", b"\xff"])
def test_nothing_is_concluded_where_the_record_of_a_project_cannot_be_read(
    cloud: GcpCloud, double: GcpDouble, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    operation = cloud.submit(launch())
    assert isinstance(decided(cloud, operation), Accepted)
    (record,) = projects.folder().iterdir()
    before = record.read_bytes()
    record.write_bytes(content)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("GOOGLE_CLOUD_PROJECT", OTHER_PROJECT)
        other = make_gcp()
        with pytest.raises(CloudError, match="names a project with machines") as raised:
            other.list("owner-1")
        assert raised.value.failure.cause is Cause.TRANSIENT
    assert len(cloud.list("owner-1")) == 1
    assert record.read_bytes() == before, "in its own project it is known what was in it"


def test_repeat_goes_to_the_project_that_was_planned_for(
    cloud: GcpCloud, double: GcpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = launch()
    wanted = replace(wanted, candidate=replace(wanted.candidate, account=cloud.check().account))
    double.add_fault(call="create", do="lose_answer")
    with pytest.raises(CloudError):
        cloud.submit(wanted)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", OTHER_PROJECT)
    other = make_gcp()
    assert isinstance(decided(other, other.submit(wanted)), Accepted)
    assert len(other.list("owner-1")) == len(double.tell("state")["machines"]) == 1


def test_create_whose_project_cannot_be_noted_is_not_sent(
    cloud: GcpCloud, double: GcpDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NBPROV_HOME", str(tmp_path / "file"))
    with pytest.raises(CloudError, match="not sent"):
        cloud.submit(launch())
    assert double.calls("instances.insert") == []


def test_capacity_is_told_from_quota_by_the_operation(cloud: GcpCloud, double: GcpDouble) -> None:
    for do, market, cause in (
        ("capacity", Market.ON_DEMAND, Cause.CAPACITY),
        ("capacity", Market.SPOT, Cause.SPOT),
        ("quota", Market.ON_DEMAND, Cause.QUOTA),
        ("late_failure", Market.ON_DEMAND, Cause.TRANSIENT),
    ):
        double.add_fault(call="create", do=do, where={"zone": "us-central1-a"})
        result = decided(cloud, cloud.submit(launch(market=market)))
        assert isinstance(result, Refused)
        assert result.failure.cause is cause
    assert cloud.list("owner-1") == []


def test_quota_of_the_project_is_met(cloud: GcpCloud, double: GcpDouble) -> None:
    double.tell("stock", quotas={"NVIDIA_T4_GPUS": 1.0})
    result = decided(cloud, cloud.submit(launch(count=2)))
    assert isinstance(result, Refused)
    assert (result.failure.cause, result.failure.code) == (Cause.QUOTA, "QUOTA_EXCEEDED")


def test_disk_that_a_half_made_machine_left_is_found_and_removed(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    wanted = launch()
    double.add_fault(call="create", do="half_made")
    assert isinstance(decided(cloud, cloud.submit(wanted)), Refused)
    (disk,) = [o for o in cloud.side_objects("owner-1") if not o.shared]
    assert (disk.kind, disk.token, disk.region) == ("disk", wanted.token, "us-central1")
    assert cloud.remove([disk]) == []
    assert cloud.remove([disk]) == []
    assert [o for o in cloud.side_objects("owner-1") if not o.shared] == []


def test_disk_in_use_is_not_removed(cloud: GcpCloud, double: GcpDouble) -> None:
    from nbprov.model.launches import SideObject

    (machine,) = running(cloud, launch())
    busy = SideObject("gcp", "us-central1", "disk", machine, "")
    assert cloud.remove([busy]) == [busy]


def test_start_without_stock_is_refused(cloud: GcpCloud, double: GcpDouble) -> None:
    (machine,) = running(cloud, launch(on_shutdown=OnShutdown.STOP))
    cloud.stop([machine])
    eventually(lambda: state(cloud, machine) == "stopped")
    double.add_fault(call="start", do="capacity")
    with pytest.raises(CloudError) as raised:
        cloud.start([machine])
    assert raised.value.failure.cause is Cause.CAPACITY
    cloud.start([machine])
    eventually(lambda: state(cloud, machine) == "running")


def test_page_in_the_place_of_an_answer_is_an_unknown_outcome(
    cloud: GcpCloud, double: GcpDouble
) -> None:
    wanted = launch()
    double.add_fault(call="create", do="html")
    with pytest.raises(CloudError) as raised:
        cloud.submit(wanted)
    assert raised.value.failure.cause is Cause.UNKNOWN_OUTCOME
    assert isinstance(decided(cloud, cloud.submit(wanted)), Accepted)
    double.add_fault(call="list", do="html")
    with pytest.raises(CloudError) as raised:
        cloud.list("owner-1")
    assert raised.value.failure.cause is Cause.TRANSIENT


def test_create_that_google_no_longer_remembers_is_found_by_name(
    cloud: GcpCloud, double: GcpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.clouds.gcp import labels

    wanted = launch()
    ids = running(cloud, wanted)
    monkeypatch.setattr(labels, "request_id", lambda *_: str(uuid.uuid4()))
    assert decided(cloud, cloud.submit(wanted)) == Accepted(ids)
    with pytest.raises(CloudError) as raised:
        cloud.submit(replace(wanted, disk_gb=99))
    assert raised.value.failure.cause is Cause.BAD_REQUEST


def test_young_create_that_google_does_not_show_yet_is_not_called_refused(
    cloud: GcpCloud, double: GcpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = cloud.submit(launch())
    double.add_fault(call="list", do="hide", seconds=600)
    double.add_fault(call="poll", do="not_offered", times=2)
    assert cloud.poll(operation) == Pending()
    monkeypatch.setattr("nbprov.clouds.gcp.instances.insert.YOUNG_SECONDS", 0.0)
    assert isinstance(cloud.poll(operation), Refused)
    assert isinstance(decided(cloud, operation), Accepted)


def test_many_machines_come_in_pages(cloud: GcpCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbprov.clouds.gcp.account import clients

    ids = {i for _ in range(2) for i in running(cloud, launch(count=3))}
    monkeypatch.setattr(clients, "PAGE", 2)
    assert {i.id for i in cloud.list("owner-1")} == ids
    cloud.terminate(sorted(ids))
    eventually(lambda: cloud.list("owner-1") == [])


def test_image_of_ones_own(cloud: GcpCloud, double: GcpDouble) -> None:
    running(cloud, launch(image="projects/nbprov-test/global/images/own-1", disk_gb=5))
    (call,) = double.calls("instances.insert")
    assert (
        call["body"]["disks"][0]["initializeParams"]["sourceImage"]
        == "projects/nbprov-test/global/images/own-1"
    )
    assert call["body"]["disks"][0]["initializeParams"]["diskSizeGb"] == "30"
    for image in ("ami-12345", "projects/nbprov-test/global/images/lost"):
        with pytest.raises(CloudError) as raised:
            cloud.submit(launch(image=image))
        assert raised.value.failure.cause is Cause.BAD_REQUEST


def in_any_zone(**changes: Any) -> Launch:
    """Return a launch whose offer covers the whole region."""
    wanted = launch("n4-standard-8", **changes)
    return replace(
        wanted, candidate=replace(wanted.candidate, offer=replace(wanted.candidate.offer, zone=""))
    )


@pytest.mark.parametrize("count", [1, 3])
def test_google_chooses_the_zone_where_the_offer_names_none(
    cloud: GcpCloud, double: GcpDouble, count: int
) -> None:
    double.tell("stock", zone="us-central1-a", left=0)
    wanted = in_any_zone(count=count)
    ids = running(cloud, wanted)
    assert {i.partition("/")[0] for i in ids} == {"us-central1-b"}
    assert [i.place.zone for i in cloud.list("owner-1")] == ["us-central1-b"] * count
    double.tell("stock", zone="us-central1-a", left=9)
    for again in (cloud, make_gcp()):
        assert decided(again, again.submit(wanted)) == Accepted(ids)
    assert len(double.calls("regionInstances.bulkInsert")) == 1
    with pytest.raises(CloudError) as raised:
        cloud.submit(replace(wanted, disk_gb=99))
    assert raised.value.failure.cause is Cause.BAD_REQUEST
    assert len(cloud.list("owner-1")) == count


def test_lost_answer_of_a_region_ends_in_one_machine(cloud: GcpCloud, double: GcpDouble) -> None:
    wanted = in_any_zone()
    double.add_fault(call="create", do="lose_answer")
    with pytest.raises(CloudError) as raised:
        cloud.submit(wanted)
    assert raised.value.failure.cause is Cause.UNKNOWN_OUTCOME
    assert isinstance(decided(cloud, cloud.submit(wanted)), Accepted)
    assert len(cloud.list("owner-1")) == 1


def test_region_without_stock_refuses(cloud: GcpCloud, double: GcpDouble) -> None:
    double.tell("stock", left=0)
    result = decided(cloud, cloud.submit(in_any_zone(count=2)))
    assert isinstance(result, Refused)
    assert result.failure.cause is Cause.CAPACITY


def test_field_that_the_library_does_not_know_is_no_lost_answer(
    cloud: GcpCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbprov.clouds.gcp.instances import insert_bodies

    monkeypatch.setattr(insert_bodies, "_scheduling", lambda *_: {"fieldOfNextYear": True})
    with pytest.raises(CloudError, match="too old") as raised:
        cloud.submit(launch())
    assert raised.value.failure.cause is Cause.BAD_REQUEST


def test_console_is_read_while_it_runs(cloud: GcpCloud) -> None:
    (machine,) = running(cloud, launch(on_shutdown=OnShutdown.STOP))
    assert "SeaBIOS" in cloud.console(machine)
    cloud.stop([machine])
    eventually(lambda: state(cloud, machine) == "stopped")
    assert cloud.console(machine) == ""
    assert cloud.console("us-central1-a/never") == cloud.console("nonsense") == ""


def test_secrets_go_to_google_alone(cloud: GcpCloud, double: GcpDouble) -> None:
    wanted = launch(
        user_data_template="#!/bin/sh\n: @@secret@@\n", template_values={"secret": "canary-7"}
    )
    double.add_fault(call="create", do="bad_request")
    with pytest.raises(CloudError) as raised:
        cloud.submit(wanted)
    chain, error = "", raised.value
    while error is not None:
        chain += f"{error!r} {error} {vars(error)}"
        error = error.__cause__  # type: ignore[assignment]
    assert "canary-7" not in chain
    assert "canary-7" not in f"{cloud.submit(wanted)}"


def test_secrets_stay_out_of_googles_own_log(cloud: GcpCloud) -> None:
    """Google's client logs whole requests and answers if somebody enables that."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(f"{record.getMessage()} {vars(record)}")  # type: ignore[method-assign]
    logger = logging.getLogger("google")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        running(
            cloud,
            launch(
                user_data_template="#!/bin/sh\n: @@secret@@\n",
                template_values={"secret": "canary-8"},
            ),
        )
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert "canary-8" not in "".join(said)


def test_create_that_takes_too_long_is_an_unknown_outcome(
    cloud: GcpCloud, double: GcpDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = launch()
    running(cloud, launch())
    double.add_fault(call="create", do="slow", seconds=3)
    monkeypatch.setattr("nbprov.clouds.gcp.instances.insert.CALL_SECONDS", 1.0)
    with pytest.raises(CloudError) as raised:
        cloud.submit(wanted)
    assert raised.value.failure.cause is Cause.UNKNOWN_OUTCOME
    monkeypatch.undo()
    assert isinstance(decided(cloud, cloud.submit(wanted)), Accepted)
    assert len([i for i in cloud.list("owner-1") if i.token == wanted.token]) == 1


@pytest.mark.parametrize(
    ("do", "cause", "words"),
    [
        ("credentials", Cause.CREDENTIALS, "gcloud auth application-default login"),
        ("balance", Cause.BALANCE, "billing account"),
        ("not_enabled", Cause.PERMISSION, "gcloud services enable compute.googleapis.com"),
        ("permission", Cause.PERMISSION, "compute.instances.create"),
        ("transient", Cause.TRANSIENT, ""),
        ("html", Cause.TRANSIENT, ""),
    ],
)
def test_check_says_what_is_wrong_and_what_to_do(
    cloud: GcpCloud, double: GcpDouble, do: str, cause: Cause, words: str
) -> None:
    double.add_fault(call="check", do=do)
    told = cloud.check()
    assert not told.enabled
    assert told.problem is not None
    assert told.problem.cause is cause
    assert words in told.problem.message


def test_check_tells_quota(cloud: GcpCloud, double: GcpDouble) -> None:
    double.tell("stock", project_quotas={"GPUS_ALL_REGIONS": 0.0})
    told = cloud.check()
    assert told.enabled
    assert told.account == "nbprov-test"
    assert any("GPUs in all regions: 0 of 0 used" in line for line in told.details)
    assert len(double.tell("calls")) == 1


def test_nothing_listens(cloud: GcpCloud) -> None:
    os.environ["NBPROV_GCP_ENDPOINT"] = "http://127.0.0.1:9"
    told = cloud.check()
    assert told.problem is not None
    assert told.problem.cause is Cause.TRANSIENT
    with pytest.raises(CloudError) as raised:
        cloud.submit(launch())
    assert raised.value.failure.cause is Cause.TRANSIENT
