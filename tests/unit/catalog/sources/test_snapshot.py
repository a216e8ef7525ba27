"""The project's own form is written and read back the same way; damaged files are refused."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from nbprov.catalog import Catalog, CatalogError, Query
from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.sources import skypilot_csv, snapshot
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.model.places import Market

WriteV8 = Callable[..., Path]

EXCERPT = (
    "InstanceType,Region,AvailabilityZoneId,Price,SpotPrice\n"
    "g5.xlarge,us-west-2,usw2-az1,1.006,0.4\n"
)


@pytest.fixture
def rebuild(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = importlib.util.spec_from_file_location(
        "nbprov_catalogs_rebuild", Path(__file__).resolve().parents[4] / "catalogs" / "rebuild.py"
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


@pytest.fixture
def inputs(write_v8: WriteV8, tmp_path: Path, rebuild: ModuleType) -> tuple[Path, Path]:
    gpu = {
        "InstanceType": "g",
        "AcceleratorName": "L4",
        "AcceleratorCount": "1",
        "vCPUs": "4",
        "MemoryGiB": "16",
        "Price": "0.8",
        "Region": "r",
    }
    for cloud in rebuild.SOURCES:
        folder = write_v8(cloud, [gpu])
    aws = {
        "AcceleratorName": "A10G",
        "AcceleratorCount": "1",
        "InstanceType": "g5.xlarge",
        "vCPUs": "4",
        "MemoryGiB": "16",
        "Price": "1.006",
    }
    write_v8(
        "aws",
        [
            {**aws, "Region": "us-east-1", "AvailabilityZone": "use1-az2", "SpotPrice": "0.5"},
            {**aws, "Region": "us-east-1", "AvailabilityZone": "use1-az1", "SpotPrice": "0.5"},
            {**aws, "Region": "us-west-2", "AvailabilityZone": "usw2-az1", "SpotPrice": "1.0061"},
            {
                **aws,
                "Region": "eu-west-1",
                "AvailabilityZone": "euw1-az1",
                "InstanceType": "g5.2xlarge",
            },
            {
                "InstanceType": "m6i.large",
                "vCPUs": "2",
                "MemoryGiB": "8",
                "Price": "0.1",
                "Region": "us-east-1",
            },
            {
                "InstanceType": "t3.large",
                "vCPUs": "2",
                "MemoryGiB": "8",
                "Price": "0.1",
                "Region": "us-east-1",
            },
        ],
    )
    excerpts = tmp_path / "excerpts"
    excerpts.mkdir()
    (excerpts / "aws_v8_excerpt.csv").write_text(EXCERPT, encoding="utf-8")
    return folder, excerpts


def test_rebuild_keeps_what_it_should_and_says_where_from(
    rebuild: ModuleType, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert rebuild.main([*map(str, inputs), "--out", str(out)]) == 0
    assert (out / "aws" / "prices.csv").read_text(encoding="utf-8").splitlines()[1:] == [
        "g5.2xlarge,eu-west-1,euw1-az1,1.006,,L,",
        "g5.xlarge,us-east-1,use1-az1 use1-az2,1.006,0.5,K,S",
        "g5.xlarge,us-west-2,usw2-az1,1.006,1.0061,S,S-rounded",
        "m6i.large,us-east-1,,0.1,,K,",
    ]
    catalog = Catalog.open(out, cache=tmp_path / "c")
    (spot,) = catalog.offers(Query(zone="use1-az1", market=Market.SPOT))
    assert (spot.as_of, "SkyPilot" in spot.source) == ("2025-11-01", True)
    assert rebuild.main([*map(str, inputs), "--out", str(out), "--check"]) == 0
    (out / "aws" / "prices.csv").write_text("changed", encoding="utf-8")
    assert rebuild.main([*map(str, inputs), "--out", str(out), "--check"]) == 1


def test_written_the_same_whatever_the_order(tmp_path: Path) -> None:
    reading = snapshot.read(shipped_folder() / "hyperstack", "hyperstack")
    keys = [("S", reading.entries[0].as_of, reading.entries[0].source)]
    shuffled = list(reading.entries)
    random.Random(7).shuffle(shuffled)
    snapshot.write(tmp_path / "hyperstack", shuffled, keys)
    for name in snapshot.FILE_NAMES:
        assert (tmp_path / "hyperstack" / name).read_bytes() == (
            shipped_folder() / "hyperstack" / name
        ).read_bytes()
    assert "n3-H100-SXM5x8#2" in (tmp_path / "hyperstack" / "types.csv").read_text(encoding="utf-8")


def test_the_shipped_files_come_back_byte_by_byte(tmp_path: Path) -> None:
    for cloud in ("gcp", "vast", "primeintellect"):
        folder = shipped_folder() / cloud
        reading = snapshot.read(folder, cloud)
        lines = (folder / "sources.csv").read_text(encoding="utf-8").splitlines()[1:]
        keys = [
            (key, as_of, source.strip('"'))
            for key, as_of, source in (line.split(",", 2) for line in lines)
        ]
        snapshot.write(tmp_path / cloud, reading.entries, keys)
        for name in snapshot.FILE_NAMES:
            assert (tmp_path / cloud / name).read_bytes() == (folder / name).read_bytes(), (
                cloud,
                name,
            )


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("prices.csv", "gpu_1x_a10,", "gpu_9x_a10,", "gpu_9x_a10"),
        ("prices.csv", ",S,", ",Q,", "'Q'"),
        ("prices.csv", "1.29", "dear", "damaged"),
        ("prices.csv", "1.29", "-1.29", "damaged"),
        ("prices.csv", ",S,\n", "\n", "torn"),
        ("sources.csv", "2026-01-01", "lately", "damaged"),
        ("types.csv", "id,type", "type,id", "does not begin"),
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    folder = tmp_path / "p" / "lambda"
    folder.mkdir(parents=True)
    for file in snapshot.FILE_NAMES:
        text = (shipped_folder() / "lambda" / file).read_text(encoding="utf-8")
        assert name != file or old in text
        (folder / file).write_text(
            text.replace(old, new, 1) if file == name else text, encoding="utf-8", newline=""
        )
    with pytest.raises(CatalogError, match=message):
        Catalog.open(tmp_path / "p", cache=tmp_path / "c").clouds()


def test_a_line_without_price_is_counted(tmp_path: Path) -> None:
    entry = PriceEntry(
        "x",
        "r",
        "z",
        "t",
        "",
        0.0,
        None,
        "",
        4.0,
        16.0,
        "",
        None,
        None,
        "s",
        "2026-01-01",
        "s",
        "2026-01-01",
    )
    snapshot.write(tmp_path / "x", [entry], [("S", "2026-01-01", "s")])
    reading = snapshot.read(tmp_path / "x", "x")
    assert (reading.entries, dict(reading.left_out)) == ([], {skypilot_csv.NO_PRICE: 1})
