"""The hardware of Azure's sizes, which the price list only names.

Transcribed from Microsoft's pages "GPU accelerated virtual machine sizes"
(learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated) and, for vCPUs and memory, from
the list of VM sizes in Aspire's reference (aspire.dev, Aspire.Hosting.Azure.Kubernetes), generated
from Azure's SKU API.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbprov.clouds.pricing import gpu_names


@dataclass(frozen=True, slots=True)
class Size:
    """One machine size."""

    name: str
    vcpus: float
    memory_gib: float
    accelerator: str = ""
    count: float = 0.0
    device_gib: float | None = None
    maker: str = ""
    arch: str = "x86_64"


# GPU, GiB of one, then for each size: name, GPUs, vCPUs, GiB of memory.
_GPU_SIZES: tuple[tuple[str, float, str, tuple[tuple[str, float, int, int], ...]], ...] = (
    (
        "T4",
        16,
        "x86_64",
        (
            ("NC4as_T4_v3", 1, 4, 28),
            ("NC8as_T4_v3", 1, 8, 56),
            ("NC16as_T4_v3", 1, 16, 110),
            ("NC64as_T4_v3", 4, 64, 440),
        ),
    ),
    (
        "V100",
        16,
        "x86_64",
        (
            ("NC6s_v3", 1, 6, 112),
            ("NC12s_v3", 2, 12, 224),
            ("NC24s_v3", 4, 24, 448),
            ("NC24rs_v3", 4, 24, 448),
        ),
    ),
    ("V100-32GB", 32, "x86_64", (("ND40rs_v2", 8, 40, 672),)),
    ("A100", 40, "x86_64", (("ND96asr_v4", 8, 96, 900),)),
    (
        "A100-80GB",
        80,
        "x86_64",
        (
            ("NC24ads_A100_v4", 1, 24, 220),
            ("NC48ads_A100_v4", 2, 48, 440),
            ("NC96ads_A100_v4", 4, 96, 880),
            ("ND96amsr_A100_v4", 8, 96, 1900),
        ),
    ),
    (
        "H100",
        94,
        "x86_64",
        (
            ("NC40ads_H100_v5", 1, 40, 320),
            ("NC80adis_H100_v5", 2, 80, 640),
            ("NCC40ads_H100_v5", 1, 40, 320),
        ),
    ),
    ("H100", 80, "x86_64", (("ND96isr_H100_v5", 8, 96, 1900), ("ND96is_H100_v5", 8, 96, 1900))),
    ("H200", 141, "x86_64", (("ND96isr_H200_v5", 8, 96, 1850),)),
    (
        "MI300X",
        192,
        "x86_64",
        (("ND96isr_MI300X_v5", 8, 96, 1850), ("ND96is_MI300X_v5", 8, 96, 1850)),
    ),
    # Grace is an ARM processor.
    ("GB200", 192, "arm64", (("ND128isr_NDR_GB200_v6", 4, 128, 864),)),
    ("GB300", 288, "arm64", (("ND128isr_GB300_v6", 4, 128, 864),)),
    (
        "M60",
        8,
        "x86_64",
        (("NV12s_v3", 1, 12, 112), ("NV24s_v3", 2, 24, 224), ("NV48s_v3", 4, 48, 448)),
    ),
    (
        "A10",
        24,
        "x86_64",
        (
            ("NV6ads_A10_v5", 0.167, 6, 55),
            ("NV12ads_A10_v5", 0.333, 12, 110),
            ("NV18ads_A10_v5", 0.5, 18, 220),
            ("NV36ads_A10_v5", 1, 36, 440),
            ("NV36adms_A10_v5", 1, 36, 880),
            ("NV72ads_A10_v5", 2, 72, 880),
            ("NC8ads_A10_v4", 1, 8, 100),
            ("NC16ads_A10_v4", 1, 16, 200),
            ("NC32ads_A10_v4", 2, 32, 400),
        ),
    ),
    (
        "V710",
        24,
        "x86_64",
        (
            ("NV4ads_V710_v5", 0.167, 4, 16),
            ("NV8ads_V710_v5", 0.333, 8, 32),
            ("NV12ads_V710_v5", 0.5, 12, 64),
            ("NV24ads_V710_v5", 1, 24, 128),
            ("NV28adms_V710_v5", 1, 28, 160),
        ),
    ),
    (
        "V620",
        32,
        "x86_64",
        (
            ("NG8ads_V620_v1", 0.25, 8, 16),
            ("NG16ads_V620_v1", 0.5, 16, 32),
            ("NG32ads_V620_v1", 1, 32, 64),
            ("NG32adms_V620_v1", 1, 32, 176),
        ),
    ),
)

# Ds_v5, Es_v5 and Fs_v2, the families for requests of CPUs only: GiB for each vCPU, and the sizes.
_CPU_SIZES: dict[str, tuple[int, tuple[int, ...]]] = {
    "Standard_D{}s_v5": (4, (2, 4, 8, 16, 32, 48, 64, 96)),
    "Standard_E{}s_v5": (8, (2, 4, 8, 16, 20, 32, 48, 64)),
    "Standard_F{}s_v2": (2, (2, 4, 8, 16, 32, 48, 64, 72)),
}
# The only size that differs from the rule of its family.
_E96 = Size("Standard_E96s_v5", 96, 672)

GPU_SERIES = re.compile(r"Standard_N(?!P)", re.IGNORECASE)
"""Names of sizes with a GPU; NP is a family with FPGAs."""
RETIRED = re.compile(
    r"Standard_(NC\d+r?(s_v2)?|ND\d+r?s|NV\d+(s_v2|as_v4)?)(_Promo)?", re.IGNORECASE
)
"""Sizes still listed in places, though no machine can be started: K80, P100, P40, the first M60 and
MI25."""


def _sizes() -> dict[str, Size]:
    found = [
        Size(f"Standard_{name}", vcpus, memory, gpu, count, device, gpu_names.maker_of(gpu), arch)
        for gpu, device, arch, sizes in _GPU_SIZES
        for name, count, vcpus, memory in sizes
    ]
    found += [
        Size(family.format(cores), cores, cores * each)
        for family, (each, sizes) in _CPU_SIZES.items()
        for cores in sizes
    ]
    return {size.name.lower(): size for size in (*found, _E96)}


SIZES = _sizes()
"""Sizes by name in lower case, because the list varies the case of some names."""
