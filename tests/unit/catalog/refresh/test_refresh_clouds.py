"""Every cloud's own price list, from its double over the wire to the answer of a question.

Laid over the prices of this release.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import azure_prices
import cudo_machines
import gcp_billing
import lambda_types
import price_world as world
import pytest
import runpod_catalogue
import vast_bundles
from aws_prices import Ec2Double, Ec2Region, machine, price_list, spot
from web_double import Answer, WebDouble, busy, json_answer, text_answer

from nbprov.catalog import Catalog, Query
from nbprov.catalog.refresh import CloudRefresh, Outcome, Source
from nbprov.catalog.sources.price_entry import PriceEntry
from nbprov.model.places import Market

CATALOGS = Path(__file__).parents[4] / "catalogs"
AWS_LIST = "/offers/v1.0/aws/AmazonEC2/current/{}/index.csv"
SIGNS = (
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "CLOUDSDK_",
    "GCLOUD_",
    "NBPROV_GCP",
    "RUNPOD_",
    "LAMBDA_",
    "CUDO_",
    "VAST_",
)


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """The provider's server."""
    with WebDouble() as double:
        yield double


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's accounts: no key in the environment, an empty home."""
    import os

    for name in list(os.environ):
        if name.startswith(SIGNS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))


class World:
    """A home with this release's prices of one cloud, whose own list is the double's."""

    def __init__(self, home: Path, shipped: Path, cloud: str) -> None:
        self.home, self.cloud = home, cloud
        # Two others beside it: what a GPU costs elsewhere is what a list is held against.
        for name in {cloud, "lambda", "nebius"}:
            shutil.copytree(CATALOGS / name, shipped / name)
        self._shipped = shipped
        self.upkeep = world.upkeep(home, shipped)

    def at(self, endpoints: Mapping[str, str], regions: Sequence[str] = ()) -> World:
        """Read the list there, of these regions."""
        names = ", ".join(f'"{region}"' for region in regions)
        lines = [
            f"[regions]\n{self.cloud} = [{names}]\n" if regions else "",
            f"[endpoints.{self.cloud}]\n",
        ]
        lines += [f'{name} = "{address}"\n' for name, address in endpoints.items()]
        world.settings(self.home, "http://127.0.0.1:9/{cloud}", more="".join(lines))
        return self

    def refresh(self, *, force: bool = False) -> CloudRefresh:
        """From the cloud itself."""
        return self.upkeep.refresh([self.cloud], source=Source.PROVIDER, force=force)[self.cloud]

    def entries(self, region: str | None = None) -> list[PriceEntry]:
        """The rows as they hold now."""
        return [
            entry for entry in self.upkeep.present(self.cloud) if region in (None, entry.region)
        ]

    def catalog(self) -> Catalog:
        """What answers questions."""
        return Catalog.open([self._shipped, self.upkeep.root], cache=self.home / "cache")


@pytest.fixture
def world_of(nbprov_home: Path, tmp_path: Path) -> Callable[[str], World]:
    """A world of a cloud."""
    return lambda cloud: World(nbprov_home, tmp_path / "shipped", cloud)


def _of(entries: Sequence[PriceEntry], kind: str) -> list[PriceEntry]:
    return sorted(
        (entry for entry in entries if entry.instance_type == kind),
        key=lambda entry: (entry.region, entry.zone),
    )


def _current(here: World) -> None:
    """A second refresh finds nothing new and writes nothing."""
    before = {path: path.read_bytes() for path in (here.upkeep.root / here.cloud).glob("*.csv")}
    again = here.refresh()
    assert (again.outcome, again.message) == (Outcome.CURRENT, "")
    assert {
        path: path.read_bytes() for path in (here.upkeep.root / here.cloud).glob("*.csv")
    } == before


AWS_MACHINES = (
    ("p4d.24xlarge", 20.5, 96, "1,152 GiB", "8"),
    ("p4de.24xlarge", 26.5, 96, "1,152 GiB", "8"),
)


