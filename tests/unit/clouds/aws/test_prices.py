"""The fetch of EC2 prices from end to end, with and without an account."""

from __future__ import annotations

import csv
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aws_prices import Ec2Double, Ec2Region, machine, price_list, spot, unwanted
from fetch_context import TODAY, Fetching
from web_double import Answer, WebDouble, busy, text_answer

from nbprov.clouds.aws.catalog.gpu_families import COUNTS, FAMILIES
from nbprov.clouds.aws.prices import REGIONS, fetcher
from nbprov.clouds.pricing.fetcher import find
from nbprov.clouds.web.client import Stopped
from nbprov.model.failures import Cause, CloudError
from nbprov.model.price_list import PriceRow

CATALOGS = Path(__file__).parents[4] / "catalogs"
KEYS = {"access_key_id": "AKIA0000000000000000", "secret_access_key": "not-a-real-secret-0000"}
MACHINES = (
    ("p4d.24xlarge", "21.957642", 96, "1,152 GiB", "8"),
    ("p4de.24xlarge", "27.447050", 96, "1,152 GiB", "8"),
    ("p5en.48xlarge", "63.296000", 192, "2,048 GiB", "8"),
    ("g6f.large", "0.202400", 2, "8 GiB", "1"),
    ("trn1.2xlarge", "1.343750", 8, "32 GiB", "NA"),
    ("m6i.large", "0.096000", 2, "8 GiB", "NA"),
    ("f1.2xlarge", "1.650000", 8, "122 GiB", "NA"),
)
LISTS = re.compile(r"/offers/v1\.0/aws/AmazonEC2/current/[\w-]+/index\.csv")


def a_list(*more: dict[str, str]) -> str:
    """Return a list with these machines and the rows that stand beside them."""
    rows: list[dict[str, str]] = []
    for name, price, vcpus, memory, gpus in MACHINES:
        noise = unwanted(name, vcpus, memory, gpus)
        rows += [*noise[:7], machine(name, price, vcpus, memory, gpus), *noise[7:]]
    return price_list([*rows, *more])


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """A server with a list for every region."""
    with WebDouble() as double:
        double.on(LISTS, text_answer(a_list(), ranges=True, headers={"ETag": '"1"'}))
        yield double


@pytest.fixture
def ec2(web: WebDouble) -> Ec2Double:
    """EC2, with one region."""
    double = Ec2Double(web)
    double.regions["us-east-1"] = a_region()
    return double


def a_region(**changes: Any) -> Ec2Region:
    """Return a region of two zones and a local zone, as an account sees it."""
    region = Ec2Region(
        {"us-east-1a": "use1-az4", "us-east-1b": "use1-az6", "us-east-1-lax-1a": "use1-lax1-az1"},
        {
            "p4d.24xlarge": ["use1-az4", "use1-az6"],
            "g6f.large": ["use1-az6"],
            "m6i.large": ["use1-az4", "use1-lax1-az1"],
            "x9.large": ["use1-az4"],
            "n1.large": ["use1-az4"],
        },
        [
            {
                "name": "p4d.24xlarge",
                "vcpus": 96,
                "mib": 1179648,
                "gpu": ("A100", "NVIDIA", 8, 40960),
            },
            {"name": "g6f.large", "vcpus": 2, "mib": 8192, "gpu": ("L4", "NVIDIA", 1, 2861)},
            {"name": "m6i.large", "vcpus": 2, "mib": 8192},
            {"name": "x9.large", "vcpus": 16, "mib": 65536, "gpu": ("H100", "NVIDIA", 2, 81920)},
            {"name": "n1.large", "vcpus": 16, "mib": 65536, "neuron": ("NoSuchChip", 2, 81920)},
        ],
        [
            spot("p4d.24xlarge", "us-east-1a", "9.100000", "2026-11-20T00:00:00.000Z"),
            spot("p4d.24xlarge", "us-east-1a", "9.500000", "2026-11-21T00:00:00.000Z"),
            spot("p4d.24xlarge", "us-east-1b", "7.000000", product="Windows"),
            spot("p4d.24xlarge", "us-east-1-lax-1a", "5.000000"),
            spot("x9.large", "us-east-1a", "2.000000"),
        ],
    )
    for name, value in changes.items():
        setattr(region, name, value)
    return region


