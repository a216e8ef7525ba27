"""When each cloud's prices are refreshed, and from where.

The settings come from defaults, `catalog.toml`, a notebook's options and an environment variable.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from nbprov.catalog.errors import CatalogError
from nbprov.model.clock import Seconds, short_duration

FILE_NAME: Final = "catalog.toml"
VARIABLE: Final = "NBPROV_CATALOG_REFRESH"
"""`off` ends all automatic refreshes; a refresh that somebody asks for still works."""

PRIMARY: Final = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8/{cloud}/vms.csv"
FALLBACK: Final = "https://skypilot-catalog.s3.us-east-1.amazonaws.com/catalogs/v8/{cloud}/vms.csv"

UNHOSTED: Final = frozenset({"azure"})
"""Clouds without a file on the v8 mirror, which is therefore not asked for them."""
HOSTED: Final = frozenset(
    {
        "aws",
        "cudo",
        "do",
        "fluidstack",
        "gcp",
        "hyperbolic",
        "hyperstack",
        "ibm",
        "jarvislabs",
        "lambda",
        "lium",
        "mithril",
        "nebius",
        "oci",
        "paperspace",
        "primeintellect",
        "runpod",
        "seeweb",
        "shadeform",
        "spheron",
        "vast",
        "verda",
        "yotta",
    }
)
"""Clouds that are known to have a file on the v8 mirror.

They can be asked for by name before any price of theirs is stored.
"""

ON_DEMAND: Final = "on demand"
NEVER: Final = "never"

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(min|m|h|d)")
_UNITS = {"min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_OFF = ("0", "off", "no", "false", "never")


class Source(StrEnum):
    """Where prices are fetched from.

    AUTO
        The user's own mirror, if there is one; the cloud itself where that has no file.
    HOSTED
        The mirror: the user's own, or the v8 files that are hosted for SkyPilot, which need no
        account but are not signed.
    PROVIDER
        The cloud's own price list.
    """

    AUTO = "auto"
    HOSTED = "hosted"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """When a cloud is refreshed automatically.

    Attributes
    ----------
    every
        The first price question of a notebook refreshes prices that are older than this. None:
        they are refreshed only when asked.
    never
        The prices are kept by hand: a refresh of all clouds skips this one, and only a refresh
        that names it fetches them.
    """

    every: Seconds | None = None
    never: bool = False

    def __str__(self) -> str:
        if self.never:
            return NEVER
        return (
            ON_DEMAND
            if self.every is None
            else f"every {short_duration(self.every).removesuffix(' 0 min')}"
        )

    @classmethod
    def of(cls, text: str) -> RefreshPolicy:
        """Read `7h`, `30 min`, `1d`, `on demand` or `never`.

        Raises
        ------
        ValueError
            If it is none of these.
        """
        word = text.strip().lower().removeprefix("every ").replace("-", " ").replace("_", " ")
        if word == NEVER:
            return cls(never=True)
        if word in (ON_DEMAND, "manual"):
            return cls()
        found = _LENGTH.fullmatch(word)
        if found is None or float(found[1]) <= 0:
            raise ValueError(f"{text!r} is no refresh policy: write 7h, on demand, or never")
        return cls(every=float(found[1]) * _UNITS[found[2]])


DEFAULTS: Final[Mapping[str, RefreshPolicy]] = {
    "gcp": RefreshPolicy(every=7 * 3600.0),
    "cudo": RefreshPolicy(every=7 * 3600.0),
    "runpod": RefreshPolicy(never=True),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The chosen refresh settings. `Settings.read` makes them.

    Attributes
    ----------
    automatic
        Whether anything is refreshed without being asked.
    policies, sources
        By cloud, where they differ from `default_policy` and `default_source`.
    primary, fallback
        Addresses of the mirror, `{cloud}` in them; an empty fallback means there is none.
    regions, endpoints
        By cloud, for its own price list.
    """

    automatic: bool = True
    default_policy: RefreshPolicy = field(default_factory=RefreshPolicy)
    policies: Mapping[str, RefreshPolicy] = field(default_factory=lambda: dict(DEFAULTS))
    default_source: Source = Source.AUTO
    sources: Mapping[str, Source] = field(default_factory=dict)
    primary: str = PRIMARY
    fallback: str = FALLBACK
    regions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    endpoints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        home: Path,
        options: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Read the settings of a home folder.

        Parameters
        ----------
        options
            What a notebook sets beside the file, in its form; it wins.

        Raises
        ------
        CatalogError
            If the file cannot be read, or says something that is not understood.
        """
        path = home / FILE_NAME
        try:
            with path.open("rb") as file:
                told: Mapping[str, Any] = tomllib.load(file)
        except FileNotFoundError:
            told = {}
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise CatalogError(
                f"{path} cannot be read: {error}",
                hint="correct it, or move it away",
                code="catalog.settings",
            ) from error
        settings = _taken(cls(), told, str(path))
        if options:
            settings = _taken(settings, options, "%config Nbprov.catalog_refresh")
        env = os.environ if environ is None else environ
        if env.get(VARIABLE, "").strip().lower() in _OFF:
            settings = replace(settings, automatic=False)
        return settings

    def policy(self, cloud: str) -> RefreshPolicy:
        """Return the refresh policy of this cloud."""
        return self.policies.get(cloud, self.default_policy)

    def source(self, cloud: str) -> Source:
        """Return the source of this cloud's prices; `AUTO` if nothing else was chosen."""
        return self.sources.get(cloud, self.default_source)

    def mirrors(self, cloud: str) -> list[str]:
        """Return the addresses of a cloud's hosted file, in the order in which they are asked."""
        return [base.replace("{cloud}", cloud) for base in (self.primary, self.fallback) if base]