def _aws_list(web: WebDouble, region: str, *more: dict[str, str]) -> None:
    rows = [
        machine(name, f"{price:.6f}", vcpus, memory, gpus, region=region)
        for name, price, vcpus, memory, gpus in AWS_MACHINES
    ]
    web.on(AWS_LIST.format(region), text_answer(price_list([*rows, *more])))


def test_aws_without_keys_changes_on_demand_prices_alone(
    web: WebDouble, world_of: Callable[[str], World]
) -> None:
    _aws_list(web, "us-east-1")
    here = world_of("aws").at({"pricing": web.url()}, ["us-east-1"])
    old, elsewhere = _of(here.entries("us-east-1"), "p4d.24xlarge"), here.entries("us-west-2")
    assert len(old) > 1
    assert all(entry.zone and entry.spot for entry in old)
    done = here.refresh()
    assert done.outcome is Outcome.UPDATED
    assert any("no spot prices and no zones were read" in note for note in done.notes)
    now = _of(here.entries("us-east-1"), "p4d.24xlarge")
    assert [(e.zone, e.spot, e.spot_source, e.spot_as_of) for e in now] == [
        (e.zone, e.spot, e.spot_source, e.spot_as_of) for e in old
    ]
    assert {e.on_demand for e in now} == {20_500_000}
    assert {e.source for e in now} == {"Amazon EC2 price list"}
    assert here.entries("us-west-2") == elsewhere
    changed = {
        (c.key.instance_type, c.kind.value, c.key.market)
        for c in done.differences
        if c.before and c.after
    }
    assert changed == {(name, "down", "on-demand") for name, *_ in AWS_MACHINES}
    offers = here.catalog().offers(
        Query(cloud="aws", region="us-east-1", instance_type="p4d.24xlarge")
    )
    assert {offer.hourly for offer in offers} >= {20_500_000, *(e.spot for e in old if e.spot)}
    _current(here)


