"""The faults in the market file of the `local` cloud happen."""

from __future__ import annotations

import time
from dataclasses import replace
from uuid import uuid4

import pytest
from clouds_under_test import LocalUnderTest, eventually

from nbprov.clouds.contract.checks import answers, refusal
from nbprov.model.failures import Cause, CloudError, Scope
from nbprov.model.launches import InstanceState
from nbprov.model.places import Market

pytestmark = pytest.mark.machine


def test_first_two_are_refused_then_one_comes(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "refuse_later"\nzone = "here-a"\nfirst = 2\n')
    causes = [refusal(local, local.launch()).cause for _ in range(2)]
    assert causes == [Cause.CAPACITY] * 2
    assert len(local.running(local.launch())) == 1


def test_a_machine_without_ssh_runs_and_can_be_ended(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "no_ssh"\n')
    launch = local.launch()
    (machine,) = local.running(launch)
    assert machine.port
    assert not answers(machine)
    local.cloud.terminate([machine.id])
    local.gone(launch.owner, [machine.id])
    assert local.traces([machine.id]) == []


def test_a_machine_dies_in_its_boot(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "die"\nseconds = 0.1\n')
    launch = local.launch()
    ids = local.accepted(local.cloud.submit(launch))
    shown = local.in_state(launch.owner, ids[0], InstanceState.GONE)
    assert "died" in shown.reason
    assert local.traces(ids) == []


def test_a_stuck_machine_stays_pending_until_it_is_ended(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "stuck"\n')
    launch = local.launch()
    ids = local.accepted(local.cloud.submit(launch))
    assert [i.state for i in local.cloud.list(launch.owner)] == [InstanceState.PENDING]
    local.cloud.terminate(ids)
    local.gone(launch.owner, ids)


def test_spot_machines_are_taken_back_and_others_are_not(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "preempt"\nseconds = 0.2\n')
    (stays,) = local.running(local.launch())
    (spot,) = local.running(local.launch(market=Market.SPOT))
    assert spot.spot
    shown = local.in_state("owner-1", spot.id, InstanceState.GONE)
    assert "taken back" in shown.reason
    local.in_state("owner-1", stays.id, InstanceState.RUNNING)


def test_too_many_creates_in_a_second_are_refused_with_a_pause(local: LocalUnderTest) -> None:
    local.write(end="0\ncreates_per_second = 2")
    for _ in range(2):
        local.accepted(local.cloud.submit(local.launch()))
    failure = refusal(local, local.launch())
    assert failure.cause is Cause.RATE_LIMIT
    assert failure.retry_after is not None
    assert 0 < failure.retry_after <= 1


def test_a_slow_read_makes_a_create_too_late(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "slow_start"\nseconds = 0.2\n')
    launch = replace(local.launch(), answer_by=time.time() + 0.15)
    assert refusal(local, launch).code == "TooLate"
    assert local.cloud.list(launch.owner) == []


def test_a_slow_answer_comes_after_the_work(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "slow_answer"\nseconds = 2\nfirst = 1\n')
    launch = replace(local.launch(), answer_by=time.time() + 1.9)
    operation = local.cloud.submit(launch)
    assert time.time() > launch.answer_by, (
        "its answer came when it was no longer wanted, yet the work was begun in time"
    )
    assert len(local.accepted(operation)) == 1


def test_a_listing_that_fails_raises(local: LocalUnderTest) -> None:
    local.add('[[faults]]\ndo = "refuse"\ncall = "list"\ncode = "InternalError"\nfirst = 1\n')
    with pytest.raises(CloudError) as raised:
        local.cloud.list("owner-1")
    assert raised.value.failure.cause is Cause.TRANSIENT
    assert local.cloud.list("owner-1") == []


def test_quota_counts_accelerators_of_the_region(local: LocalUnderTest) -> None:
    local.add('[[quota]]\nregion = "here"\nfamily = "A100"\nlimit = 2\n')
    launch = local.launch(count=2)
    machines = local.running(launch)
    failure = refusal(local, local.launch())
    assert (failure.cause, failure.limit_is_zero) == (Cause.QUOTA, False)
    local.cloud.stop([machines[0].id])
    local.in_state(launch.owner, machines[0].id, InstanceState.STOPPED)
    local.running(local.launch())
    with pytest.raises(CloudError) as raised:
        local.cloud.start([machines[0].id])
    assert raised.value.failure.cause is Cause.QUOTA


def test_no_quota_at_all_in_any_region_concerns_the_account(local: LocalUnderTest) -> None:
    local.add('[[quota]]\nfamily = "A100"\nlimit = 0\n')
    failure = refusal(local, local.launch())
    assert (failure.cause, failure.limit_is_zero, failure.scope) == (
        Cause.QUOTA,
        True,
        Scope.ACCOUNT,
    )


def test_a_market_that_cannot_be_read_stops_buying_and_not_ending(local: LocalUnderTest) -> None:
    launch = local.launch()
    (machine,) = local.running(launch)
    (local.folder / "market.toml").write_text("[[regions]\n")
    told = local.cloud.check()
    assert not told.enabled
    assert told.problem is not None
    assert "market.toml" in told.problem.message
    assert refusal(local, replace(launch, token=uuid4().hex)).code == "InvalidMarket"
    local.cloud.terminate([machine.id])
    local.gone(launch.owner, [machine.id])


def test_a_start_script_that_fails_still_gives_a_machine_and_tells_the_console(
    local: LocalUnderTest,
) -> None:
    launch = local.launch(user_data_template="echo from the script; false", template_values={})
    (machine,) = local.running(launch)
    eventually(lambda: answers(machine), "an ssh server")
    console = local.cloud.console(machine.id)
    assert "from the script" in console
    assert "ended with status 1" in console
    assert local.cloud.console("../../etc/passwd") == ""


def test_a_slow_start_script_runs_before_ssh_answers(local: LocalUnderTest) -> None:
    launch = local.launch()
    template = launch.user_data_template + "sleep 0.8; touch $HOME/prepared\n"
    (machine,) = local.running(local.launch(user_data_template=template))
    assert not answers(machine)
    eventually(lambda: answers(machine), "an ssh server")
    assert local.run(machine, "ls").stdout == "prepared\n"


def test_gpus_are_there_and_said_to_be_simulated(local: LocalUnderTest) -> None:
    (machine,) = local.running(local.launch())
    eventually(lambda: answers(machine), "an ssh server")
    assert local.run(machine, "nvidia-smi -L").stdout.startswith("GPU 0: A100 (simulated)")
    query = "nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv,noheader,nounits"
    assert local.run(machine, query).stdout == "0, 0, 0\n"
    told = local.run(
        machine,
        (
            'echo "$NBPROV_SIMULATED_GPUS $NBPROV_SIMULATED"; python3 -c "import ipykernel"; cd /; '
            'bash -lc "type -P python3"'
        ),
    )
    assert told.stdout.splitlines()[0] == "A100:1 1"
    assert told.stdout.splitlines()[1].endswith("/venv/bin/python3")
    assert told.stderr == ""
