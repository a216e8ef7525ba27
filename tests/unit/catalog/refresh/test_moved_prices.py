"""Prices that moved by more than half: marked, shown with both figures, tried last, not bought."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.catalog import shipped_folder
from nbprov.catalog.refresh import PriceFileStore
from nbprov.catalog.sources import gcp_hosts
from nbprov.catalog.sources.known_machines import prices_of
from nbprov.catalog.sources.moved_prices import MovedPrices, mark
from nbprov.catalog.sources.price_entry import PriceEntry, Reading
from nbprov.catalog.sources.price_files import SHIPPED, YOURS, Layer, Layout, read_prices
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


def _entry(**more: object) -> PriceEntry:
    given: dict[str, object] = {"on_demand": usd(20), "spot": None} | more
    known = PriceEntry(
        *("lambda", "us-1", "", "gpu_8x_h100", "H100", 8.0, 80.0, "NVIDIA", 208.0, 1800.0, ""),
        *(None, None, "", "", "", ""),
    )
    return known._replace(**given)  # type: ignore[arg-type]


LIES: dict[str, dict[str, object]] = {
    "another GPU": {"accelerator": "A10", "devices": 1.0, "on_demand": usd("0.6")},
    "another GPU at the old price": {"accelerator": "B200"},
    "no GPU": {"accelerator": "", "devices": 0.0, "device_gib": None, "on_demand": usd("0.05")},
    "a part of a device more": {"devices": 8.00001, "on_demand": usd("0.6")},
    "more devices": {"devices": 16.0},
    "capitals": {"instance_type": "GPU_8X_h100 ", "accelerator": "a10", "on_demand": usd("0.6")},
    "capitals of the place": {"region": "US-1", "accelerator": "A10", "on_demand": usd("0.6")},
    "a new region": {"region": "eu-9", "accelerator": "A10", "on_demand": usd("0.6")},
    "a market without a price": {"accelerator": "A10", "on_demand": None, "spot": usd("0.3")},
    "more memory": {"memory_gib": 4000.0},
    "fewer vCPUs": {"vcpus": 4.0},
    "more memory of its GPU": {"device_gib": 141.0},
}
SAME: dict[str, dict[str, object]] = {
    "nothing": {},
    "decimal gigabytes": {"memory_gib": 1800 * 0.93},
    "a rounded number": {"devices": 8.00001},
    "unknown memory": {"memory_gib": None, "device_gib": None},
    "letters": {"instance_type": "GPU_8x_H100", "accelerator": "h100"},
    "a new type": {"instance_type": "gpu_1x_a10", "accelerator": "A10", "on_demand": usd("0.6")},
}


def _marked(entry: PriceEntry, shipped: tuple[PriceEntry, ...]) -> int:
    reading = Reading([entry])
    mark(reading, shipped, MovedPrices())
    return max(reading.entries[0].on_demand_before, reading.entries[0].spot_before)


@pytest.mark.parametrize("lie", LIES)
def test_a_type_is_compared_whatever_a_list_says_is_in_it(lie: str) -> None:
    lying = _entry(**LIES[lie])
    assert _marked(lying, (_entry(),)) == usd(20)
    lies = [lying, _entry()] if lie in ("a new region", "a market without a price") else [lying]
    remembered, last = MovedPrices(), [_entry()]
    for _ in range(3):  # the same lie again does not make it true
        remembered.learn(last, lies)
        remembered, last = _stored(remembered), lies
        assert list(remembered.in_doubt.values()) == [usd(20)]
    mark(reading := Reading([lying]), (), remembered)
    assert usd(20) in (reading.entries[0].on_demand_before, reading.entries[0].spot_before)
    back = _stored(remembered)
    back.learn(lies, [_entry()])
    mark(truth := Reading([_entry()]), (_entry(),), back)
    assert truth.entries == [_entry()]
    remembered.accept(dict(prices_of(lying)))
    mark(reading := Reading([lying]), (_entry(),), _stored(remembered))
    assert reading.entries == [lying]


OTHER = {
    "vCPUs": {"vcpus": 52.0},
    "memory": {"memory_gib": 4.0},
    "accelerator": {"accelerator": "A10"},
    "devices": {"devices": 1.0},
}


@pytest.mark.parametrize("change", OTHER)
@pytest.mark.parametrize("lists", [1, 3])
@pytest.mark.parametrize("is_cheap", [False, True])
def test_a_doubt_ends_with_the_list_that_has_the_known_hardware_again(
    change: str, lists: int, is_cheap: bool
) -> None:
    remembered, last = MovedPrices(), [_entry()]
    for number in range(lists):
        lie = _entry(**OTHER[change])
        if is_cheap and number == 0:
            lie = lie._replace(on_demand=usd(1))
        remembered.learn(last, [lie])
        remembered, last = _stored(remembered), [lie]
        assert set(remembered.in_doubt.values()) == {usd(20)}
        mark(reading := Reading([lie]), (), remembered)
        assert reading.entries[0].on_demand_before == usd(20)
    remembered.learn(last, [_entry()])
    assert not remembered.in_doubt
    assert not remembered.hardware
    mark(reading := Reading([_entry()]), (), _stored(remembered))
    assert reading.entries == [_entry()]


def test_hardware_that_was_accepted_is_the_known_one_from_then_on() -> None:
    remembered, new = MovedPrices(), _entry(vcpus=52.0)
    remembered.learn([_entry()], [new])
    remembered.accept(dict(prices_of(new)))
    remembered = _stored(remembered)
    remembered.learn([new], [new, new._replace(region="elsewhere")])
    assert not remembered.in_doubt


def _stored(remembered: MovedPrices) -> MovedPrices:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "moved.json"
        path.write_bytes(remembered.to_json())
        return MovedPrices.read(path)


@pytest.mark.parametrize("change", SAME)
def test_the_same_machine_spelled_otherwise_is_in_no_doubt(change: str) -> None:
    assert _marked(_entry(**SAME[change]), (_entry(),)) == 0
    remembered = MovedPrices()
    remembered.learn([_entry()], [_entry(**SAME[change])])
    assert not remembered.in_doubt


def test_hosts_that_take_many_gpus_are_compared_with_the_same_ones() -> None:
    hosts = tuple(
        _entry(instance_type="n1", accelerator="T4", devices=float(n), on_demand=usd(n))
        for n in (1, 2, 4)
    )
    assert [_marked(host, hosts) for host in hosts] == [0, 0, 0]
    assert _marked(hosts[2]._replace(on_demand=usd(1)), hosts) == usd(4)
    assert _marked(hosts[0]._replace(devices=8.0), hosts) == usd(1)


def test_a_typical_machine_of_a_gpu_may_have_other_memory() -> None:
    shipped = _entry(cloud="runpod")
    assert _marked(shipped._replace(memory_gib=900.0, vcpus=96.0), (shipped,)) == 0
    assert _marked(shipped._replace(accelerator="A10"), (shipped,)) == usd(20)


@pytest.mark.parametrize("cloud", sorted(p.name for p in shipped_folder().iterdir() if p.is_dir()))
def test_the_shipped_prices_are_in_no_doubt_against_themselves(cloud: str) -> None:
    reading = Reading(read_prices(shipped_folder() / cloud, cloud))
    if cloud == gcp_hosts.CLOUD:
        gcp_hosts.join(reading)
    before, remembered = tuple(reading.entries), MovedPrices()
    mark(reading, before, remembered)
    assert tuple(reading.entries) == before
    remembered.learn(before, before)
    assert not remembered.in_doubt


def test_a_machine_that_changed_at_its_old_price_says_so(
    upkeep: PriceFileStore, mirror: doubles.Mirror, shipped: Path
) -> None:
    types = tuple(
        ("H200", n, 144_384, p) if (name, n) == ("H100", 8) else (name, n, mib, p)
        for name, n, mib, p in TRUE
    )
    text = world.v8_text(types=types).replace("gpu_8x_h200", "gpu_8x_h100")
    assert "gpu_8x_h100" in text
    mirror.host("lambda", text)
    upkeep.refresh(["lambda"])
    found = catalog(upkeep, shipped)
    (offer, *_) = [o for o in found.offers(Query()) if o.accelerator == "H200"]
    assert offer.moved_words == "of other hardware than before"
    clouds = {"lambda": EnabledCloud("me", Capabilities(images=True))}
    made = plan(parse("resources: {accelerators: {H200: 8}}"), found, clouds)
    assert any("gpu_8x_h100 $20.00/h, of other hardware than before" in n for n in made.notes)
    assert made.chosen is not None
    assert "gpu_8x_h100 is listed with other hardware than before" in beyond_agreed(
        quoted(made.chosen, None), usd(100)
    )
