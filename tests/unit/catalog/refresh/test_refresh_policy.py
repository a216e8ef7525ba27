"""When and from where: defaults, the file, the options, the environment."""

from __future__ import annotations

from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.refresh import Outcome, PriceFileStore, RefreshPolicy, Settings, Source

DAY = 86_400.0


def test_defaults(tmp_path: Path) -> None:
    settings = Settings.read(tmp_path, environ={})
    assert str(settings.policy("gcp")) == "every 7 h"
    assert settings.policy("gcp").every == settings.policy("cudo").every == 7 * 3600
    assert settings.policy("aws") == RefreshPolicy()
    assert settings.policy("runpod").never
    assert settings.source("aws") is Source.AUTO
    assert settings.mirrors("aws") == [
        "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8/aws/vms.csv",
        "https://skypilot-catalog.s3.us-east-1.amazonaws.com/catalogs/v8/aws/vms.csv",
    ]
    assert settings.automatic


def test_the_file_and_above_it_the_options(tmp_path: Path) -> None:
    (tmp_path / "catalog.toml").write_text(
        '[refresh]\ndefault = "1d"\ngcp = "never"\naws = "90 min"\n[source]\naws ='
        ' "provider"\n[mirror]\nprimary = "http://m/{cloud}.csv"\nfallback = ""\n'
    )
    settings = Settings.read(tmp_path, {"refresh": {"gcp": "2h"}}, environ={})
    assert settings.policy("gcp").every == 7200
    assert settings.policy("aws").every == 5400
    assert settings.policy("vast").every == DAY
    assert settings.policy("runpod").never
    assert settings.source("aws") is Source.PROVIDER
    assert settings.mirrors("gcp") == ["http://m/gcp.csv"]


@pytest.mark.parametrize("value", ["off", "OFF", "0", "false", "no"])
def test_the_environment_ends_automatic_refresh(tmp_path: Path, value: str) -> None:
    assert not Settings.read(tmp_path, environ={"NBPROV_CATALOG_REFRESH": value}).automatic
    assert Settings.read(tmp_path, environ={"NBPROV_CATALOG_REFRESH": "on"}).automatic


@pytest.mark.parametrize(
    "text",
    [
        "[refresh",
        '[refresh]\ngcp = "soon"',
        '[refresh]\ngcp = "0h"',
        "[refresh]\ngcp = 7",
        'automatic = "yes"',
        '[source]\naws = "friend"',
        '[mirror]\nprimary = "http://m/"',
        '[mirror]\nprimary = "file:///{cloud}"',
        '[mirror]\nthird = "x"',
        "refresh = 3",
        "policy = 1",
        "[endpoints]\naws = 3",
    ],
)
def test_what_is_not_understood_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalog.toml").write_text(text)
    with pytest.raises(CatalogError, match=r"catalog\.toml"):
        Settings.read(tmp_path)


@given(st.text(max_size=12))
def test_any_text_is_a_policy_or_an_error(text: str) -> None:
    try:
        policy = RefreshPolicy.of(text)
    except ValueError:
        return
    assert policy.every is None or policy.every > 0
    assert RefreshPolicy.of(str(RefreshPolicy.of("7h"))) == RefreshPolicy.of("7h")


def test_due_follows_policy_success_and_failure(
    upkeep: PriceFileStore, mirror: doubles.Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NBPROV_CATALOG_REFRESH")
    now = [1_800_000_000.0]
    home = world.upkeep(upkeep.home, tmp_path / "shipped", clock=lambda: now[0])
    mirror.host("gcp", world.v8_text())
    assert home.due() == ["cudo", "gcp"]
    assert [c.outcome for c in home.refresh(["cudo", "gcp"])] == [Outcome.FAILED, Outcome.UPDATED]
    assert home.due() == [], "what failed is let rest"
    (status,) = home.status(["gcp"])
    assert status.next_refresh == now[0] + 7 * 3600
    now[0] += 601
    assert home.due() == ["cudo"]
    now[0] += 7 * 3600
    assert home.due() == ["cudo", "gcp"]
    monkeypatch.setenv("NBPROV_CATALOG_REFRESH", "off")
    assert home.due() == []
    assert home.status(["gcp"])[0].next_refresh is None
