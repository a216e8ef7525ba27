"""Providers' names of GPUs and the catalogue's."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.clouds.pricing.gpu_names import maker_of, read

CATALOGS = Path(__file__).parents[4] / "catalogs"


def shipped() -> dict[str, set[str]]:
    """Accelerators of the shipped catalogue, with their makers."""
    found: dict[str, set[str]] = {}
    for path in CATALOGS.glob("*/types.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["accelerator"]:
                    found.setdefault(row["accelerator"], set()).add(row["maker"])
    return found


@pytest.mark.parametrize(
    ("said", "memory", "name"),
    [
        ("NVIDIA A100 80GB PCIe", None, "A100-80GB"),
        ("NVIDIA A100-SXM4-80GB", None, "A100-80GB"),
        ("A100 SXM4", 40, "A100"),
        ("A100 PCIE", 80, "A100-80GB"),
        ("A100 (40 GB SXM4)", None, "A100"),
        ("nvidia-a100-80gb", None, "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", None, "H100"),
        ("NVIDIA H100 NVL", None, "H100"),
        ("nvidia-h100-80gb", None, "H100"),
        ("H200 SXM", 141, "H200"),
        ("B200 (180 GB SXM6)", None, "B200"),
        ("Tesla V100 (16 GB)", None, "V100"),
        ("Tesla V100-SXM2-32GB", None, "V100-32GB"),
        ("nvidia-tesla-t4", None, "T4"),
        ("T4g", 16, "T4g"),
        ("NVIDIA L4", None, "L4"),
        ("L40S (graphics mode)", None, "L40S"),
        ("A40 (compute mode)", None, "A40"),
        ("A800 PCIe", None, "A800"),
        ("NVIDIA GeForce RTX 4090", 24, "RTX4090"),
        ("RTX 4090", 24, "RTX4090"),
        ("RTX 3080Ti", None, "RTX3080-Ti"),
        ("RTX 4060Ti", 16, "RTX4060-Ti"),
        ("RTX 4070S Ti", 16, "RTX4070S-Ti"),
        ("NVIDIA RTX 4000 Ada Generation", 20, "RTX4000-Ada"),
        ("RTX 6000Ada", 48, "RTX6000-Ada"),
        ("NVIDIA RTX A6000", 48, "RTXA6000"),
        ("A6000 (48 GB)", None, "A6000"),
        ("Quadro RTX 6000 (24 GB)", None, "RTX6000"),
        ("Q RTX 8000", 48, "RTX8000"),
        ("RTX PRO 6000 S", 96, "RTXPRO6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, "RTXPRO6000"),
        ("RTX PRO Server 6000", 96, "RTXPRO6000"),
        ("RTX PRO 6000 WS", 96, "RTXPRO6000-WK"),
        ("RTX PRO 6000 MaxQ", None, "RTXPRO6000-MaxQ"),
        ("AMD Instinct MI300X OAM", 192, "MI300X"),
        ("Radeon Pro V520", 8, "V520"),
        ("Gaudi HL-205", 32, "Gaudi-HL-205"),
        ("GH200 (96 GB)", None, "GH200"),
    ],
)
def test_names(said: str, memory: float | None, name: str) -> None:
    assert read(said, memory).name == name


@pytest.mark.parametrize(
    ("said", "formed"),
    [
        ("H100 (80 GB SXM5)", "H100-SXM"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H100 PCIe", "H100"),
        ("H100", "H100"),
        ("A100 SXM 80GB", "A100-80GB-SXM"),
        ("NVIDIA H200 SXM", "H200-SXM"),
    ],
)
def test_names_with_their_form(said: str, formed: str) -> None:
    assert read(said).formed == formed


def test_the_memory_that_was_said_goes_before_the_data_sheet() -> None:
    assert read("L4").device_gib == 24
    assert read("L4", 22.352).device_gib == 22.352
    assert read("H100 NVL").device_gib == 94
    assert read("GH200 (96 GB)").device_gib == 96


def test_an_unknown_name_stays_itself() -> None:
    gpu = read("Shiny X9000 Turbo", 12)
    assert (gpu.name, gpu.maker, gpu.device_gib) == ("Shiny-X9000-Turbo", "", 12)
    assert read("Shiny X9000").device_gib is None


def test_every_accelerator_of_the_shipped_catalogue_reads_as_itself() -> None:
    names = shipped()
    assert len(names) > 40
    apart = {"H100-MEGA"}  # GCP's word for its a3-megagpu machines.
    for name in names.keys() - apart:
        gpu = read(name)
        assert name in (gpu.name, gpu.formed), name
        assert gpu.device_gib, name


def test_makers_agree_with_the_shipped_catalogue() -> None:
    assert {name: {maker_of(name)} for name in shipped()} == shipped()


@given(st.text(max_size=60), st.none() | st.floats(1, 1000))
def test_any_text_reads_as_one_word(said: str, memory: float | None) -> None:
    gpu = read(said, memory)
    assert len(gpu.name.split()) <= 1
    assert gpu.form in ("", "SXM", "NVL", "PCIe")
