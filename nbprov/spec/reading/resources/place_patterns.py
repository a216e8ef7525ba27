"""Names and patterns of clouds, regions and zones, and what their text alone tells."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from nbprov.model.resources import PlaceGlob
from nbprov.spec.yaml.diagnostics import InvalidValue
from nbprov.spec.yaml.nodes import quoted

WHOLE_REST = frozenset({"kubernetes", "ssh"})
"""Clouds whose contexts and pools have slashes: all after the first slash is the region."""

_CLOUD = re.compile(r"[A-Za-z*?][A-Za-z0-9_*?-]*")
_PLACE = re.compile(r"[A-Za-z0-9*?][\w.+*? -]*")
_AREA = re.compile(r"[a-z ]+")


def is_pattern(text: str) -> bool:
    """Whether the text is a pattern and not a name."""
    return "*" in text or "?" in text


def cloud_name(text: str) -> str:
    """The lower-case name of a cloud, or a pattern.

    `k8s` is kubernetes; `*` is any cloud, which is the empty name.
    """
    name = text.strip().lower()
    if "/" in name:
        raise InvalidValue(
            f"{quoted(text)} is more than a cloud", f"write infra: {text.strip()}", "infra"
        )
    if not _CLOUD.fullmatch(name):
        raise InvalidValue(
            f"{quoted(text)} is not the name of a cloud", "write a cloud's name, as in aws", "infra"
        )
    return "kubernetes" if name == "k8s" else name.strip("*") and name


def place_name(text: str) -> str:
    """The name of a region or zone, or a pattern, as written; `*` is any, which is empty.

    Examples
    --------
    >>> place_name("eu-*"), place_name("*")
    ('eu-*', '')
    """
    name = text.strip()
    if "/" in name:
        raise InvalidValue(
            f"{quoted(name)} is more than one place", "write infra: cloud/region/zone", "infra"
        )
    if not _PLACE.fullmatch(name):
        raise InvalidValue(
            f"{quoted(name)} is not the name of a place", "write a name, as in us-east-1", "infra"
        )
    return name.strip("*") and name


def infra(text: str) -> PlaceGlob:
    """A place from `cloud/region/zone`; each part is a name, a pattern, or `*` for any.

    Examples
    --------
    >>> infra("gcp/*/us-west1-b")
    PlaceGlob(cloud='gcp', region='', zone='us-west1-b')
    """
    hint = "write cloud, cloud/region or cloud/region/zone; * means any"
    head, slash, rest = text.partition("/")
    cloud = cloud_name(head)
    if cloud in WHOLE_REST and rest.strip():
        return PlaceGlob(cloud, "" if rest.strip() == "*" else rest.strip())
    parts = [part.strip() for part in rest.split("/")] if slash else []
    if len(parts) > 2:
        raise InvalidValue(f"{quoted(text)} has more than three parts", hint, "infra")
    if any(not part for part in parts):
        raise InvalidValue(f"{quoted(text)} has an empty part", hint, "infra")
    region, zone = (place_name(part) for part in [*parts, "*", "*"][:2])
    return PlaceGlob(cloud, region, zone)


@lru_cache(maxsize=4096)
def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name, or everything that another pattern matches.

    Examples
    --------
    >>> matches("us-*", "US-east-1"), matches("eu-*", "eu-n*"), matches("eu-?", "eu-*")
    (True, True, False)
    """
    if not pattern:
        return True
    if not name or ("?" in pattern and "*" in name):
        return pattern.casefold() == name.casefold()
    return fnmatchcase(name.casefold(), pattern.casefold().replace("[", "[[]"))


def may_be_area(name: str) -> bool:
    """Whether a region's name may be a country or continent, such as `eu` or `germany`.

    Only the catalogue knows the regions in it.
    """
    return _AREA.fullmatch(name.casefold()) is not None


def is_under(rule: PlaceGlob, place: PlaceGlob) -> bool:
    """Whether a pattern contains a whole place, as far as the text tells."""
    return (
        matches(rule.cloud, place.cloud)
        and matches(rule.region, place.region)
        and matches(rule.zone, place.zone)
    )


def is_apart(rule: PlaceGlob, place: PlaceGlob) -> bool:
    """Whether a pattern and a place have nothing in common, because a full name differs."""
    return (
        _differ(rule.cloud, place.cloud)
        or _differ(rule.zone, place.zone)
        or (
            _differ(rule.region, place.region)
            and not may_be_area(rule.region)
            and not may_be_area(place.region)
        )
    )


def _differ(rule: str, name: str) -> bool:
    return bool(rule and name) and not is_pattern(name) and not matches(rule, name)


def rest_of(rule: PlaceGlob, place: PlaceGlob) -> PlaceGlob:
    """The parts of a pattern that a place does not already fulfil."""
    return PlaceGlob(
        *(
            "" if r and p and matches(r, p) else r
            for r, p in zip(_parts(rule), _parts(place), strict=True)
        ),
    )


def _parts(glob: PlaceGlob) -> tuple[str, str, str]:
    return (glob.cloud, glob.region, glob.zone)


def place_text(glob: PlaceGlob) -> str:
    """A place as `infra` writes it.

    Examples
    --------
    >>> place_text(PlaceGlob("aws", "us-*")), place_text(PlaceGlob(region="CZ"))
    ('aws/us-*', '*/CZ')
    """
    parts = [glob.cloud, glob.region, glob.zone]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return "/".join(part or "*" for part in parts)
