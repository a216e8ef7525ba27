"""Names of accelerators and places, as people write them."""

from __future__ import annotations

import pytest

from nbprov.catalog import AmbiguousName, Catalog, CatalogError, UnknownName
from nbprov.catalog.vocabulary.instance_families import family_of, is_us, quota_family
from nbprov.model.errors import NbprovError


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a100", "A100"),
        ("A100-80gb", "A100-80GB"),
        ("MI300", "MI300X"),
        (" t4 ", "T4"),
        ("l40s", "L40S"),
        ("gh2", "GH200"),
    ],
)
def test_resolved(shipped: Catalog, written: str, name: str) -> None:
    assert shipped.resolve_accelerator(written) == name


def test_a_fragment_of_several_is_ambiguous(shipped: Catalog) -> None:
    with pytest.raises(AmbiguousName) as caught:
        shipped.resolve_accelerator("RTX4")
    assert {"RTX4090", "RTX4000-Ada"} <= set(caught.value.close)
    assert isinstance(caught.value, NbprovError)
    assert "RTX4090" in str(caught.value)


@pytest.mark.parametrize("written", ["A1000X", "H1000", "", "  ", "🚀"])
def test_unknown_names_come_with_close_ones(shipped: Catalog, written: str) -> None:
    with pytest.raises(UnknownName) as caught:
        shipped.resolve_accelerator(written)
    assert caught.value.code == "catalog.unknown-accelerator"
    assert caught.value.hint
    if written.startswith(("A", "H")):
        assert {"A100", "H100"} & set(caught.value.close)


def test_close_names(shipped: Catalog) -> None:
    assert shipped.close_accelerators("A100-80")[0] == "A100-80GB"
    assert shipped.close_accelerators("RTX-4090")[0] == "RTX4090"
    assert len(shipped.close_accelerators("A", n=3)) <= 3
    assert shipped.close_accelerators("zzzzzz") == []


def test_counts_memory_and_makers(shipped: Catalog) -> None:
    assert shipped.counts("T4") == (1, 2, 4, 8)
    assert 0.333 in shipped.counts("A10")
    assert shipped.counts("nothing") == ()
    info = shipped.accelerator_info("A100-80GB")
    assert (info.maker, info.memory_gib) == ("NVIDIA", 80)
    assert {"aws", "gcp", "azure", "runpod"} <= set(info.clouds)
    assert shipped.accelerator_info("MI300X").maker == "AMD"
    with pytest.raises(UnknownName):
        shipped.accelerator_info("a100")


def test_places(shipped: Catalog) -> None:
    assert shipped.regions("nowhere") == []
    assert shipped.zones("azure", "eastus") == []
    assert shipped.has_instance_type("P4D.24xlarge")
    assert shipped.has_instance_type("n1-standard-8", "gcp")
    assert not shipped.has_instance_type("p4d.24xlarge", "gcp")
    with pytest.raises(CatalogError, match="no prices of 'oracle'"):
        shipped.info("oracle")


@pytest.mark.parametrize(
    ("cloud", "instance_type", "accelerator", "quota"),
    [
        ("aws", "p5.48xlarge", "H100", "P"),
        ("aws", "g6e.xlarge", "L40S", "G and VT"),
        ("aws", "gr6.4xlarge", "L4", "G and VT"),
        ("aws", "m7i.large", "", "Standard"),
        ("aws", "inf2.xlarge", "Inferentia2", "Inf"),
        ("aws", "trn1.2xlarge", "Trainium", "Trn"),
        ("aws", "im4gn.large", "", "Standard"),
        ("aws", "x2idn.16xlarge", "", "X"),
        ("aws", "hpc7a.96xlarge", "", "HPC"),
        ("aws", "u-6tb1.metal", "", "High Memory"),
        ("gcp", "a2-highgpu-1g", "A100", "A100"),
        ("gcp", "n2-standard-8", "", ""),
        ("azure", "Standard_D8s_v5", "", ""),
        ("runpod", "1x_L4_SECURE", "L4", ""),
    ],
)
def test_quota_families(cloud: str, instance_type: str, accelerator: str, quota: str) -> None:
    assert quota_family(cloud, instance_type, accelerator) == quota


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Standard_D8s_v5", "Ds_v5"),
        ("Standard_E104ids_v5", "Eids_v5"),
        ("Standard_F2s_v2", "Fs_v2"),
        ("Standard_NC24ads_A100_v4", "NCads_A100_v4"),
        ("Basic", "Basic"),
    ],
)
def test_azure_families(name: str, family: str) -> None:
    assert family_of("azure", name) == family


@pytest.mark.parametrize(
    ("cloud", "region", "expected"),
    [
        ("aws", "us-west-2", True), ("aws", "ap-southeast-2", False), ("azure", "eastus2", True), ("azure", "northcentralus", True),
        ("azure", "australiaeast", False), ("azure", "austriaeast", False), ("gcp", "us-central1", True), ("gcp", "australia-southeast1", False), ("runpod", "US", True),
        ("runpod", "AU", False), ("hyperstack", "US-1", True), ("vast", ", US, NA", True), ("vast", "Australia, AU, OC", False), ("do", "nyc2", True),
        ("do", "tor1", False), ("cudo", "us-newyork-1", True), ("lambda", "us-midwest-1", True),
    ],
)  # fmt: skip
def test_us(cloud: str, region: str, expected: bool) -> None:
    assert is_us(cloud, region) is expected
