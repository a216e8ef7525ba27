"""The example package: found by its entry points, its table right, its prices and stock from its
own server. The contract runs in tests/contract.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "contract"))

from fetch_context import Fetching
from fluffy_under_test import FluffyUnderTest

from nbprov.clouds import registry
from nbprov.clouds.pricing import fetcher as prices
from nbprov.model.failures import Cause, CloudError
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.model.stock import StockLevel

pytestmark = pytest.mark.machine
HERE = Path(__file__).parent
CORPUS = [
    json.loads(line) for line in (HERE / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.fixture
def fluffy() -> Iterator[FluffyUnderTest]:
    made = FluffyUnderTest()
    try:
        yield made
    finally:
        made.close()


def test_package_is_found_by_its_entry_points_and_gone_with_its_folder() -> None:
    assert "fluffycloud" not in registry.names()
    made = FluffyUnderTest()
    try:
        assert "fluffycloud" in registry.names()
        assert "fluffycloud" in prices.known()
        assert version("fluffycloud") == "0.1.0"
        (point,) = entry_points(group="nbprov.clouds", name="fluffycloud")
        assert point.load()().name == "fluffycloud"
        fetcher = prices.find("fluffycloud")
        assert fetcher is not None
        assert fetcher.cloud == "fluffycloud"
    finally:
        made.close()
    assert "fluffycloud" not in registry.names()


def test_package_knows_the_model_and_the_clouds_and_nothing_else_of_nbprov() -> None:
    for file in (HERE.parent / "fluffycloud").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                assert not name.startswith("nbprov") or name.startswith(
                    ("nbprov.model", "nbprov.clouds")
                ), f"{file.name}: {name}"


@pytest.mark.parametrize("entry", CORPUS, ids=lambda e: f"{e['status']}-{e['call']}-{e['cause']}")
def test_answer_means_what_its_label_says(entry: dict[str, Any], fluffy_errors: Any) -> None:
    said = fluffy_errors.failure_of(
        entry["status"], entry["body"], creates=entry["call"] == "submit"
    )
    assert (said.cause.value, said.scope and said.scope.value) == (entry["cause"], entry["scope"])
    assert said.message


@pytest.fixture(scope="module")
def fluffy_errors() -> Iterator[Any]:
    sys.path.insert(0, str(HERE.parent))
    try:
        from fluffycloud import errors

        yield errors
    finally:
        sys.path.remove(str(HERE.parent))
        for name in [name for name in sys.modules if name.partition(".")[0] == "fluffycloud"]:
            del sys.modules[name]


def test_without_a_key_it_is_disabled_and_says_what_to_do(
    fluffy: FluffyUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLUFFYCLOUD_KEY")
    told = fluffy.cloud.check()
    assert told.problem is not None
    assert told.problem.cause is Cause.CREDENTIALS
    assert "FLUFFYCLOUD_KEY" in told.problem.message


def test_shipped_prices_are_those_of_the_package(fluffy: FluffyUnderTest) -> None:
    shipped = fluffy.cloud.offers()
    assert shipped is not None
    assert {(o.region, o.instance_type, o.market, o.hourly) for o in shipped} == {
        ("meadow", "gpu", Market.ON_DEMAND, usd(2)),
        ("meadow", "small", Market.ON_DEMAND, usd("0.04")),
    }


def test_prices_are_fetched_from_the_cloud_itself(fluffy: FluffyUnderTest) -> None:
    fetcher = prices.find("fluffycloud")
    assert fetcher is not None
    fetching = Fetching({})
    assert fetcher.ready(fetching.context) == ""
    fluffy.change_price(1.5)
    rows = fetcher.fetch(fetching.context).rows
    assert {(r.region, r.instance_type) for r in rows} == {
        (region, kind) for region in ("meadow", "warren") for kind in ("gpu", "small")
    }
    (row,) = [r for r in rows if (r.region, r.instance_type) == ("meadow", "gpu")]
    assert (row.region, row.instance_type, row.accelerator, row.count, row.on_demand) == (
        "meadow",
        "gpu",
        "A100",
        1,
        usd(3),
    )


def test_stock_is_counted(fluffy: FluffyUnderTest) -> None:
    launch = fluffy.launch()
    offer = launch.candidate.offer

    def level(count: int) -> StockLevel:
        (told,) = fluffy.cloud.stock([offer], count)
        assert told.pool.region == "meadow"
        return told.level

    fluffy.leave(3)
    assert [level(count) for count in (1, 2, 4)] == [
        StockLevel.HIGH,
        StockLevel.LOW,
        StockLevel.NONE,
    ]
    fluffy.running(launch)
    assert [level(count) for count in (1, 2, 3)] == [
        StockLevel.HIGH,
        StockLevel.LOW,
        StockLevel.NONE,
    ]


def test_what_it_does_not_sell_is_refused_before_anything_is_sent(fluffy: FluffyUnderTest) -> None:
    for launch, cause in (
        (fluffy.launch(market=Market.SPOT), Cause.SPOT),
        (fluffy.launch(image="mine"), Cause.BAD_REQUEST),
    ):
        with pytest.raises(CloudError) as raised:
            fluffy.cloud.submit(launch)
        assert raised.value.failure.cause is cause
    assert fluffy.cloud.list("owner-1") == []


STORY = """
import nbprov

(told,) = nbprov.check(["fluffycloud"])
assert told.enabled, told
plan = nbprov.plan(SPEC)
assert [c.offer.cloud for c in plan.candidates] == ["fluffycloud"]
run = nbprov.provision(SPEC, "dev")
run.launch()
dev = run.wait()
assert dev.cell("x = 41; x + 1").value == "42"
dev.bash("echo kept > word")
dev.stop().wait()
dev.start().wait()
assert dev.bash("cat word").text.strip() == "kept"
dev.down().wait()
print("done")
"""


def test_a_spec_that_names_it_is_launched_used_stopped_started_and_ended(
    fluffy: FluffyUnderTest, nbprov_home: Path
) -> None:
    spec = "resources: {cloud: fluffycloud, accelerators: A100}\n"
    env = {**os.environ, "PYTHONPATH": str(fluffy.site)}
    said = subprocess.run(
        [sys.executable, "-c", f"SPEC = {spec!r}\n{STORY}"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.endswith("done\n")
    assert list((fluffy.folder / "i").glob("*")) == [], "a machine is left"
