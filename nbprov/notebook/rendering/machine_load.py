"""The load of a cluster's machines as meters: a word, a share, and a minute's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbprov.model.clusters import GpuLoad, LoadSample, MachineLoad
from nbprov.model.offers import Offer

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Meter:
    """One figure of a cluster's load.

    Attributes
    ----------
    words
        Its value now, with its unit.
    history
        Percent of what there is, 0 to 100, oldest first; the last one is now.
    """

    label: str
    words: str
    history: tuple[float, ...]


def meters(loads: Sequence[MachineLoad], offer: Offer | None) -> tuple[Meter, ...]:
    """Return the load of all machines of a cluster together; GPUs come first.

    Parameters
    ----------
    offer
        What was bought, which says how much of a shared computer is this machine's.
    """
    moments = list(zip(*(reversed(load.samples) for load in loads), strict=False))[::-1]
    if not moments:
        return ()
    cpus = sum(offer.vcpus if offer and offer.vcpus else load.cpus for load in loads)
    memory = sum(
        offer.memory_gib * GIB if offer and offer.memory_gib else load.memory for load in loads
    )
    cores = [sum(sample.cores for sample in moment) for moment in moments]
    used = [sum(sample.memory for sample in moment) for moment in moments]
    disk_used, disk = sum(load.disk_used for load in loads), sum(load.disk for load in loads)
    found = [
        *_gpu_meters(moments),
        Meter("CPU", f"{_percent(cores[-1], cpus)} of {cpus:g}", _history(cores, cpus)),
        Meter("memory", _sizes(used[-1], memory), _history(used, memory)),
        Meter("disk", _sizes(disk_used, disk), _history([disk_used], disk)),
    ]
    return tuple(found)


def _gpu_meters(moments: Sequence[Sequence[LoadSample]]) -> Iterable[Meter]:
    def all_of(one: Callable[[GpuLoad], float | None]) -> list[list[float]]:
        """A figure of every GPU that tells it, at every moment."""
        return [
            [value for sample in moment for gpu in sample.gpus if (value := one(gpu)) is not None]
            for moment in moments
        ]

    percents = all_of(lambda gpu: gpu.percent)
    if percents[-1]:
        count = len(percents[-1])
        words = f"{_mean(percents[-1]):.0f} %" + (f" of {count}" if count > 1 else "")
        yield Meter("GPU", words, _history([_mean(one or [0.0]) for one in percents], 100))
    total = sum(all_of(lambda gpu: gpu.memory)[-1])
    used = [sum(one) for one in all_of(lambda gpu: gpu.memory_used)]
    if total:
        yield Meter("GPU memory", _sizes(used[-1], total), _history(used, total))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _history(values: Sequence[float], whole: float) -> tuple[float, ...]:
    if not whole:
        return ()
    return tuple(round(min(100.0, max(0.0, 100 * value / whole)), 1) for value in values)


def _percent(value: float, whole: float) -> str:
    return f"{100 * value / whole:.0f} %" if whole else f"{value:.1f}"


def _sizes(used: float, whole: float) -> str:
    return f"{_gib(used)} of {_gib(whole)} GiB"


def _gib(size: float) -> str:
    return f"{round(size / GIB, 1):g}" if size < 100 * GIB else f"{size / GIB:.0f}"