def test_aws_with_keys_has_the_accounts_zones_and_keeps_p4de(
    web: WebDouble, world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA0000000000000000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-real-secret-0000")
    _aws_list(web, "us-east-1")
    _aws_list(web, "us-west-2")
    double = Ec2Double(web)
    double.regions["us-east-1"] = Ec2Region(
        {"us-east-1a": "use1-az4"},
        {"p4d.24xlarge": ["use1-az4"]},
        [
            {
                "name": "p4d.24xlarge",
                "vcpus": 96,
                "mib": 1179648,
                "gpu": ("A100", "NVIDIA", 8, 40960),
            }
        ],
        [spot("p4d.24xlarge", "us-east-1a", "9.5")],
    )
    forbidden = ("UnauthorizedOperation", "You are not authorized", 403)
    double.regions["us-west-2"] = Ec2Region(
        {"us-west-2a": "usw2-az1"}, broken={"DescribeInstanceTypeOfferings": [forbidden] * 9}
    )
    here = world_of("aws").at({"pricing": web.url(), "ec2": web.url()}, ["us-east-1", "us-west-2"])
    old_west, old_p4de = here.entries("us-west-2"), _of(here.entries("us-east-1"), "p4de.24xlarge")
    done = here.refresh()
    assert done.outcome is Outcome.UPDATED
    assert list(done.failed) == ["us-west-2"]
    assert here.entries("us-west-2") == old_west
    assert any(
        "us-west-2 could not be read" in note and "its old rows stay" in note
        for note in here.upkeep.status(["aws"])[0].notes
    )
    rows = [(e.instance_type, e.zone, e.on_demand, e.spot) for e in here.entries("us-east-1")]
    assert ("p4d.24xlarge", "use1-az4", 20_500_000, 9_500_000) in rows
    assert [row[:3] for row in rows if row[0].startswith("p4de")] == [
        ("p4de.24xlarge", e.zone, 26_500_000) for e in old_p4de
    ]


def test_azure_names_spot_above_on_demand_and_does_not_offer_it(
    web: WebDouble, world_of: Callable[[str], World]
) -> None:
    meter = azure_prices.meter
    meters = [
        meter("Standard_NC24ads_A100_v4", 3.5),
        meter("Standard_NC24ads_A100_v4", 1.2, spot=True),
        meter("Standard_D4s_v5", 0.19),
    ]
    meters += [
        meter("Standard_ND96isr_H100_v5", 98.0),
        meter("Standard_ND96isr_H100_v5", 99.0, spot=True),
    ]
    azure_prices.AzureDouble(web, meters, page=2)
    here = world_of("azure").at({"prices": web.url()}, ["eastus", "westeurope"])
    elsewhere, westeurope = here.entries("uksouth"), here.entries("westeurope")
    done = here.refresh()
    assert done.outcome is Outcome.UPDATED
    assert done.failed == {
        "westeurope": "not sold there: Azure lists no machine in westeurope that nbprov knows"
    }
    assert "1 hidden: spot price above on-demand" in done.notes
    assert (here.entries("uksouth"), here.entries("westeurope")) == (elsewhere, westeurope)
    asked = Query(
        cloud="azure",
        region="eastus",
        instance_type=("Standard_NC24ads_A100_v4", "Standard_ND96isr_H100_v5"),
    )
    assert [(o.instance_type, o.market.value, o.hourly) for o in here.catalog().offers(asked)] == [
        ("Standard_NC24ads_A100_v4", "spot", 1_200_000),
        ("Standard_NC24ads_A100_v4", "on-demand", 3_500_000),
        ("Standard_ND96isr_H100_v5", "on-demand", 98_000_000),
    ]
    _current(here)


def test_azure_that_is_down_is_given_up_before_its_sixty_regions_were_asked(
    web: WebDouble, world_of: Callable[[str], World]
) -> None:
    web.on(azure_prices.PATH, busy(503, words="out of service"))
    done = world_of("azure").at({"prices": web.url()}).refresh()
    assert (done.outcome, done.code, done.hint) == (
        Outcome.FAILED,
        "cloud.transient",
        "try again later; the prices in place stay",
    )
    assert "out of service" in done.message
    assert len({asked.query["$filter"] for asked in web.asked}) < 12


def test_gcp_sells_parts_of_a_machine_with_eight_h100_as_spot_alone(
    web: WebDouble, world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBPROV_GCP_API_KEY", gcp_billing.KEY)
    here = world_of("gcp").at(gcp_billing.GcpDouble(web).endpoints, ["us-central1"])
    old, elsewhere = here.entries("us-central1"), here.entries("europe-west4")
    done = here.refresh()
    assert done.outcome is Outcome.UPDATED
    assert here.entries("europe-west4") == elsewhere
    now = here.entries("us-central1")
    for kind in ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"):
        rows = _of(now, kind)
        assert [entry.zone for entry in rows] == [entry.zone for entry in _of(old, kind)], (
            "the zones known before"
        )
        assert all(entry.on_demand is None and entry.spot for entry in rows)
    assert all(
        entry.on_demand and entry.spot and entry.spot < entry.on_demand
        for entry in _of(now, "a3-highgpu-8g")
    )
    gone = {
        (c.key.instance_type, c.key.market)
        for c in done.differences
        if c.after is None and c.key.instance_type.startswith("a3-high")
    }
    assert gone == {(f"a3-highgpu-{n}g", "on-demand") for n in (1, 2, 4)}
    whole = here.catalog().offers(
        Query(cloud="gcp", region="us-central1", accelerator="T4", count=1)
    )
    assert any(offer.instance_type == "n1-standard-4+1xT4" for offer in whole), (
        "parts are joined to their hosts"
    )
    _current(here)


def test_runpod_keeps_its_spot_prices_where_only_rest_answers(
    web: WebDouble, world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world_of("runpod").at(runpod_catalogue.RunPodDouble(web).endpoints)
    assert here.refresh().outcome is Outcome.UPDATED, (
        "far fewer prices than the hosted list, which has every kind everywhere, and as many types"
    )
    rows = _of(here.entries(), "1x_L40S_SECURE")
    assert {(e.zone, e.on_demand, e.spot) for e in rows} == {("EU-CZ-1", 990_000, 490_000)}
    _current(here)
    monkeypatch.setenv("RUNPOD_API_KEY", runpod_catalogue.KEY)
    web.on("/graphql", json_answer({"errors": [{"message": "retired"}]}))
    assert here.refresh().outcome is Outcome.UPDATED
    rows = _of(here.entries(), "1x_L40S_SECURE")
    assert {(e.zone, e.on_demand, e.spot) for e in rows} == {("EU-CZ-1", 990_000, 490_000)}
    offers = here.catalog().offers(Query(cloud="runpod", accelerator="L40S", count=1))
    assert {(o.market.value, o.hourly) for o in offers} == {
        ("on-demand", 990_000),
        ("spot", 490_000),
    }


def test_lambda_with_a_key(
    web: WebDouble, world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = world_of("lambda").at(lambda_types.LambdaDouble(web).endpoints)
    assert "needs an API key" in here.refresh().message
    monkeypatch.setenv("LAMBDA_API_KEY", "wrong-key-0000")
    refused = here.refresh()
    assert (refused.code, "wrong-key" in refused.message) == ("cloud.credentials", False)
    monkeypatch.setenv("LAMBDA_API_KEY", lambda_types.KEY)
    assert here.refresh(force=True).outcome is Outcome.UPDATED
    assert {e.on_demand for e in _of(here.entries(), "gpu_8x_h100_sxm5")} == {31_920_000}
    assert (
        here.catalog()
        .offers(Query(cloud="lambda", accelerator="B200", count=8, region="us-mars-9"))[0]
        .hourly
        == 53_520_000
    )
    _current(here)


def test_vast_takes_the_market_of_the_moment(
    web: WebDouble, world_of: Callable[[str], World]
) -> None:
    offers = [vast_bundles.offer(i, "RTX 4090", 0.41 - i / 1000) for i in range(40)]
    offers += [vast_bundles.offer(100, "H100 SXM", 2.0, gpu_ram=81920, geolocation="Sweden, SE")]
    here = world_of("vast").at(vast_bundles.VastDouble(web, offers).endpoints)
    assert here.refresh(force=True).outcome is Outcome.UPDATED
    assert {(e.region, e.on_demand) for e in here.entries() if e.accelerator == "RTX4090"} == {
        ("Texas, US, NA", 371_000)
    }
    assert [
        o.region
        for o in here.catalog().offers(Query(cloud="vast", region="se", market=Market.ON_DEMAND))
    ] == ["Sweden, SE, EU"]
    _current(here)


def test_cudo_adds_its_parts_up(
    web: WebDouble, world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [
        cudo_machines.machine("sapphire-rapids-h100", "H100 PCIe", "no-kristiansand-1", "1.79")
    ]
    double = cudo_machines.CudoDouble(web, kinds)
    here = world_of("cudo").at({"api": web.url()}, ["no-kristiansand-1", "us-newyork-1"])
    monkeypatch.setenv("CUDO_API_KEY", double.key)
    other = here.entries("ca-montreal-3")
    done = here.refresh()
    assert done.outcome is Outcome.UPDATED
    assert done.failed == {"us-newyork-1": "CUDO lists no such data centre"}
    assert here.entries("ca-montreal-3") == other
    assert [
        e.on_demand for e in _of(here.entries("no-kristiansand-1"), "sapphire-rapids-h100_1x2v4gb")
    ] == [1_790_000 + 2 * 3_700 + 4 * 6_200]
    _current(here)


def test_a_login_page_in_the_place_of_a_list_is_offline(
    web: WebDouble, world_of: Callable[[str], World]
) -> None:
    web.on(
        lambda asked: True,
        Answer(200, b"<html><title>Airport</title></html>", {"Content-Type": "text/html"}),
    )
    here = world_of("azure").at({"prices": web.url()})
    done = here.upkeep.refresh(["azure"])
    assert (done["azure"].outcome, done["azure"].code) == (
        Outcome.OFFLINE,
        "catalog.offline.web-page",
    )
    assert done.sentence().startswith("offline: a web page of this network came instead of prices")
    assert len(web.asked) < 12