def public(web: WebDouble, *regions: str) -> Fetching:
    """Return a context without an account."""
    return Fetching({"pricing": web.url()}, regions=regions or ("us-east-1",))


def with_keys(web: WebDouble, *regions: str) -> Fetching:
    """Return a context with an account."""
    return Fetching(
        {"pricing": web.url(), "ec2": web.url()}, regions=regions or ("us-east-1",), keys=KEYS
    )


def by_place(rows: tuple[PriceRow, ...]) -> dict[tuple[str, str], PriceRow]:
    """Rows by type and zone."""
    found = {(row.instance_type, row.zone): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_it_is_found_by_its_name_and_is_always_ready(web: WebDouble) -> None:
    found = find("aws")
    assert found is not None
    assert found.cloud == "aws"
    assert found.ready(public(web).context) == ""


def test_without_an_account_machines_on_demand(web: WebDouble) -> None:
    prices = fetcher().fetch(public(web).context)
    rows = by_place(prices.rows)
    assert rows["p4d.24xlarge", ""] == PriceRow(
        "us-east-1",
        "p4d.24xlarge",
        "",
        "A100",
        8.0,
        40,
        "NVIDIA",
        96.0,
        1152.0,
        "x86_64",
        21_957_642,
        None,
    )
    assert rows.keys() == {(name, "") for name, *_ in MACHINES if name != "f1.2xlarge"}
    assert (prices.source, prices.as_of, prices.spot_source) == ("Amazon EC2 price list", TODAY, "")
    assert prices.unseen == {"spot"}
    assert prices.covered == {"us-east-1"}
    assert prices.failed == {}
    assert any("no AWS credentials" in note for note in prices.notes)


@pytest.mark.parametrize(
    ("name", "accelerator", "count", "maker"),
    [
        ("p4de.24xlarge", "A100-80GB", 8.0, "NVIDIA"),
        ("p5en.48xlarge", "H200", 8.0, "NVIDIA"),
        ("g6f.large", "L4", 0.125, "NVIDIA"),
        ("trn1.2xlarge", "Trainium", 1.0, "AWS"),
        ("m6i.large", "", 0.0, ""),
    ],
)
def test_accelerators_by_family(
    web: WebDouble, name: str, accelerator: str, count: float, maker: str
) -> None:
    row = by_place(fetcher().fetch(public(web).context).rows)[name, ""]
    assert (row.accelerator, row.count, row.maker) == (accelerator, count, maker)


def test_a_family_that_nobody_knows_is_counted_and_left_out(web: WebDouble) -> None:
    web.on(LISTS, text_answer(a_list(machine("p9.48xlarge", "99.5", 192, "2,048 GiB", "8"))))
    prices = fetcher().fetch(public(web).context)
    assert "p9.48xlarge" not in {row.instance_type for row in prices.rows}
    assert any(note.startswith("1 EC2 types were left out") for note in prices.notes)


def test_a_gpu_machine_without_a_number_of_gpus_is_left_out(web: WebDouble) -> None:
    web.on(
        LISTS,
        text_answer(
            price_list(
                [
                    machine("g5.xlarge", "1.006", 4, "16 GiB", "NA"),
                    machine("m6i.large", "0.096", 2, "8 GiB"),
                ]
            )
        ),
    )
    assert {row.instance_type for row in fetcher().fetch(public(web).context).rows} == {"m6i.large"}


def test_four_regions_unless_told(web: WebDouble) -> None:
    prices = fetcher().fetch(Fetching({"pricing": web.url()}).context)
    assert {row.region for row in prices.rows} == set(REGIONS) == prices.covered
    assert len(REGIONS) == 4


def test_a_region_that_fails_is_named_and_the_others_are_kept(web: WebDouble) -> None:
    web.on(
        "/offers/v1.0/aws/AmazonEC2/current/eu-mars-1/index.csv",
        text_answer("<Error><Message>no such key</Message></Error>", 404),
    )
    prices = fetcher().fetch(public(web, "us-east-1", "eu-mars-1").context)
    assert {row.region for row in prices.rows} == {"us-east-1"}
    assert prices.failed.keys() == {"eu-mars-1"}
    assert "no such key" in prices.failed["eu-mars-1"]
    assert prices.covered == {"us-east-1", "eu-mars-1"}


def test_a_region_is_never_part_of_an_address_unread(web: WebDouble) -> None:
    prices = fetcher().fetch(public(web, "us-east-1", "../../secret").context)
    assert prices.failed == {
        "../../secret": (
            "request refused as invalid: '../../secret' is not the name of an AWS region"
        )
    }
    assert len(web.asked) == 1


def test_if_no_region_can_be_read_it_is_an_error(web: WebDouble) -> None:
    web.on(LISTS, busy(503))
    with pytest.raises(CloudError) as caught:
        fetcher().fetch(public(web).context)
    assert caught.value.failure.cause is Cause.TRANSIENT


def test_busy_and_torn_answers_are_survived(web: WebDouble) -> None:
    text = a_list()
    whole = text_answer(text, ranges=True, headers={"ETag": '"1"'})
    web.on(
        LISTS,
        busy(429, retry_after=3),
        busy(500),
        whole.with_(cut=len(text) // 2),
        Answer(hang_up=True),
        whole,
    )
    fetching = public(web)
    assert len(fetcher().fetch(fetching.context).rows) == 6
    assert fetching.pauses == [3.0, 2.0, 4.0, 8.0]


def test_progress_is_told(web: WebDouble) -> None:
    fetching = public(web, "us-east-1", "us-west-2")
    fetcher().fetch(fetching.context)
    assert (fetching.seen[-1].done, fetching.seen[-1].total) == (2, 2)
    assert {one.what for one in fetching.seen} == {"us-east-1", "us-west-2"}


def test_a_stop_ends_it(web: WebDouble) -> None:
    never = threading.Event()
    web.on(LISTS, text_answer(a_list(), hold=never, hold_after=1000))
    fetching = public(web)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetcher().fetch, fetching.context)
        web.wait_for(1)
        fetching.stop.set()
        with pytest.raises(Stopped):
            waiting.result(timeout=1.0)


def test_with_an_account_rows_are_by_zone_id_with_spot_prices(
    web: WebDouble, ec2: Ec2Double
) -> None:
    prices = fetcher().fetch(with_keys(web).context)
    rows = by_place(prices.rows)
    assert rows["p4d.24xlarge", "use1-az4"].spot == 9_500_000, "the newest entry"
    assert rows["p4d.24xlarge", "use1-az6"].spot is None, "Windows is another product"
    assert rows["p4d.24xlarge", "use1-az6"].on_demand == 21_957_642
    assert rows.keys() == {
        ("p4d.24xlarge", "use1-az4"),
        ("p4d.24xlarge", "use1-az6"),
        ("g6f.large", "use1-az6"),
        ("m6i.large", "use1-az4"),
        ("x9.large", "use1-az4"),
        ("p4de.24xlarge", ""),
    }
    assert prices.spot_source == "EC2 spot price history"
    assert prices.unseen == frozenset()


def test_a_family_not_in_the_table_is_what_ec2_says(web: WebDouble, ec2: Ec2Double) -> None:
    row = by_place(fetcher().fetch(with_keys(web).context).rows)["x9.large", "use1-az4"]
    assert (row.accelerator, row.count, row.device_gib, row.maker) == ("H100", 2.0, 80.0, "NVIDIA")
    assert (row.vcpus, row.memory_gib, row.arch, row.on_demand, row.spot) == (
        16.0,
        64.0,
        "x86_64",
        None,
        2_000_000,
    )


def test_a_chip_that_nobody_knows_is_left_out(web: WebDouble, ec2: Ec2Double) -> None:
    prices = fetcher().fetch(with_keys(web).context)
    assert "n1.large" not in {row.instance_type for row in prices.rows}
    assert any("left out" in note for note in prices.notes)


def test_p4de_is_kept_where_it_is_sold_though_no_zone_shows_it(
    web: WebDouble, ec2: Ec2Double
) -> None:
    ec2.regions["us-east-2"] = a_region()
    rows = fetcher().fetch(with_keys(web, "us-east-1", "us-east-2").context).rows
    patched = [row for row in rows if row.instance_type == "p4de.24xlarge"]
    assert [
        (row.region, row.zone, row.accelerator, row.count, row.vcpus, row.memory_gib, row.spot)
        for row in patched
    ] == [("us-east-1", "", "A100-80GB", 8.0, 96.0, 1152.0, None)]


def test_the_questions_are_those_of_the_api_and_all_pages_are_asked_for(
    web: WebDouble, ec2: Ec2Double
) -> None:
    fetcher().fetch(with_keys(web).context)
    actions = [action for _, action, _ in ec2.calls]
    assert actions.count("DescribeAvailabilityZones") == 1
    assert actions.count("DescribeInstanceTypeOfferings") == 4
    assert actions.count("DescribeInstanceTypes") == 3
    assert actions.count("DescribeSpotPriceHistory") == 3
    starts = [
        form["StartTime"] for _, action, form in ec2.calls if action == "DescribeSpotPriceHistory"
    ]
    assert len(set(starts)) == 1, "all pages are of one moment"


def test_throttling_is_waited_out(web: WebDouble, ec2: Ec2Double) -> None:
    slow = ("RequestLimitExceeded", "Request limit exceeded.", 503)
    ec2.regions["us-east-1"].broken = {
        "DescribeInstanceTypes": [slow, slow],
        "DescribeSpotPriceHistory": [("InternalError", "oops", 500)],
    }
    fetching = with_keys(web)
    assert len(fetcher().fetch(fetching.context).rows) == 6
    assert fetching.pauses == [1.0, 2.0, 1.0]


def test_throttling_without_end_is_a_rate_limit(web: WebDouble, ec2: Ec2Double) -> None:
    ec2.regions["us-east-1"].broken = {
        "DescribeInstanceTypes": [("RequestLimitExceeded", "Request limit exceeded.", 503)] * 9
    }
    with pytest.raises(CloudError) as caught:
        fetcher().fetch(with_keys(web).context)
    assert caught.value.failure.cause is Cause.RATE_LIMIT


@pytest.mark.parametrize(
    "action",
    [
        "DescribeAvailabilityZones",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeSpotPriceHistory",
    ],
)
def test_a_missing_permission_is_named(web: WebDouble, ec2: Ec2Double, action: str) -> None:
    ec2.regions["us-east-1"].broken = {
        action: [
            ("UnauthorizedOperation", "You are not authorized to perform this operation.", 403)
        ]
    }
    with pytest.raises(CloudError) as caught:
        fetcher().fetch(with_keys(web).context)
    assert caught.value.failure.cause is Cause.PERMISSION
    assert f"ec2:{action} is not allowed" in str(caught.value)


AUTH = ("AuthFailure", "AWS was not able to validate the provided access credentials", 401)


def test_a_region_that_the_account_may_not_use_is_passed_over_and_named(
    web: WebDouble, ec2: Ec2Double
) -> None:
    ec2.regions["me-south-1"] = a_region(broken={"DescribeAvailabilityZones": [AUTH]})
    prices = fetcher().fetch(with_keys(web, "us-east-1", "me-south-1").context)
    assert {row.region for row in prices.rows} == {"us-east-1"}
    assert "no access to me-south-1" in prices.failed["me-south-1"]


def test_if_no_region_takes_the_keys_the_keys_are_wrong(web: WebDouble, ec2: Ec2Double) -> None:
    ec2.regions = {
        name: a_region(broken={"DescribeAvailabilityZones": [AUTH]})
        for name in ("us-east-1", "us-west-2")
    }
    with pytest.raises(CloudError) as caught:
        fetcher().fetch(with_keys(web, "us-east-1", "us-west-2").context)
    assert caught.value.failure.cause is Cause.CREDENTIALS


@pytest.mark.parametrize(
    "code", ["InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "RequestExpired"]
)
def test_refused_keys_are_told(web: WebDouble, ec2: Ec2Double, code: str) -> None:
    ec2.regions["us-east-1"].broken = {"DescribeAvailabilityZones": [(code, "no", 403)]}
    with pytest.raises(CloudError) as caught:
        fetcher().fetch(with_keys(web).context)
    assert caught.value.failure.cause is Cause.CREDENTIALS
    assert KEYS["secret_access_key"] not in str(caught.value)


def test_a_region_that_fails_at_ec2_is_named(web: WebDouble, ec2: Ec2Double) -> None:
    ec2.regions["us-west-2"] = a_region(
        broken={"DescribeInstanceTypes": [("InvalidParameterValue", "odd", 400)]}
    )
    prices = fetcher().fetch(with_keys(web, "us-east-1", "us-west-2").context)
    assert {row.region for row in prices.rows} == {"us-east-1"}
    assert (
        "EC2 in us-west-2, DescribeInstanceTypes: InvalidParameterValue odd"
        in prices.failed["us-west-2"]
    )


def test_pages_without_end_end(
    web: WebDouble, ec2: Ec2Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2.regions["us-east-1"].page = 0
    with pytest.raises(CloudError, match="repeats the pages"):
        fetcher().fetch(with_keys(web).context)


def test_a_stop_ends_it_between_two_questions(web: WebDouble, ec2: Ec2Double) -> None:
    fetching = with_keys(web)
    asked = threading.Event()

    def answer(request: Any) -> Answer:
        asked.set()
        fetching.stop.set()
        return Answer(503)

    web.on(lambda request: b"DescribeInstanceTypes&" in request.body, answer)
    with pytest.raises(Stopped):
        fetcher().fetch(fetching.context)
    assert asked.is_set()


def test_keys_without_boto3_say_what_to_install(
    web: WebDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    prices = fetcher().fetch(with_keys(web).context)
    assert any("pip install nbprov[aws]" in note for note in prices.notes)
    assert prices.unseen == {"spot"}
    assert {row.zone for row in prices.rows} == {""}


def test_a_profile_that_does_not_exist_is_named_and_costs_no_prices(
    web: WebDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    prices = fetcher().fetch(public(web).context)
    assert len(prices.rows) == 6
    assert any("The config profile (nobody) could not be found" in note for note in prices.notes)


def test_keys_from_the_shared_file_are_used(
    web: WebDouble, ec2: Ec2Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = AKIA0000000000000001\naws_secret_access_key = "
        "not-a-secret-1\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    prices = fetcher().fetch(
        Fetching({"pricing": web.url(), "ec2": web.url()}, regions=("us-east-1",)).context
    )
    assert "use1-az4" in {row.zone for row in prices.rows}
    signed = [asked.headers["authorization"] for asked in web.asked if asked.method == "POST"]
    assert all("Credential=AKIA0000000000000001/" in one for one in signed)


def test_boto3_is_not_imported_for_the_public_list(web: WebDouble) -> None:
    import subprocess

    code = (
        "import sys; from nbprov.clouds.web.client import HttpClient; from "
        "nbprov.clouds.pricing.fetcher import FetchContext; "
        "from nbprov.clouds.aws.prices import fetcher;"
        f"n=len(fetcher().fetch(FetchContext(HttpClient(), '2026-11-22', ('us-east-1',), {{}}, "
        f"{{'pricing': {web.url()!r}}})).rows);"
        "print(n, 'boto3' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["6", "False", "False"]


def test_every_family_joins_the_shipped_catalogue() -> None:
    with (CATALOGS / "aws" / "types.csv").open(newline="") as file:
        shipped = {row["type"]: row for row in csv.DictReader(file) if row["accelerator"]}
    names = {row["accelerator"] for row in shipped.values()}
    # Families without a price in the snapshot.
    beyond = {"K80", "V100", "M60", "V520", "Trainium2", "Gaudi-HL-205"}
    assert {family.name for family in FAMILIES.values()} - names == beyond
    for name, row in shipped.items():
        known = FAMILIES[name.partition(".")[0]]
        assert (known.name, known.device_gib, known.maker) == (
            row["accelerator"],
            float(row["device_gib"]),
            row["maker"],
        ), name
        if name in COUNTS:
            assert COUNTS[name] == float(row["count"]), name
