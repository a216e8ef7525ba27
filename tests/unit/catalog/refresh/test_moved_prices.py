"""Prices that moved by more than half: marked, shown with both figures, tried last, not bought."""

from __future__ import annotations

import os
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.refresh import PriceFileStore
from nbprov.catalog.sources.price_files import SHIPPED, YOURS, Layer, Layout
from nbprov.catalog.store.watched_folders import WatchedFolders
from nbprov.clouds.base import Capabilities
from nbprov.model.launches import Quote
from nbprov.model.money import usd
from nbprov.model.offers import Plan
from nbprov.notebook.rendering.price_data import TableData
from nbprov.planning import EnabledCloud, plan
from nbprov.provisioning.run.pricing.requote import beyond_agreed, quoted
from nbprov.spec import parse

TRUE = world.TYPES
LIE = tuple((name, n, mib, 0.9 if (name, n) == ("H100", 8) else p) for name, n, mib, p in TRUE)


def catalog(upkeep: PriceFileStore, shipped: Path | None = None) -> Catalog:
    """The catalogue of a home and of shipped prices, as a notebook sees it."""
    layers = (Layer(shipped, SHIPPED),) if shipped is not None else ()
    layout = Layout((*layers, Layer(upkeep.root, YOURS)), newer_wins=True)
    return Catalog(WatchedFolders(layout, upkeep.home / "cache"))


def moved(found: Catalog) -> dict[tuple[str, str], tuple[int, int]]:
    """Price and price before of what moved, by GPUs and region."""
    return {
        (o.gpus, o.region): (o.hourly, o.moved_from) for o in found.offers(Query()) if o.moved_from
    }


def plan_of(found: Catalog) -> Plan:
    """A plan for an H100, of which the machine with eight became the cheapest."""
    clouds = {"lambda": EnabledCloud("me", Capabilities(images=True))}
    return plan(parse("resources: {accelerators: {H100: 8, A100: 8}}"), found, clouds)


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Shipped prices of last year."""
    folder = tmp_path / "shipped"
    (folder / "lambda").mkdir(parents=True)
    path = folder / "lambda" / "vms.csv"
    path.write_text(world.v8_text(types=TRUE))
    os.utime(path, (1e9, 1e9))
    return folder


def test_a_lying_list_is_marked_against_the_shipped_prices(
    upkeep: PriceFileStore, mirror: doubles.Mirror, shipped: Path
) -> None:
    mirror.host("lambda", world.v8_text(types=LIE))
    upkeep.refresh(["lambda"])
    found = catalog(upkeep, shipped)
    assert moved(found) == {("H100:8", region): (usd("0.9"), usd(20)) for region in world.REGIONS}
    made = plan_of(found)
    assert made.chosen is not None
    assert made.chosen.offer.gpus == "A100:8", "what moved is tried last, cheap as it is"
    last = made.candidates[-1]
    assert last.offer.gpus == "H100:8"
    assert last.standing.startswith("was $20.00/h, to be confirmed")
    assert any(
        "moved by more than half (such as lambda gpu_8x_h100 $0.90/h, was $20.00/h)" in note
        for note in made.notes
    )
    assert made.dearest is not None
    assert made.dearest.hourly == usd("8.8"), "a price in doubt widens no consent"
    cells = [
        TableData.from_plan(made).columns,
        TableData.from_offers(found.offers(Query())).columns,
    ]
    for columns in cells:
        words = next(c.values.words for c in columns if c.key == "source")  # type: ignore[union-attr]
        assert any("was $20.00/h" in word for word in words)


def test_what_moved_is_bought_only_with_a_quote_or_a_yes(
    upkeep: PriceFileStore, mirror: doubles.Mirror, shipped: Path
) -> None:
    mirror.host("lambda", world.v8_text(types=LIE))
    upkeep.refresh(["lambda"])
    found = catalog(upkeep, shipped)
    candidate = plan_of(found).candidates[-1]
    assert "moved from $20.00/h to $0.90/h" in beyond_agreed(quoted(candidate, None), usd(100))
    same = quoted(candidate, Quote(usd("0.9"), "lambda", 0.0))
    assert beyond_agreed(same, usd(1)) == ""
    dear = quoted(candidate, Quote(usd(20), "lambda", 0.0))
    assert "above the $8.80/h that Launch agreed to" in beyond_agreed(dear, usd("8.8"))
    keys = {
        (
            o.region,
            o.zone,
            o.instance_type,
            o.accelerator,
            o.accelerator_count,
            o.market.value,
        ): o.hourly
        for o in found.offers(Query())
        if o.moved_from
    }
    upkeep.folder("lambda").accept(keys)
    assert moved(catalog(upkeep, shipped)) == {}
    mirror.host("lambda", world.v8_text(types=LIE, factor=0.3))
    upkeep.refresh(["lambda"], force=True)
    assert ("H100:8", "us-east-1") in moved(catalog(upkeep, shipped)), "accepted was another price"


def test_a_price_is_compared_with_the_last_list_too_and_stays_in_doubt(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text(types=TRUE))
    upkeep.refresh(["lambda"])
    assert moved(catalog(upkeep)) == {}
    for factor in (1.0, 1.01):  # the same lie again does not make it true
        mirror.host("lambda", world.v8_text(types=LIE, factor=factor))
        done = upkeep.refresh(["lambda"])["lambda"]
        assert any("4 prices moved by more than half" in note for note in done.notes)
        assert {key for key, _ in moved(catalog(upkeep))} == {"H100:8"}
    mirror.host("lambda", world.v8_text(types=TRUE, factor=1.1))
    upkeep.refresh(["lambda"])
    assert moved(catalog(upkeep)) == {}


def test_a_cheap_new_region_of_a_known_type_is_compared_with_the_other_regions(
    upkeep: PriceFileStore, mirror: doubles.Mirror, shipped: Path
) -> None:
    mirror.host("lambda", world.v8_text(types=LIE, regions=("mars-1",)))
    upkeep.refresh(["lambda"], force=True)
    assert set(moved(catalog(upkeep, shipped))) == {("H100:8", "mars-1")}
