"""Compile the price snapshot in this folder from price files in the v8 layout.

    python catalogs/rebuild.py PRICES EXCERPTS [--out FOLDER] [--check]

PRICES holds one folder a cloud with `vms.csv`; EXCERPTS holds `aws_v8_excerpt.csv` (which AWS
prices come from the SkyPilot catalogue). What is kept: every row with an accelerator, the
general-purpose CPU families of AWS, Azure and GCP, the N1 hosts of GCP, and all rows of the smaller
clouds. The same inputs give the same bytes. `--check` writes nothing and fails if the snapshot
differs."""

from __future__ import annotations

import argparse
import csv
import filecmp
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nbprov.catalog.sources import skypilot_csv
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.catalog.sources.snapshot import FILE_NAMES, write
from nbprov.catalog.vocabulary.instance_families import GENERAL_PURPOSE, family_of

HERE = Path(__file__).resolve().parent
EXCERPT = "aws_v8_excerpt.csv"
GCP_HOST = re.compile(r"^n1-(standard|highmem|highcpu)-\d+$")
AWS_P_FAMILY = re.compile(r"^p\d")


@dataclass(frozen=True)
class Source:
    """A line of `sources.csv`; SOURCES.md says more of each."""

    key: str
    as_of: str
    text: str

    def mark(self, entry: PriceEntry, spot: Source | None = None) -> PriceEntry:
        """The entry with this source, and another one for its spot price."""
        beside = spot or self
        return entry._replace(
            source=self.text, as_of=self.as_of, spot_source=beside.text, spot_as_of=beside.as_of
        )


KARPENTER_AWS = Source("K", "2026-07-20", "Amazon EC2 price list via karpenter-provider-aws")
LIBCLOUD = Source("L", "2025-03-02", "Amazon EC2 price list via apache-libcloud 3.9.1")
SKY_AWS = Source("S", "2025-11-01", "SkyPilot catalog v8 (undated, about Nov 2025 to Jan 2026)")
SKY_AWS_ROUNDED = Source(
    "S-rounded",
    "2025-11-01",
    "SkyPilot catalog v8 (undated, about Nov 2025 to Jan 2026); spot equals on-demand but for"
    " rounding",
)
CYCLENERD = Source("C", "2026-07-30", "Google Cloud SKUs via google-cloud-pricing-cost-calculator")
SKY_GCP = Source("S", "2025-10-01", "SkyPilot catalog v8 (undated, late 2025 or 2026)")
ONE_SOURCE = {
    "azure": Source("A", "2026-06-18", "Azure Retail Prices API via karpenter-provider-azure"),
    "runpod": Source("S", "2026-01-01", "SkyPilot catalog v8 (undated, 2026)"),
    "lambda": Source("S", "2026-01-01", "SkyPilot catalog v8 (undated, 2026)"),
    "primeintellect": Source("S", "2025-10-01", "SkyPilot catalog v8 (undated, about Oct 2025)"),
    "cudo": Source("S", "2025-01-01", "SkyPilot catalog v8 (undated)"),
    "vast": Source("S", "2025-01-01", "SkyPilot catalog v8 (undated, 2025 or later)"),
    "nebius": Source("S", "2025-01-01", "SkyPilot catalog v8 (undated, 2025)"),
    "hyperstack": Source("S", "2025-01-01", "SkyPilot catalog v8 (undated, 2025)"),
    "do": Source("D", "2026-08-22", "DigitalOcean sizes API via canadian-gpu-availability"),
}
SOURCES: dict[str, tuple[Source, ...]] = {
    "aws": (KARPENTER_AWS, LIBCLOUD, SKY_AWS, SKY_AWS_ROUNDED),
    "gcp": (CYCLENERD, SKY_GCP),
    **{cloud: (source,) for cloud, source in ONE_SOURCE.items()},
}


def is_kept(entry: PriceEntry) -> bool:
    """Whether a row goes into the snapshot."""
    families = GENERAL_PURPOSE.get(entry.cloud)
    if families is None or entry.accelerator:
        return True
    return family_of(entry.cloud, entry.instance_type) in families or (
        entry.cloud == "gcp" and bool(GCP_HOST.match(entry.instance_type))
    )


def aws_marker(excerpts: Path) -> Callable[[PriceEntry], PriceEntry]:
    """How AWS rows get their sources.

    Us-east-1 from one list, GPU types named in the excerpt from another, the rest from a third.
    """
    with (excerpts / EXCERPT).open(encoding="utf-8", newline="") as file:
        listed = {(line["InstanceType"], line["Region"]) for line in csv.DictReader(file)}

    def mark(entry: PriceEntry) -> PriceEntry:
        if entry.region == "us-east-1":
            on_demand = KARPENTER_AWS
        elif (entry.instance_type, entry.region) in listed or AWS_P_FAMILY.match(
            entry.instance_type
        ):
            on_demand = SKY_AWS
        else:
            on_demand = LIBCLOUD
        dearer = (
            entry.spot is not None and entry.on_demand is not None and entry.spot > entry.on_demand
        )
        return on_demand.mark(entry, SKY_AWS_ROUNDED if dearer else SKY_AWS)

    return mark


def gcp_mark(entry: PriceEntry) -> PriceEntry:
    """GCP rows: accelerators sold apart come from one source, whole machines from another."""
    return (CYCLENERD if entry.instance_type else SKY_GCP).mark(entry)


def compile_cloud(cloud: str, prices: Path, excerpts: Path, out: Path) -> int:
    """Write one cloud's folder and return how many rows of type and place it has."""
    mark: Callable[[PriceEntry], PriceEntry]
    if cloud == "aws":
        mark = aws_marker(excerpts)
    else:
        mark = gcp_mark if cloud == "gcp" else ONE_SOURCE[cloud].mark
    reading = skypilot_csv.read(prices / cloud / skypilot_csv.FILE_NAME, cloud)
    entries = [mark(entry) for entry in reading.entries if is_kept(entry)]
    write(out / cloud, entries, [(s.key, s.as_of, s.text) for s in SOURCES[cloud]])
    return len(entries)


def differing(one: Path, other: Path) -> list[str]:
    """The files of two snapshots that are not the same."""
    names = [f"{cloud}/{name}" for cloud in sorted(SOURCES) for name in FILE_NAMES]
    same, _, _ = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted(set(names) - set(same))


def compile_all(prices: Path, excerpts: Path, out: Path) -> None:
    """Write the snapshot and say what is in it."""
    for cloud in sorted(SOURCES):
        rows = compile_cloud(cloud, prices, excerpts, out)
        size = sum((out / cloud / name).stat().st_size for name in FILE_NAMES)
        print(f"{cloud:16}{rows:8,} rows {size:10,} bytes")


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the script; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "prices", type=Path, help="folder with one folder a cloud, each with vms.csv"
    )
    parser.add_argument("excerpts", type=Path, help=f"folder with {EXCERPT}")
    parser.add_argument(
        "--out", type=Path, default=HERE, help="where the snapshot goes (default: this folder)"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the snapshot differs"
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    if not options.check:
        compile_all(options.prices, options.excerpts, options.out)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        compile_all(options.prices, options.excerpts, Path(folder))
        changed = differing(options.out, Path(folder))
    print("\n".join(f"differs: {name}" for name in changed) or "the snapshot is up to date")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