def _taken(settings: Settings, told: Mapping[str, Any], where: str) -> Settings:
    """Return the settings changed by what a file or an option says.

    The keys are `automatic`, `refresh`, `source`, `mirror`, `regions` and `endpoints`.
    """
    changes: dict[str, Any] = {}
    try:
        for key, value in told.items():
            if key == "automatic":
                changes["automatic"] = _truth(value)
            elif key == "refresh":
                chosen = {cloud: RefreshPolicy.of(str(text)) for cloud, text in value.items()}
                changes["default_policy"] = chosen.pop("default", settings.default_policy)
                changes["policies"] = {**settings.policies, **chosen}
            elif key == "source":
                named = {cloud: Source(str(text)) for cloud, text in value.items()}
                changes["default_source"] = named.pop("default", settings.default_source)
                changes["sources"] = {**settings.sources, **named}
            elif key == "mirror":
                changes |= {name: _address(name, text) for name, text in value.items()}
            elif key == "regions":
                changes["regions"] = {
                    **settings.regions,
                    **{cloud: tuple(map(str, names)) for cloud, names in value.items()},
                }
            elif key == "endpoints":
                changes["endpoints"] = {
                    **settings.endpoints,
                    **{cloud: {str(k): str(v) for k, v in m.items()} for cloud, m in value.items()},
                }
            else:
                raise ValueError(
                    f"{key!r} is none of automatic, refresh, source, mirror, regions, endpoints"
                )
    except (ValueError, TypeError, AttributeError) as error:
        raise CatalogError(
            f"{where}: {error}", hint="docs/catalogue.md shows its form", code="catalog.settings"
        ) from error
    return replace(settings, **changes)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"automatic is true or false, not {value!r}")
    return value


def _address(name: str, text: object) -> str:
    if name not in ("primary", "fallback"):
        raise ValueError(f"the mirror has a primary and a fallback, no {name!r}")
    if text and (
        not isinstance(text, str)
        or "{cloud}" not in text
        or not text.startswith(("http://", "https://"))
    ):
        raise ValueError(f"{name} is an address with {{cloud}} in it, not {text!r}")
    return str(text)
