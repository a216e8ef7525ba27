"""The verbs for price files: refresh, status, diff and restore."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest

import nbprov
from nbprov import api
from nbprov.api import price_refresh
from nbprov.catalog import CatalogError
from nbprov.catalog.refresh import Outcome, Settings, Source
from nbprov.catalog.refresh.automatic import automatic_source
from nbprov.clouds import registry
from nbprov.model.errors import UsageError


@pytest.fixture
def mirror(nbprov_home: Path) -> Iterator[doubles.Mirror]:
    """A mirror that the test's home fetches from, and a session of the test's own."""
    with doubles.mirror() as made:
        world.settings(nbprov_home, made.address)
        yield made
    api.close()


def test_refresh_by_name_and_the_next_question_sees_it(
    mirror: doubles.Mirror, nbprov_home: Path
) -> None:
    mirror.host("lambda", world.v8_text(factor=1.01))
    session = nbprov.session()
    before = session.prices("A10", query=None).to_frame()
    done = nbprov.refresh_prices("lambda", force=True)
    assert done["lambda"].outcome is Outcome.UPDATED
    assert session.catalogue.path("lambda") == nbprov_home / "catalogs" / "lambda"
    after = session.prices("A10").to_frame()
    assert len(after) != len(before)
    assert session.catalogue.diff("lambda").counts()["gone"] > 0
    (status,) = session.catalogue.status(["lambda"])
    assert status.source == "hosted"
    assert session.catalogue.restore("lambda") == {"lambda": "the shipped prices"}
    assert len(session.prices("A10").to_frame()) == len(before)


def test_one_failed_refresh_keeps_the_prices_that_only_an_adapter_has(
    mirror: doubles.Mirror, nbprov_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter from outside the tree may take its price folder for a list that was fetched."""
    point = EntryPoint("fluffycloud", "fluffycloud.make", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_points", lambda: {"fluffycloud": point})
    folder = nbprov_home / "catalogs" / "fluffycloud"
    done = nbprov.refresh_prices(["fluffycloud"])["fluffycloud"]
    assert done.outcome is Outcome.FAILED
    assert not folder.exists()
    mirror.host("fluffycloud", world.v8_text())
    nbprov.refresh_prices(["fluffycloud"])
    assert (folder / "vms.csv").exists()
    mirror.files.clear()
    assert nbprov.refresh_prices(["fluffycloud"])["fluffycloud"].outcome is Outcome.FAILED
    assert (folder / "vms.csv").exists()


def test_a_fetched_list_stands_before_what_the_adapter_offers(mirror: doubles.Mirror) -> None:
    session = nbprov.session()
    assert {o.source for o in session.prices(cloud="local").offers()} == {"simulated"}
    folder = session.catalogue.upkeep().folder("local").path
    folder.mkdir(parents=True)
    (folder / "vms.csv").write_text(world.v8_text())
    assert {o.instance_type for o in session.prices(cloud="local").offers()} == {
        f"gpu_{count}x_{name.lower()}" for name, count, _, _ in world.TYPES
    }


def test_the_twin_of_aio(mirror: doubles.Mirror) -> None:
    mirror.host("lambda", world.v8_text())
    done = asyncio.run(nbprov.aio.refresh_prices(["lambda"], force=True))
    assert done["lambda"].outcome is Outcome.UPDATED


def test_a_source_that_is_none(mirror: doubles.Mirror) -> None:
    with pytest.raises(UsageError, match="auto, hosted, provider"):
        nbprov.refresh_prices(["lambda"], source="friend")


def test_options_beat_the_file_and_bad_ones_change_nothing(mirror: doubles.Mirror) -> None:
    catalogue = nbprov.session().catalogue
    catalogue.configure({"lambda": "2h", "default": "1d"})
    with pytest.raises(CatalogError, match="soon"):
        catalogue.configure({"lambda": "soon"})
    policies = {status.cloud: str(status.policy) for status in catalogue.status()}
    assert policies["lambda"] == "every 2 h"
    assert policies["aws"] == "every 1 d"
    assert policies["gcp"] == "every 7 h"


def test_automatic_refresh_runs_once_behind_the_question(
    mirror: doubles.Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBPROV_CATALOG_REFRESH")
    mirror.host("cudo", world.v8_text())
    catalogue = nbprov.session().catalogue
    thread = catalogue.begin_automatic()
    assert thread.daemon
    assert catalogue.begin_automatic() is thread
    thread.join(60)
    assert not thread.is_alive()
    assert {path.split("/")[2] for path, _ in mirror.asked} == {"cudo", "gcp"}


def test_a_kernel_that_is_open_for_days_renews_prices_again(
    mirror: doubles.Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBPROV_CATALOG_REFRESH")
    monkeypatch.setattr(price_refresh, "BEHIND_SECONDS", 0.0)
    mirror.host("cudo", world.v8_text())
    catalogue = nbprov.session().catalogue
    first = catalogue.begin_automatic()
    first.join(60)
    assert len(mirror.requests("cudo")) == 1
    folder = catalogue.upkeep().folder("cudo")
    folder.remember(folder.state, fetched=0.0, tried=0.0)
    assert catalogue.begin_automatic() is first, "it was looked a moment ago"
    catalogue._looked -= 2 * price_refresh.LOOK_EVERY
    second = catalogue.begin_automatic()
    assert second is not first
    second.join(60)
    assert len(mirror.requests("cudo")) == 2
    catalogue._looked -= 2 * price_refresh.LOOK_EVERY
    catalogue.begin_automatic().join(60)
    assert len(mirror.requests("cudo")) == 2, "nothing is due"


def test_nothing_renews_itself_from_a_branch_of_somebody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("NBPROV_GCP_API_KEY", "GOOGLE_CLOUD_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    usual = Settings()
    assert automatic_source(usual, "gcp") is None, "without a key Google cannot be asked"
    assert automatic_source(usual, "oci") is None
    monkeypatch.setenv("NBPROV_GCP_API_KEY", "AIza-key")
    assert automatic_source(usual, "gcp") is Source.PROVIDER
    chosen = Settings(sources={"oci": Source.HOSTED})
    assert automatic_source(chosen, "oci") is Source.HOSTED
    assert automatic_source(Settings(primary="https://mine/{cloud}.csv"), "oci") is Source.AUTO


def test_automatic_refresh_is_off_where_the_environment_says_so(mirror: doubles.Mirror) -> None:
    nbprov.session().catalogue.begin_automatic().join(60)
    assert mirror.asked == []


def test_library_use_never_refreshes_by_itself(
    mirror: doubles.Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBPROV_CATALOG_REFRESH")
    assert len(nbprov.prices("H100")) > 0
    assert mirror.asked == []


def test_automatic_refresh_is_silent_when_settings_are_broken(
    mirror: doubles.Mirror,
    nbprov_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("NBPROV_CATALOG_REFRESH")
    (nbprov_home / "catalog.toml").write_text("[refresh")
    nbprov.session().catalogue.begin_automatic().join(60)
    out, err = capsys.readouterr()
    assert out == err == ""
