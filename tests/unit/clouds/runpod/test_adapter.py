"""RunPod's adapter against its double, with simulated pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runpod_double import Double
from runpod_launches import L40S_ID, PRIVATE, a_launch, an_offer

from nbprov.clouds.api_keys import KeyAccess
from nbprov.clouds.runpod import make, pods
from nbprov.clouds.runpod.api import Api
from nbprov.clouds.runpod.provisioner import RunPodCloud
from nbprov.clouds.runpod.type_ids import TypeCatalog
from nbprov.model.failures import Cause, CloudError, Failure, Scope
from nbprov.model.launches import (
    Accepted,
    CreateOperation,
    Instance,
    InstanceState,
    Launch,
    OnShutdown,
    Refused,
    SideObject,
)
from nbprov.model.places import Market

SECONDS = 10.0


@pytest.fixture(scope="module")
def server() -> Iterator[Double]:
    made = Double()
    yield made
    made.close()


@pytest.fixture
def double(server: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    server.reset()
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    yield server
    assert server.problems() == []


@pytest.fixture
def cloud(double: Double) -> RunPodCloud:
    made = make()
    assert isinstance(made, RunPodCloud)
    return made


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def running(cloud: RunPodCloud, launch: Launch) -> Instance:
    pod_id = cloud.submit(launch).id
    return shown(cloud, launch.owner, pod_id, InstanceState.RUNNING)


def shown(cloud: RunPodCloud, owner: str, pod_id: str, state: InstanceState) -> Instance:
    found: Instance = eventually(
        lambda: next((i for i in cloud.list(owner) if i.id == pod_id and i.state is state), None)
    )
    return found


def failure(call: Callable[[], Any]) -> Failure:
    with pytest.raises(CloudError) as raised:
        call()
    assert PRIVATE not in str(raised.value)
    return raised.value.failure


def test_create_looks_before_it_makes_and_is_sent_once(cloud: RunPodCloud, double: Double) -> None:
    launch = a_launch()
    operation = cloud.submit(launch)
    assert [one["call"] for one in double.calls()] == [
        "listPods",
        "listGpuTypes",
        "createSecret",
        "createPod",
    ]
    assert make().submit(launch) == operation
    assert len(double.calls("createPod")) == 1
    assert cloud.poll(operation) == Accepted((operation.id,))
    assert cloud.poll(CreateOperation("runpod", launch.token, "forgotten")) == Accepted(
        (operation.id,)
    )
    assert isinstance(cloud.poll(CreateOperation("runpod", "f" * 32, "never")), Refused)


def test_catalogue_is_asked_once_an_hour(cloud: RunPodCloud, double: Double) -> None:
    for _ in range(3):
        cloud.submit(a_launch())
    assert len(double.calls("listGpuTypes")) == 1


def test_start_script_is_a_secret_and_in_no_list(cloud: RunPodCloud, double: Double) -> None:
    launch = a_launch()
    cloud.submit(launch)
    (asked,) = double.calls("createPod")
    name = pods.secret_name(launch.owner, launch.token)
    assert double.control("secrets") == [name]
    assert asked["body"]["env"]["NBPROV_START"] == "•••"
    told = cloud._api().get("/v2/pods", seconds=5)
    assert told["pods"][0]["env"]["NBPROV_START"] == pods.placeholder(name)


@pytest.mark.parametrize("answer", ["denied", "missing"])
def test_key_that_may_not_make_secrets_puts_it_into_the_environment(
    cloud: RunPodCloud, double: Double, answer: str
) -> None:
    double.set(secrets=answer)
    cloud.submit(a_launch())
    told = cloud._api().get("/v2/pods", seconds=5)
    assert "RUNPOD_SECRET" not in told["pods"][0]["env"]["NBPROV_START"]
    if answer == "missing":
        assert cloud.side_objects("owner-1") == []
    else:  # machines of an earlier key are not reported as gone
        assert failure(lambda: cloud.side_objects("owner-1")).cause is Cause.PERMISSION


def test_secret_goes_with_its_pod_or_with_the_refusal(cloud: RunPodCloud, double: Double) -> None:
    double.add_fault("capacity")
    assert failure(lambda: cloud.submit(a_launch())).cause is Cause.CAPACITY
    assert double.control("secrets") == []
    operation = cloud.submit(a_launch())
    cloud.terminate([operation.id])
    assert (double.control("secrets"), cloud.list("owner-1")) == ([], [])


def test_a_slow_service_does_not_keep_pods_from_being_ended(
    cloud: RunPodCloud, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbprov.clouds.runpod.provisioner.CALL_SECONDS", 4.5)
    monkeypatch.setattr("nbprov.clouds.runpod.pod_calls.LOOK_SECONDS", 0.5)
    made = [cloud.submit(a_launch()).id for _ in range(3)]
    for call in ("getPod", "listPods", "listSecrets"):
        double.add_fault("slow", call=call, times=9, seconds=1.5)
    double.add_fault("slow", call="deletePod", times=9, seconds=0.5)
    began = time.monotonic()
    cloud.terminate(made)
    assert time.monotonic() - began < 4.5
    assert len(double.calls("deletePod")) == 3


def test_the_secrets_of_several_pods_go_with_them(cloud: RunPodCloud, double: Double) -> None:
    made = [cloud.submit(a_launch()).id for _ in range(3)]
    cloud.terminate([*made, "gone"])
    assert (double.control("secrets"), cloud.list("owner-1")) == ([], [])
    assert len(double.calls("getPod")) == 0


def test_a_kind_that_is_listed_under_another_id_goes_by_that() -> None:
    kinds = TypeCatalog()
    old, new = (
        {"id": id, "name": "L40S", "memory": 48} for id in ("NVIDIA L40S", "NVIDIA L40S v2")
    )
    kinds.learn([old])
    kinds.learn([new])
    nobody = Api(KeyAccess("http://127.0.0.1:9", "k" * 20, "test"))
    assert kinds.gpu_id(nobody, "L40S", seconds=1.0) == "NVIDIA L40S v2"
    kinds.learn([new, old])
    assert kinds.gpu_id(nobody, "L40S", seconds=1.0) == "NVIDIA L40S v2", (
        "what is there still is kept"
    )


def test_secret_of_a_living_pod_is_not_removed(cloud: RunPodCloud, double: Double) -> None:
    launch = a_launch()
    operation = cloud.submit(launch)
    (left,) = cloud.side_objects("owner-1")
    assert (left.kind, left.token, left.shared) == ("secret", launch.token, False)
    assert cloud.side_objects("owner-2") == []
    assert cloud.remove([left]) == [left]
    double.add_fault("transient", call="listSecrets")  # while the pod is ended, so the secret stays
    cloud.terminate([operation.id])
    assert cloud.side_objects("owner-1") == [left]
    assert cloud.remove([left, replace(left, id="gone")]) == []
    assert cloud.side_objects("owner-1") == []


def test_secret_of_a_create_whose_answer_was_lost_stays(cloud: RunPodCloud, double: Double) -> None:
    launch = a_launch()
    double.add_fault("lose_answer")
    assert failure(lambda: cloud.submit(launch)).cause is Cause.UNKNOWN_OUTCOME
    assert len(double.control("secrets")) == 1
    assert [i.token for i in cloud.list("owner-1")] == [launch.token]


def test_secret_that_an_earlier_try_made_is_used(cloud: RunPodCloud, double: Double) -> None:
    launch = a_launch()
    double.add_fault("lose_answer", call="createSecret")
    assert failure(lambda: cloud.submit(launch)).cause is Cause.TRANSIENT
    assert cloud.submit(launch).token == launch.token
    assert len(double.control("secrets")) == 1


def test_500_after_a_create_is_an_unknown_outcome_and_found_again(
    cloud: RunPodCloud, double: Double
) -> None:
    launch = a_launch()
    double.add_fault("half_made")
    assert failure(lambda: cloud.submit(launch)).cause is Cause.UNKNOWN_OUTCOME
    assert [i.token for i in cloud.list("owner-1")] == [launch.token]
    assert cloud.submit(launch).id == cloud.list("owner-1")[0].id
    assert len(double.calls("createPod")) == 1


def test_pod_that_fails_late_is_stopped_with_a_reason(cloud: RunPodCloud, double: Double) -> None:
    double.add_fault("late_failure")
    operation = cloud.submit(a_launch())
    assert "error" in shown(cloud, "owner-1", operation.id, InstanceState.STOPPED).reason


def test_pod_that_is_hidden_at_first_is_accepted_all_the_same(
    cloud: RunPodCloud, double: Double
) -> None:
    double.add_fault("hide", seconds=60)
    operation = cloud.submit(a_launch())
    assert cloud.list("owner-1") == []
    assert cloud.poll(operation) == Accepted((operation.id,))


def test_all_pages_are_listed(cloud: RunPodCloud, double: Double) -> None:
    made = {cloud.submit(a_launch()).id for _ in range(5)}
    double.set(page=2)
    assert {i.id for i in cloud.list("owner-1")} == made
    assert [one["params"].get("cursor") for one in double.calls("listPods")[-3:]] == [
        None,
        "c2",
        "c4",
    ]


@pytest.mark.parametrize(
    ("launch", "cause"),
    [
        (a_launch(count=2), Cause.BAD_REQUEST),
        (a_launch(an_offer(market=Market.SPOT)), Cause.SPOT),
        (a_launch(an_offer("8x_B200_SECURE")), Cause.NOT_OFFERED),
        (a_launch(an_offer("m5.large")), Cause.NOT_OFFERED),
        (a_launch(an_offer(zone="", region="XX")), Cause.NOT_OFFERED),
        (a_launch(an_offer("cpu5c-2-4"), on_shutdown=OnShutdown.STOP), Cause.NOT_OFFERED),
        (a_launch(image="ami-1"), Cause.BAD_REQUEST),
        (a_launch(answer_by=1.0), Cause.TIMEOUT),
        (a_launch(an_offer("cpu5c-2-4"), disk_gb=100), Cause.BAD_REQUEST),
        (a_launch(tags={f"label-{n}": "x" * 60_000 for n in range(2)}), Cause.BAD_REQUEST),
    ],
)
def test_what_runpod_cannot_make_is_refused_and_leaves_nothing(
    cloud: RunPodCloud, double: Double, launch: Launch, cause: Cause
) -> None:
    assert failure(lambda: cloud.submit(launch)).cause is cause
    assert (cloud.list("owner-1"), double.control("secrets")) == ([], [])


def test_any_data_centre_of_a_country_will_do(cloud: RunPodCloud, double: Double) -> None:
    double.set_stock(0, kind=L40S_ID, centre="EUR-IS-1")
    one = running(cloud, a_launch(an_offer(region="IS", zone="")))
    assert double.calls("createPod")[0]["body"]["dataCenterIds"] == [
        f"EUR-IS-{n}" for n in range(1, 6)
    ]
    assert str(one.place) == "runpod/IS/EUR-IS-2"


def test_cpu_pods_are_made_and_not_stopped(cloud: RunPodCloud) -> None:
    one = running(cloud, a_launch(an_offer("cpu5c-2-4")))
    assert one.instance_type == "cpu5c-2-4"
    told = failure(lambda: cloud.stop([one.id]))
    assert (told.cause, "keeps no disk" in told.message) == (Cause.BAD_REQUEST, True)


def test_address_changes_at_every_start(cloud: RunPodCloud) -> None:
    one = running(cloud, a_launch())
    cloud.stop([one.id])
    stopped = shown(cloud, "owner-1", one.id, InstanceState.STOPPED)
    assert (stopped.host, stopped.port, stopped.hourly) == ("", 0, None)
    cloud.start([one.id])
    again = shown(cloud, "owner-1", one.id, InstanceState.RUNNING)
    assert again.port != one.port
    cloud.start([one.id])  # already running


def test_start_without_a_gpu_is_out_of_stock_and_stopped_again(
    cloud: RunPodCloud, double: Double
) -> None:
    one = running(cloud, a_launch())
    cloud.stop([one.id])
    double.set(zero_gpu=True)
    assert failure(lambda: cloud.start([one.id])).cause is Cause.CAPACITY
    assert shown(cloud, "owner-1", one.id, InstanceState.STOPPED)
    double.set(zero_gpu=False)
    double.set_stock(0, kind=L40S_ID)
    told = failure(lambda: cloud.start([one.id]))
    assert (told.cause, "not enough free GPUs" in told.message) == (Cause.CAPACITY, True)


def test_pod_that_lost_its_gpu_behind_our_back_says_so(cloud: RunPodCloud, double: Double) -> None:
    one = running(cloud, a_launch())
    double.control("pods", {"id": one.id, "gpus": 0})
    assert shown(cloud, "owner-1", one.id, InstanceState.RUNNING).reason == pods.NO_GPU


def test_one_that_cannot_be_ended_keeps_no_other_from_it(
    cloud: RunPodCloud, double: Double
) -> None:
    first, second = cloud.submit(a_launch()), cloud.submit(a_launch())
    double.add_fault("transient", call="deletePod", where={"id": first.id})
    assert failure(lambda: cloud.terminate([first.id, second.id])).cause is Cause.TRANSIENT
    assert [i.id for i in cloud.list("owner-1")] == [first.id]


def test_pod_whose_launch_cannot_be_learnt_is_ended_all_the_same(
    cloud: RunPodCloud, double: Double
) -> None:
    operation = cloud.submit(a_launch())
    double.add_fault("transient", call="getPod")
    cloud.terminate([operation.id])
    assert cloud.list("owner-1") == []


def test_listing_that_fails_is_not_an_empty_listing(cloud: RunPodCloud, double: Double) -> None:
    double.add_fault("html", call="listPods")
    assert failure(lambda: cloud.list("owner-1")).cause is Cause.TRANSIENT


def test_ports_are_those_of_the_launch(cloud: RunPodCloud) -> None:
    one = running(cloud, a_launch(ports=((8888, 8889),)))
    cloud.open_ports([one.id], [(8888, 8889)])
    assert "restart" in failure(lambda: cloud.open_ports([one.id], [(9000, 9000)])).message
    cloud.close_ports([one.id], [(8888, 8889)])


def test_console_is_what_the_log_holds_now(cloud: RunPodCloud) -> None:
    one = running(cloud, a_launch())
    started = time.monotonic()
    assert "create container runpod/pytorch" in cloud.console(one.id)
    assert time.monotonic() - started < 5.0
    assert failure(lambda: cloud.console("nope")).cause is Cause.NOT_OFFERED


def test_price_is_of_the_moment(cloud: RunPodCloud, double: Double) -> None:
    gpu, cpu = a_launch().candidate, a_launch(an_offer("cpu5c-4-8")).candidate
    told = [cloud.quote(candidate) for candidate in (gpu, cpu)]
    assert [quote.hourly for quote in told if quote is not None] == [990_000, 120_000]
    double.set(price_factor=2.0)
    again = cloud.quote(gpu)
    assert again is not None
    assert again.hourly == 1_980_000
    assert cloud.quote(a_launch(an_offer("1x_B200_SECURE")).candidate) is None


def test_check_tells_account_source_and_money(cloud: RunPodCloud) -> None:
    told = cloud.check()
    assert (told.enabled, told.problem, told.credential) == (True, None, "RUNPOD_API_KEY (…0001)")
    assert told.account.startswith("key-")
    assert told.details[:3] == (
        "balance $25.00",
        "spending $0.00 an hour now",
        "spend limit $80.00 an hour",
    )


def test_check_does_without_the_balance(cloud: RunPodCloud, double: Double) -> None:
    double.add_fault("html", call="graphql")
    told = cloud.check()
    assert (told.enabled, told.details[0]) == (True, "the balance is not known")


def test_check_names_what_is_wrong(
    cloud: RunPodCloud, double: Double, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    double.set(balance=0)
    told = cloud.check()
    assert not told.enabled
    assert told.problem is not None
    assert told.problem.cause is Cause.BALANCE
    double.add_fault("permission", call="listPods")
    assert (refused := cloud.check().problem) is not None
    assert refused.cause is Cause.PERMISSION
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_WRONG")
    assert (wrong := cloud.check().problem) is not None
    assert wrong.cause is Cause.CREDENTIALS
    monkeypatch.delenv("RUNPOD_API_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (missing := cloud.check().problem) is not None
    assert (missing.cause, "RUNPOD_API_KEY" in missing.message) == (Cause.CREDENTIALS, True)


def test_unknown_prose_blocks_one_offer_only(cloud: RunPodCloud, double: Double) -> None:
    double.add_fault("rule")
    told = failure(lambda: cloud.submit(a_launch()))
    assert (told.cause, told.scope, told.message) == (
        Cause.UNKNOWN,
        Scope.OFFER,
        "request could not be processed",
    )


def test_side_objects_of_nobody_are_nothing(cloud: RunPodCloud, double: Double) -> None:
    assert cloud.remove([]) == []
    assert double.calls() == []
    double.add_fault("transient", call="listSecrets")
    assert failure(lambda: cloud.side_objects("owner-1")).cause is Cause.TRANSIENT
    assert cloud.remove([SideObject("runpod", "", "secret", "nope", "a" * 32)]) == []
