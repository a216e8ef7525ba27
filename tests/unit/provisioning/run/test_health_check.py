"""The health check, on real machines of the `local` cloud, whose GPUs are simulated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
from engine_world import EngineWorld
from provisioning_samples import candidate

from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import AttemptState, RunState
from nbprov.model.failures import Cause
from nbprov.model.launches import Instance
from nbprov.model.offers import Candidate, Plan
from nbprov.model.resources import Compare, Image, Quantity
from nbprov.model.spec import HealthCheck, Spec
from nbprov.provisioning.engine import Engine
from nbprov.provisioning.run.driver import RunDriver
from nbprov.provisioning.run.health_check import (
    driver_words,
    health_seconds,
    health_words,
    is_checked,
)

GPUS = """
[[types]]
name = "gpu"
accelerator = "A100"
count = 2
device_memory_gib = 40
vcpus = 4
memory_gib = 16
hourly = 3.0
"""

QUICK = HealthCheck(every=0.01, timeout=60.0, failures=2)


def run_with(
    world: EngineWorld,
    health: HealthCheck,
    fault: str = "",
    kind: type[LocalCloud] = LocalCloud,
    places: int = 3,
) -> Callable[[], RunDriver]:
    """A launch of the machine with GPUs in so many places at most, in the order of their names."""
    world.market(GPUS + fault)
    engine = world.engine(kind)

    def launch() -> RunDriver:
        spec = replace(_spec(), health=health)
        driver = engine.prepare_run("dev", spec, _plan(engine, spec, places))
        world.launch(engine, driver)
        world.finish(driver)
        return driver

    return launch


def _spec() -> Spec:
    from nbprov.spec import parse

    return parse("resources: {cloud: local, accelerators: A100:2}")


def _plan(engine: Engine, spec: Spec, places: int) -> Plan:
    offers = [o for o in engine.cloud("local").adapter.offers() or () if o.accelerator]
    offers.sort(key=lambda o: o.zone)
    made = [
        Candidate(offer, spec.requests[0], rank, 1, "test")
        for rank, offer in enumerate(offers[:places])
    ]
    return Plan(spec, made, dearest=max(made, key=lambda c: c.hourly))


def test_gpus_that_answer_make_a_machine_ready(world: EngineWorld) -> None:
    driver = run_with(world, QUICK)()
    assert driver.state is RunState.READY
    assert [a.state for a in driver.view().attempts] == [AttemptState.READY]
    assert "  health" in driver.runlog.path.read_text()


def test_a_gpu_that_is_missing_is_ended_and_the_next_place_tried(world: EngineWorld) -> None:
    driver = run_with(world, QUICK, world.fault(do="broken_gpus", zone="here-a"))()
    first, second = driver.view().attempts
    assert driver.state is RunState.READY
    assert first.state is AttemptState.GONE
    assert first.failure is not None
    assert first.failure.cause is Cause.UNHEALTHY
    assert first.failure.message == "1 of 2 A100 answer (2 checks)"
    assert first.cost > 0, "it was billed while it was checked"
    assert second.candidate.offer.zone == "here-b"
    blocks = [b for b in driver.context.ledger.blocks.standing() if b.cause is Cause.UNHEALTHY]
    assert [(b.zone, b.instance_type, round(b.expires - b.since)) for b in blocks] == [
        ("here-a", "gpu", 600)
    ]
    assert "health check 1 of 2 failed: 1 of 2 A100 answer" in driver.runlog.path.read_text()


def test_a_check_that_is_switched_off_gates_nothing(world: EngineWorld) -> None:
    driver = run_with(world, HealthCheck(on=False), world.fault(do="broken_gpus", zone="here-a"))()
    assert [a.state for a in driver.view().attempts] == [AttemptState.READY]
    assert "  health" not in driver.runlog.path.read_text()


def test_a_command_decides(world: EngineWorld) -> None:
    command = 'test "$(nvidia-smi -L | wc -l)" -eq 2 || { echo "it lacks one" >&2; exit 3; }'
    driver = run_with(
        world, replace(QUICK, command=command), world.fault(do="broken_gpus", zone="here-a")
    )()
    first, second = driver.view().attempts
    assert first.failure is not None
    assert first.failure.message == "the check ended with code 3: it lacks one (2 checks)"
    assert second.state is AttemptState.READY


def test_a_check_that_does_not_answer_counts_as_failed(world: EngineWorld) -> None:
    driver = run_with(
        world, HealthCheck(command="exec sleep 60", timeout=0.3, every=0.01, failures=1)
    )()
    assert driver.state is RunState.FAILED
    assert {a.failure.cause for a in driver.view().attempts if a.failure} == {Cause.UNHEALTHY}
    assert {a.state for a in driver.view().attempts} == {AttemptState.GONE}
    assert world.alive() == []


def test_a_command_that_never_stops_talking_fills_no_memory(world: EngineWorld) -> None:
    talk = "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; printf 'the end\\nof it\\n'; exit 7"
    driver = run_with(world, replace(QUICK, command=talk, failures=1))()
    assert driver.state is RunState.FAILED
    assert driver.view().attempts[0].failure is not None
    assert (
        driver.view().attempts[0].failure.message == "the check ended with code 7: of it (1 check)"
    )
    world.engines[-1].clear_blocks()
    endless = replace(QUICK, command="yes", timeout=0.5, failures=1)
    driver = run_with(world, endless, places=1)()
    assert [a.state for a in driver.view().attempts] == [AttemptState.GONE]
    assert world.alive() == []


def without_driver(shim: str | None) -> type[LocalCloud]:
    """The `local` cloud with machines that have another nvidia-smi from the start, or none."""

    class WithoutDriver(LocalCloud):
        def list(self, owner: str) -> list[Instance]:
            found = super().list(owner)
            for path in self.folder.glob("i/*/bin/nvidia-smi"):
                if shim is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_text(f"#!/bin/sh\n{shim}\n")
            return found

    return WithoutDriver


CANNOT = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    " Make sure that the latest NVIDIA driver is installed."
)
LOST = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."
    " Please also try adding directory that contains libnvidia-ml.so."
)


@pytest.mark.parametrize(
    ("shim", "named"),
    [
        (None, "it has no nvidia-smi (code 127"),
        (f'echo "{CANNOT}"; echo; exit 9', f"nvidia-smi cannot reach it (code 9: {CANNOT})"),
        (f'echo "{LOST}" >&2; exit 12', f"its library is not there (code 12: {LOST})"),
        (
            f'echo "wrapped: {CANNOT}" >&2; exit 1',
            f"nvidia-smi cannot reach it (code 1: wrapped: {CANNOT})",
        ),
    ],
)
def test_a_driver_that_is_missing_is_named_with_what_to_do(
    world: EngineWorld, shim: str | None, named: str
) -> None:
    if shim is None and shutil.which("nvidia-smi"):
        pytest.skip("this computer has an nvidia-smi of its own, which its machines then find")
    driver = run_with(world, replace(QUICK, failures=1), kind=without_driver(shim), places=1)()
    assert driver.state is RunState.FAILED
    failure = driver.view().attempts[0].failure
    assert failure is not None
    assert failure.cause is Cause.UNHEALTHY
    assert failure.message.startswith(
        f"no NVIDIA driver that works in local's usual image here: {named}"
    )
    assert failure.message.endswith("; name another by image_id (1 check)")
    assert world.alive() == []


def test_another_fault_of_nvidia_smi_is_not_taken_for_a_missing_driver(world: EngineWorld) -> None:
    fell = 'echo "Unable to determine the device handle for GPU0: GPU is lost."; exit 15'
    driver = run_with(world, replace(QUICK, failures=1), kind=without_driver(fell), places=1)()
    failure = driver.view().attempts[0].failure
    assert failure is not None
    assert (
        failure.message
        == "nvidia-smi ended with code 15: Unable to determine the device handle for GPU0:"
        " GPU is lost. (1 check)"
    )


@pytest.mark.parametrize("image", [Image(docker="mine:1"), Image(machine=(("", "mine:1"),))])
def test_an_image_of_ones_own_without_a_driver_is_named(image: Image) -> None:
    own = replace(GPU, request=replace(GPU.request, image=image))
    told = driver_words(127, "sh: 1: nvidia-smi: not found", own)
    assert told.startswith(
        "no NVIDIA driver that works in the image mine:1: it has no nvidia-smi"
        " (code 127: sh: 1: nvidia-smi: not found); "
    )
    assert f"leave image_id out for {GPU.offer.cloud}'s image" in told


CPU, GPU = candidate(0), candidate(1)
GPU = replace(GPU, offer=replace(GPU.offer, accelerator="A100", accelerator_count=8.0))
TPU = replace(GPU, offer=replace(GPU.offer, accelerator="tpu-v5e"))


@pytest.mark.parametrize(
    ("health", "machine", "checked"),
    [
        (HealthCheck(), GPU, True),
        (
            HealthCheck(),
            replace(CPU, offer=replace(CPU.offer, accelerator="", accelerator_count=0.0)),
            False,
        ),
        (HealthCheck(), TPU, False),
        (HealthCheck(command="true"), TPU, True),
        (HealthCheck(on=False, command="true"), GPU, False),
    ],
)
def test_what_is_checked(health: HealthCheck, machine: Candidate, checked: bool) -> None:
    assert is_checked(health, machine) is checked
    assert (health_seconds(health, machine) is not None) is checked
    assert bool(health_words(health, machine)) is checked


def test_memory_that_is_a_typical_figure_is_checked_once_the_machine_is_up() -> None:
    wants = replace(GPU.request, memory=Quantity(Compare.AT_LEAST, 64))
    assert is_checked(
        HealthCheck(), replace(TPU, request=wants, offer=replace(TPU.offer, cloud="runpod"))
    )
    assert not is_checked(
        HealthCheck(), replace(TPU, request=wants, offer=replace(TPU.offer, cloud="aws"))
    )
