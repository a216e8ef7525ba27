"""The container that a pod starts from: with Python and, for GPUs, CUDA or ROCm.

nbprov starts its ssh server (`pod_entrypoint.py`). Facts:
`runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404` is the image of RunPod's own examples
(openapi.json 2.0.0, createPod); the plain `runpod/base` and the ROCm image are of RunPod's official
templates (github.com/runpod/containers), read in 2026-11. A container built for a CUDA newer than
the host's driver does not start ("unsatisfied condition: cuda>=12.8", docs.runpod.io, Manage Pods),
so a host with that CUDA is requested (`gpu.minCudaVersion`).
"""

from __future__ import annotations

from dataclasses import dataclass

from nbprov.clouds.pricing import gpu_names
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.offers import Offer

CUDA = "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404"
CUDA_VERSION = "12.8"
ROCM = "runpod/pytorch:2.4.0-py3.10-rocm6.1.0-ubuntu22.04"
PLAIN = "runpod/base:1.0.2-ubuntu2404"
PREFIX = "docker:"


@dataclass(frozen=True, slots=True)
class Container:
    """The container of a pod.

    Attributes
    ----------
    image
        Its name in a registry.
    min_cuda
        The oldest CUDA, `major.minor`, that the host's driver must support; empty if it does not
        matter or is not known.
    """

    image: str
    min_cuda: str = ""


def container_for(offer: Offer, asked: str = "") -> Container:
    """Return the container for an offer, or the one that the spec names (`docker:…`).

    Raises
    ------
    CloudError
        `bad_request` for a machine image: RunPod runs only containers.

    Examples
    --------
    >>> from nbprov.model.places import Market
    >>> cpu = Offer("runpod", "CZ", "EU-CZ-1", "cpu5c-2-4", "", 0, 2, 4, Market.ON_DEMAND, 60_000)
    >>> container_for(cpu).image, container_for(cpu, "docker:python:3.12-slim").image
    ('runpod/base:1.0.2-ubuntu2404', 'python:3.12-slim')
    """
    named = asked.strip()
    if named.startswith(PREFIX):
        named = named.removeprefix(PREFIX)
        if not named:
            raise CloudError(Failure(Cause.BAD_REQUEST, f"image_id {asked!r} names no container"))
        return Container(named)
    if named:
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                f"RunPod runs containers: image_id must be `docker:IMAGE`, not {asked!r}",
            )
        )
    if not offer.accelerator:
        return Container(PLAIN)
    return (
        Container(ROCM)
        if gpu_names.maker_of(offer.accelerator) == "AMD"
        else Container(CUDA, CUDA_VERSION)
    )
