"""The load of a cluster's machines in words and lines."""

from __future__ import annotations

from dataclasses import replace

import sample_views as samples

from nbprov.model.clusters import GpuLoad, LoadSample, MachineLoad
from nbprov.notebook.rendering.machine_load import GIB, Meter, meters


def machine(*samples: LoadSample, cpus: int = 8) -> MachineLoad:
    return MachineLoad(samples, cpus, 64 * GIB, 20 * GIB, 100 * GIB)


def sample(cores: float, *gpus: GpuLoad) -> LoadSample:
    return LoadSample(0.0, cores, 16 * GIB, gpus)


def gpu(percent: float | None, used: int = 30) -> GpuLoad:
    return GpuLoad(percent, used * GIB, 80 * GIB)


def test_a_cluster_is_measured_as_a_whole_and_by_what_was_bought() -> None:
    loads = [
        machine(sample(0.0, gpu(0)), sample(3.0, gpu(40), gpu(60))),
        machine(sample(6.0, gpu(90), gpu(100, used=10))),
    ]
    bought = samples.clusters()[0].candidate
    assert bought is not None
    offer = replace(bought.offer, vcpus=12.0, memory_gib=85.0)
    assert meters(loads, offer) == (
        Meter("GPU", "72 % of 4", (72.5,)),
        Meter("GPU memory", "100 of 320 GiB", (31.2,)),
        Meter("CPU", "38 % of 24", (37.5,)),
        Meter("memory", "32 of 170 GiB", (18.8,)),
        Meter("disk", "40 of 200 GiB", (20.0,)),
    )


def test_what_was_bought_may_be_unknown_and_lines_stay_within_their_bounds() -> None:
    cpu, memory, disk = meters([machine(sample(2.0), sample(30.0), cpus=4)], None)
    assert (cpu.words, cpu.history) == ("750 % of 4", (50.0, 100.0))
    assert memory.words == "16 of 64 GiB"
    assert disk.history == (20.0,)


def test_a_gpu_that_does_not_tell_its_use_has_no_meter_of_it() -> None:
    load = machine(sample(0.5, GpuLoad(None, None, None)))
    assert [meter.label for meter in meters([load], None)] == ["CPU", "memory", "disk"]


def test_machines_that_were_never_asked_have_no_load() -> None:
    assert meters((), None) == ()
    assert meters([machine()], None) == ()
