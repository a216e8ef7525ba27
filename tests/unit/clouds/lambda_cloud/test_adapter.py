"""Lambda's adapter over its double: requests, answers, and its own refusals."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lambda_double import LambdaDouble
from lambda_types import KEY
from web_double import WebDouble, json_answer

from nbprov.clouds.lambda_cloud import images, instances, make
from nbprov.clouds.lambda_cloud.account import find_access
from nbprov.clouds.lambda_cloud.api import call
from nbprov.clouds.lambda_cloud.errors import MOST_PAUSE
from nbprov.clouds.lambda_cloud.provisioner import LambdaCloud
from nbprov.clouds.lambda_cloud.rate_limit import LaunchPace
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    SideObject,
)
from nbprov.model.money import usd
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market, Place
from nbprov.model.resources import Request
from nbprov.model.stock import StockLevel

FAST = LaunchPace(between_launches=0.0, types_kept=0.0)
TYPE, REGION = "gpu_1x_a100_sxm4", "us-west-2"


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[LambdaDouble]:
    with LambdaDouble() as made:
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebDouble]:
    """Yield a service that answers as a test says, in place of the double."""
    with WebDouble() as made:
        monkeypatch.setenv("LAMBDA_API_BASE_URL", made.url("/api/v1"))
        monkeypatch.setenv("LAMBDA_API_KEY", KEY)
        made.on(
            "/api/v1/ssh-keys",
            json_answer(
                {"data": [{"id": "k", "name": "nbprov-o1", "public_key": "ssh-ed25519 AAAA"}]}
            ),
        )
        yield made


@pytest.fixture
def cloud() -> LambdaCloud:
    return LambdaCloud(FAST)


def offer(
    instance_type: str = TYPE, region: str = REGION, market: Market = Market.ON_DEMAND
) -> Offer:
    return Offer("lambda", region, "", instance_type, "A100", 1, 30, 200, market, usd("1.99"))


def launch(**changes: Any) -> Launch:
    what = changes.pop("offer", offer())
    made = Launch(
        uuid.uuid4().hex,
        "o1",
        "r1",
        "dev",
        Candidate(what, Request(), 0),
        1,
        10,
        user_data_template="#!/bin/sh\n: @@word@@\n",
    )
    return replace(made, **{"template_values": {"word": "filled"}, **changes})


def refused(function: Any, *args: Any) -> Failure:
    with pytest.raises(CloudError) as raised:
        function(*args)
    return raised.value.failure


def alone(cloud: LambdaCloud) -> Instance:
    (machine,) = cloud.list("o1")
    return machine


# ---------------------------------------------------------------- who is asked


def test_without_a_key_it_is_disabled_and_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    told = make().check()
    assert not told.enabled
    assert told.problem is not None
    assert told.problem.cause is Cause.CREDENTIALS
    assert "LAMBDA_API_KEY" in told.problem.message


def test_a_key_is_read_from_the_file_that_other_clients_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".lambda_cloud").mkdir()
    (tmp_path / ".lambda_cloud" / "lambda_keys").write_text("api_key = secret_from_file_1234\n")
    access = find_access()
    assert (access.key, access.masked) == (
        "secret_from_file_1234",
        "~/.lambda_cloud/lambda_keys (…1234)",
    )
    assert "secret" not in repr(access)


def test_the_key_is_not_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMBDA_API_KEY", KEY)
    monkeypatch.setenv("LAMBDA_API_BASE_URL", "http://lambda.example/api/v1")
    assert refused(find_access).cause is Cause.BAD_REQUEST


def test_check_says_whose_account_it_is_and_who_may_reach_ssh(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    told = cloud.check()
    assert told.enabled
    assert told.account.startswith("key-")
    assert told.credential == f"LAMBDA_API_KEY (…{KEY[-4:]})"
    assert "machines in the account: 0" in told.details
    assert "ssh (22/tcp) is open to 0.0.0.0/0" in told.details
    assert KEY not in str(told)


def test_a_wrong_key_is_a_matter_of_credentials(
    double: LambdaDouble, cloud: LambdaCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMBDA_API_KEY", "another_key_that_is_long")
    told = cloud.check()
    assert told.problem is not None
    assert (told.problem.cause, told.problem.code) == (Cause.CREDENTIALS, "global/invalid-api-key")


def test_rules_that_keep_ssh_out_are_named() -> None:
    rule = {
        "protocol": "tcp",
        "port_range": [443, 443],
        "source_network": "0.0.0.0/0",
        "description": "",
    }
    assert instances.ssh_rule([rule]).startswith("no inbound rule allows ssh")
    everything = {"protocol": "all", "source_network": "198.51.100.7", "description": ""}
    assert (
        instances.ssh_rule([rule, everything, {**rule, "port_range": [20, 30]}])
        == "ssh (22/tcp) is open to 198.51.100.7, 0.0.0.0/0"
    )


def test_nothing_heavy_is_imported_with_the_adapter() -> None:
    code = (
        "import sys, nbprov.clouds.lambda_cloud.provisioner as p; p.LambdaCloud(); print([m "
        "for m in ('requests', 'cryptography') if m in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.strip() == "[]"


# ---------------------------------------------------------------- what is sent


def test_a_launch_says_all_that_lambda_takes(double: LambdaDouble, cloud: LambdaCloud) -> None:
    tags = {
        "Team/ML": "vision",
        "nbprov-login": "me",
        "nbprov-ssh-port": "2222",
        "nbprov-token": "not mine",
    }
    made = launch(tags=tags, image="lambda-stack-24-04", name="my   cluster" + "x" * 80)
    operation = cloud.submit(made)
    (asked,) = double.asked("launch")
    body = asked["body"]
    assert (body["region_name"], body["instance_type_name"], body["image"]) == (
        REGION,
        TYPE,
        {"family": "lambda-stack-24-04"},
    )
    assert body["ssh_key_names"] == ["nbprov-o1"]
    assert len(body["name"]) == 64
    said = {tag["key"]: tag["value"] for tag in body["tags"]}
    assert said == {
        "team-ml": "vision",
        "nbprov-login": "me",
        "nbprov-ssh-port": "2222",
        "nbprov-owner": "o1",
        "nbprov-token": made.token,
    }
    machine = alone(cloud)
    assert cloud.poll(operation) == Accepted((machine.id,))
    assert (machine.user, machine.token, machine.hourly, machine.place) == (
        "me",
        made.token,
        usd("1.99"),
        Place("lambda", REGION),
    )


def test_a_running_machine_has_an_address(double: LambdaDouble, cloud: LambdaCloud) -> None:
    double.tell("timing", boot=0.0)
    cloud.submit(launch())
    machine = alone(cloud)
    assert (machine.state, machine.host, machine.port, machine.user) == (
        InstanceState.RUNNING,
        "127.0.0.1",
        22,
        "ubuntu",
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("nbprov-run", "nbprov-run"),
        ("Größe", "gr--e"),
        ("1st", "x1st"),
        ("a", "ax"),
        ("", "xx"),
        ("lambda-ai-x", "xlambda-ai-x"),
        ("k" * 99, "k" * 55),
    ],
)
def test_labels_become_tags_that_lambda_takes(name: str, key: str) -> None:
    assert instances.clean_key(name) == key
    assert len(instances.tags({name: "v" * 200})[0]["value"]) == 128


def test_what_nbprov_reads_back_is_never_cut_nor_displaced() -> None:
    assert instances.tags(
        {"NBPROV-TOKEN": "theirs", "nbprov-token": "ours"}, exact=("nbprov-token",)
    ) == [{"key": "nbprov-token", "value": "ours"}]
    assert (
        refused(lambda: instances.tags({"nbprov-login": "x" * 200}, exact=("nbprov-login",))).cause
        is Cause.BAD_REQUEST
    )


def test_an_image_is_an_id_or_a_family() -> None:
    assert images.specification("0920582c7ff041399e34823a0be62549") == {
        "id": "0920582c7ff041399e34823a0be62549"
    }
    assert images.specification("family:ubuntu-lts") == {"family": "ubuntu-lts"}
    assert refused(images.specification, "docker:nvidia/cuda").cause is Cause.BAD_REQUEST


def test_what_lambda_does_not_sell_is_not_asked_for(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    assert refused(cloud.submit, launch(offer=offer(market=Market.SPOT))).cause is Cause.SPOT
    assert refused(cloud.submit, launch(count=2)).cause is Cause.BAD_REQUEST
    assert refused(cloud.submit, launch(ports=((80, 80),))).cause is Cause.BAD_REQUEST
    assert refused(cloud.submit, launch(answer_by=time.time() - 1)).cause is Cause.TIMEOUT
    assert refused(cloud.stop, ["x"]).cause is Cause.BAD_REQUEST
    assert double.told("calls") == []


# ---------------------------------------------------------------- pace


def test_launches_keep_their_distance_without_sleeping(double: LambdaDouble) -> None:
    slow = LambdaCloud(LaunchPace(between_launches=60.0))
    slow.submit(launch())
    started = time.monotonic()
    failure = refused(LambdaCloud(LaunchPace(between_launches=60.0)).submit, launch())
    assert time.monotonic() - started < 5
    assert (failure.cause, failure.code) == (Cause.RATE_LIMIT, "own-pace")
    assert failure.retry_after is not None
    assert 50 < failure.retry_after <= 60.1
    assert len(double.asked("launch")) == 1


def test_lambdas_own_limit_is_twelve_seconds_where_it_says_nothing(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    assert LaunchPace().between_launches == 12.0
    double.add_fault("launch", "rate_limit")
    failure = refused(cloud.submit, launch())
    assert (failure.cause, failure.retry_after) == (Cause.RATE_LIMIT, 12.0)


def test_stock_and_prices_are_one_question_for_a_moment(double: LambdaDouble) -> None:
    cloud = LambdaCloud(LaunchPace(types_kept=60.0))
    cloud.stock([offer()], 1)
    cloud.quote(Candidate(offer(), Request(), 0))
    assert len(double.asked("types")) == 1


# ---------------------------------------------------------------- the key


def test_one_key_an_owner_serves_all_launches_and_opens_nothing(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    first, second = launch(public_key="ssh-ed25519 MINE me"), launch()
    cloud.submit(first)
    LambdaCloud(FAST).submit(second)
    (added,) = double.asked("add_key")
    assert added["body"]["public_key"].startswith("ssh-ed25519 ")
    assert "MINE" not in added["body"]["public_key"]
    (key,) = cloud.side_objects("o1")
    assert (key.kind, key.shared) == ("key", True)
    assert cloud.side_objects("o2") == []
    assert cloud.remove([key]) == [key], "in use"
    cloud.terminate([machine.id for machine in cloud.list("o1")])
    assert cloud.remove([key]) == []
    assert cloud.remove([key]) == []
    assert cloud.side_objects("o1") == []
    cloud.submit(launch())
    assert len(double.asked("add_key")) == 2


def test_a_key_that_somebody_took_away_is_added_again(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    cloud.submit(launch())
    cloud.terminate([alone(cloud).id])
    (key,) = cloud.side_objects("o1")
    assert cloud.list("o1") == []
    call(find_access(), "DELETE", f"/ssh-keys/{key.id}", seconds=10)
    again = launch()
    assert refused(cloud.submit, again).cause is Cause.TRANSIENT
    cloud.submit(again)
    assert alone(cloud).token == again.token


# ---------------------------------------------------------------- what may have happened


@pytest.mark.parametrize("fault", ["lose_answer", "half_made", "html"])
def test_an_open_outcome_is_said_and_a_repeat_looks_first(
    double: LambdaDouble, cloud: LambdaCloud, fault: str
) -> None:
    made = launch()
    double.add_fault("launch", fault)
    assert refused(cloud.submit, made).cause is Cause.UNKNOWN_OUTCOME
    operation = LambdaCloud(FAST).submit(made)
    assert operation.id == alone(cloud).id
    assert len(double.asked("launch")) == (2 if fault == "html" else 1), (
        "a gateway's page came without a machine"
    )


@pytest.mark.parametrize(
    ("creates", "cause"), [(True, Cause.UNKNOWN_OUTCOME), (False, Cause.TRANSIENT)]
)
def test_no_call_waits_longer_than_it_may(
    double: LambdaDouble, creates: bool, cause: Cause
) -> None:
    double.add_fault("list", "slow", seconds=60)
    started = time.monotonic()
    failure = refused(
        lambda: call(find_access(), "GET", "/instances", seconds=0.3, creates=creates)
    )
    assert (failure.cause, failure.code) == (cause, "no-answer")
    assert time.monotonic() - started < 5


def test_a_refused_connection_made_nothing(
    cloud: LambdaCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebDouble() as gone:
        base = gone.url("/api/v1")
    monkeypatch.setenv("LAMBDA_API_BASE_URL", base)
    monkeypatch.setenv("LAMBDA_API_KEY", KEY)
    assert refused(cloud.submit, launch()).cause is Cause.TRANSIENT
    assert refused(cloud.list, "o1").cause is Cause.TRANSIENT


@pytest.mark.parametrize("data", [{"instance_ids": []}, {"instance_ids": [7]}, {}, None])
def test_an_acceptance_without_a_machine_is_an_open_outcome(
    web: WebDouble, cloud: LambdaCloud, data: Any
) -> None:
    web.on("/api/v1/instance-operations/launch", json_answer({"data": data}))
    assert refused(cloud.submit, launch()).cause is Cause.UNKNOWN_OUTCOME


@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "global/unknown"), (400, "global/internal-error"), (408, "global/unknown")],
)
def test_a_launch_that_broke_inside_is_an_open_outcome(
    web: WebDouble, cloud: LambdaCloud, status: int, code: str
) -> None:
    broke = json_answer({"error": {"code": code, "message": "An internal error occurred."}}, status)
    web.on("/api/v1/instance-operations/launch", broke)
    web.on("/api/v1/instance-operations/terminate", broke)
    assert refused(cloud.submit, launch()).cause is Cause.UNKNOWN_OUTCOME
    assert refused(cloud.terminate, ["i"]).cause is not Cause.UNKNOWN_OUTCOME


def test_a_refusal_that_repeats_the_start_script_tells_none_of_it(
    web: WebDouble, cloud: LambdaCloud
) -> None:
    key = "-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nQUFBQUFCQmJtOXVaUUFB\n-----END KEY-----"
    body = {
        "error": {"code": "global/invalid-parameters", "message": f"bad: {key}"},
        "field_errors": {"user_data": {"message": key}},
    }
    web.on("/api/v1/instance-operations/launch", json_answer(body, 400))
    told = refused(cloud.submit, launch(template_values={"word": key}))
    assert told.cause is Cause.BAD_REQUEST
    assert told.message.startswith("bad: •••")
    assert not any(line in told.message for line in key.splitlines())


def test_a_pause_that_lambda_asks_for_is_heeded_within_reason(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    double.add_fault("list", "rate_limit", seconds=86400.0)
    assert refused(cloud.list, "o1").retry_after == MOST_PAUSE


def test_one_that_is_gone_keeps_no_other_from_being_ended(
    web: WebDouble, cloud: LambdaCloud
) -> None:
    tags = [{"key": "nbprov-owner", "value": "o1"}]
    gone = json_answer(
        {"error": {"code": "global/not-found", "message": "The requested resource was not found."}},
        404,
    )
    web.on(
        "/api/v1/instance-operations/terminate",
        gone,
        json_answer({"data": {"terminated_instances": []}}),
    )
    web.on(
        "/api/v1/instances",
        json_answer({"data": [{"id": "there", "status": "active", "tags": tags}]}),
    )
    cloud.terminate(["away", "there"])
    assert [one.json["instance_ids"] for one in web.asked if one.path.endswith("/terminate")] == [
        ["away", "there"],
        ["there"],
    ]


def test_half_a_list_is_no_list(web: WebDouble, cloud: LambdaCloud) -> None:
    web.on(
        "/api/v1/instances",
        json_answer({"data": [{"status": "active"}]}),
        json_answer({"data": {}}),
        json_answer({"machines": []}),
    )
    for _ in range(3):
        assert refused(cloud.list, "o1").cause is Cause.TRANSIENT


def test_a_status_that_nobody_knows_is_unknown_and_billed(
    web: WebDouble, cloud: LambdaCloud
) -> None:
    tags = [{"key": "nbprov-owner", "value": "o1"}]
    web.on(
        "/api/v1/instances",
        json_answer({"data": [{"id": "i", "status": "hibernating", "tags": tags}]}),
    )
    machine = alone(cloud)
    assert (machine.state, machine.state.is_billed, machine.reason) == (
        InstanceState.UNKNOWN,
        True,
        "Lambda says: hibernating",
    )
    assert (machine.host, machine.port) == ("", 0)


def test_the_key_is_in_no_message(web: WebDouble, cloud: LambdaCloud) -> None:
    web.on(
        "/api/v1/instances",
        json_answer({"error": {"code": "global/forbidden", "message": f"{KEY} may not"}}, 403),
    )
    failure = refused(cloud.list, "o1")
    assert failure.cause is Cause.PERMISSION
    assert KEY not in str(failure)


def test_a_forgotten_operation_is_answered_from_the_list(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    made = launch()
    operation = cloud.submit(made)
    assert cloud.poll(CreateOperation("lambda", made.token, "?")) == Accepted((operation.id,))


# ---------------------------------------------------------------- machines


def test_late_failure_and_preemption_are_told_with_lambdas_word(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    double.add_fault("launch", "late_failure")
    cloud.submit(launch())
    sick = alone(cloud)
    assert (sick.state, sick.reason) == (InstanceState.UNKNOWN, "Lambda says: unhealthy")
    double.tell("preempt", ids=[sick.id])
    assert (alone(cloud).state, alone(cloud).reason) == (
        InstanceState.ENDING,
        "Lambda says: preempted",
    )


def test_ending_passes_over_what_is_not_there(double: LambdaDouble, cloud: LambdaCloud) -> None:
    cloud.submit(launch())
    machine = alone(cloud)
    cloud.terminate(["0" * 32, machine.id])
    assert cloud.list("o1") == []
    cloud.terminate([machine.id])
    assert [len(asked["body"]["instance_ids"]) for asked in double.asked("terminate")] == [2, 1, 1]


def test_another_refusal_of_an_end_is_told(double: LambdaDouble, cloud: LambdaCloud) -> None:
    cloud.submit(launch())
    double.add_fault("terminate", "permission")
    assert refused(cloud.terminate, [alone(cloud).id]).cause is Cause.PERMISSION
    double.add_fault("terminate", "transient")
    cloud.terminate([alone(cloud).id])
    assert cloud.list("o1") == []


# ---------------------------------------------------------------- stock and prices


def test_stock_is_yes_or_no_a_region(double: LambdaDouble, cloud: LambdaCloud) -> None:
    asked = [
        offer(),
        offer(region="us-east-1"),
        offer("gpu_1x_a10"),
        offer("gpu_9x_nothing"),
        offer(market=Market.SPOT),
    ]
    said = {
        (stock.pool.instance_type, stock.pool.region): stock.level
        for stock in cloud.stock(asked, 1)
    }
    assert said == {
        (TYPE, REGION): StockLevel.MEDIUM,
        (TYPE, "us-east-1"): StockLevel.NONE,
        ("gpu_1x_a10", REGION): StockLevel.NONE,
        ("gpu_9x_nothing", REGION): StockLevel.NONE,
    }
    double.tell("stock", instance_type=TYPE, region=REGION, left=0)
    assert [stock.level for stock in cloud.stock([offer()], 1)] == [StockLevel.NONE]
    assert cloud.stock([offer()], 2) == ()


def test_a_price_is_asked_of_the_list(double: LambdaDouble, cloud: LambdaCloud) -> None:
    quote = cloud.quote(Candidate(offer("gpu_8x_h100_sxm5"), Request(), 0))
    assert quote is not None
    assert quote.hourly == usd("31.92")
    assert cloud.quote(Candidate(offer("gpu_9x_nothing"), Request(), 0)) is None


def test_side_objects_of_another_kind_are_not_touched(
    double: LambdaDouble, cloud: LambdaCloud
) -> None:
    assert cloud.remove([SideObject("lambda", "", "volume", "v")]) == []
    assert double.told("calls") == []
