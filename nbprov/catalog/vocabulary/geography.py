"""Which country and which part of the world a region lies in, as far as its name tells, and the
words people use for both.

Parts of the world are `na` (North America with the Caribbean), `sa` (South America), `eu` (Europe,
the continent: with the United Kingdom, Switzerland and Norway), `as` (Asia), `me` (the Middle East,
which clouds count apart), `oc` (Oceania), `af` (Africa). Where a part of the world and a country
have one code, the part is meant: `sa` is South America, Saudi Arabia is written out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from .name_matching import pattern

_PARTS: Mapping[str, str] = {
    "na": "US CA MX GT BZ SV HN NI CR PA CU DO HT JM PR BS BB TT GL BM KY",
    "sa": "BR AR CL CO PE EC UY PY BO VE GY SR",
    "eu": "AD AL AT BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE"
    " LI LT LU LV MC MD ME MK MT NL NO PL PT RO RS RU SE SI SK "
    "SM UA VA XK",
    "as": "AM AZ BD BN BT CN GE HK ID IN JP KG KH KR KZ LA LK MM MN MO MV MY NP PH PK SG TH TJ"
    " TL TM TW UZ VN AF",
    "me": "AE BH IL IQ IR JO KW LB OM PS QA SA SY TR YE",
    "oc": "AU NZ FJ PG NC GU PF",
    "af": "ZA EG NG KE MA TN DZ GH ET TZ UG RW SN CI CM AO BW MU MZ NA ZM ZW LY",
}
PART_OF: Mapping[str, str] = {
    country: part for part, countries in _PARTS.items() for country in countries.split()
}
"""The part of the world of each country, by its ISO 3166 code."""

PART_WORDS: Mapping[str, str] = {
    "na": "na", "north america": "na", "northamerica": "na",
    "sa": "sa", "south america": "sa", "southamerica": "sa", "latin america": "sa",
    "eu": "eu", "europe": "eu", "eur": "eu",
    "as": "as", "asia": "as",
    "me": "me", "middle east": "me", "mideast": "me",
    "oc": "oc", "oceania": "oc",
    "af": "af", "africa": "af",
}  # fmt: skip

_NAMES = (
    "AE uae united-arab-emirates emirates; AR argentina; AT austria; AU australia; BE belgium;"
    " BG bulgaria; BH bahrain; BR brazil brasil; "
    "CA canada; CH switzerland; CL chile; CN china; CO colombia; CY cyprus; CZ czechia"
    " czech-republic czech; DE germany deutschland; DK denmark; "
    "EE estonia; EG egypt; ES spain; FI finland fin; FR france; GB uk united-kingdom"
    " great-britain britain england; GR greece; HK hong-kong; HR croatia; "
    "HU hungary; ID indonesia; IE ireland; IL israel; IN india; IS iceland ice; IT italy; JP"
    " japan; KE kenya; KR korea south-korea; KZ kazakhstan; "
    "LT lithuania; LU luxembourg; LV latvia; MX mexico; MY malaysia; NG nigeria; NL netherlands"
    " holland the-netherlands; NO norway; NZ new-zealand; "
    "PE peru; PH philippines; PL poland; PT portugal; QA qatar; RO romania; RS serbia; RU"
    " russia; SA saudi-arabia saudi ksa; SE sweden; SG singapore; "
    "SI slovenia; SK slovakia; TH thailand; TR turkey turkiye; TW taiwan; UA ukraine; US usa"
    " united-states america united-states-of-america; "
    "VN vietnam; ZA south-africa"
)
COUNTRY_WORDS: Mapping[str, str] = {
    **{code.lower(): code for code in PART_OF},
    **{
        name.replace("-", " "): line.split()[0]
        for line in _NAMES.split("; ")
        for name in line.split()[1:]
    },
}
"""Country by what people write, in lower case with blanks."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a region lies; either is empty where its name does not tell."""

    country: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class PlaceWord:
    """A word for a country (ISO code) or for a part of the world; one of them is empty."""

    country: str = ""
    part: str = ""

    def holds(self, ground: Ground) -> bool:
        """Whether a place lies there."""
        return ground.country == self.country if self.country else ground.part == self.part


@lru_cache(maxsize=4096)
def place_word(text: str) -> PlaceWord | None:
    """What a word means as a country or a part of the world; None where it means neither.

    Examples
    --------
    >>> place_word("EU"), place_word("germany"), place_word("us-east-1")
    (PlaceWord(country='', part='eu'), PlaceWord(country='DE', part=''), None)
    """
    plain = " ".join(re.split(r"[\s_-]+", text.strip().lower()))
    if plain in PART_WORDS:
        return PlaceWord(part=PART_WORDS[plain])
    country = COUNTRY_WORDS.get(plain)
    return PlaceWord(country=country) if country else None


def regions_meant(places: Mapping[str, Iterable[str]], text: str) -> set[tuple[str, str]]:
    """What a region's name, a pattern over names or a word means, as pairs of cloud and region.

    In each cloud, a region of literally this name (or one that the pattern fits) is what is meant.
    Only in a cloud without one, a word for a country or a part of the world stands for all regions
    that lie there: `CA` is RunPod's region `CA`, and AWS's in Canada.

    Parameters
    ----------
    places
        Regions by cloud.

    Examples
    --------
    >>> places = {"aws": ["eu-west-1", "us-east-1"], "runpod": ["US", "CZ"], "nebius": ["eu-north1"]}
    >>> sorted(regions_meant(places, "us")), sorted(regions_meant(places, "europe"))
    ([('aws', 'us-east-1'), ('runpod', 'US')], [('aws', 'eu-west-1'), ('nebius', 'eu-north1'),
    ('runpod', 'CZ')])"""
    fits = pattern(text)
    low = text.strip().lower()
    word = place_word(text)
    meant: set[tuple[str, str]] = set()
    for cloud, regions in places.items():
        here = [
            region
            for region in regions
            if (fits(region) if fits is not None else region.lower() == low)
        ]
        if not here and word is not None:
            here = [region for region in regions if word.holds(ground_of(cloud, region))]
        meant.update((cloud, region) for region in here)
    return meant


_AWS = (
    "CA ca-central-1 ca-west-1; MX mx-central-1; BR sa-east-1; IE eu-west-1; GB eu-west-2; FR"
    " eu-west-3; DE eu-central-1 eusc-de-east-1; "
    "CH eu-central-2; SE eu-north-1; IT eu-south-1; ES eu-south-2; IL il-central-1; BH"
    " me-south-1; AE me-central-1; ZA af-south-1; "
    "IN ap-south-1 ap-south-2; JP ap-northeast-1 ap-northeast-3; KR ap-northeast-2; SG"
    " ap-southeast-1; AU ap-southeast-2 ap-southeast-4; "
    "ID ap-southeast-3; MY ap-southeast-5; NZ ap-southeast-6; TH ap-southeast-7; HK ap-east-1;"
    " TW ap-east-2; CN cn-north-1 cn-northwest-1"
)
_GCP = (
    "CA northamerica-northeast1 northamerica-northeast2; MX northamerica-south1; BR"
    " southamerica-east1; CL southamerica-west1; BE europe-west1; "
    "GB europe-west2; DE europe-west3 europe-west10; NL europe-west4; CH europe-west6; IT"
    " europe-west8 europe-west12; FR europe-west9; "
    "ES europe-southwest1; FI europe-north1; SE europe-north2; PL europe-central2; IL me-west1;"
    " QA me-central1; SA me-central2; ZA africa-south1; "
    "TW asia-east1; HK asia-east2; JP asia-northeast1 asia-northeast2; KR asia-northeast3; IN"
    " asia-south1 asia-south2; SG asia-southeast1; "
    "ID asia-southeast2; TH asia-southeast3; AU australia-southeast1 australia-southeast2"
)
_LAMBDA = (
    "JP asia-northeast-1 asia-northeast-2; IN asia-south-1; AU australia-east-1"
    " australia-southeast-1; DE europe-central-1; IT europe-south-1; IL me-west-1"
)
_NEBIUS = "FI eu-north1; IS eu-north2; FR eu-west1; GB uk-south1; US us-central1; IL me-west1"
_DO = "US nyc sfo atl ric; CA tor; NL ams; DE fra; GB lon; IN blr; SG sgp; AU syd"
_AZURE_PARTS = (
    "HK eastasia; SG southeastasia; IE northeurope; NL westeurope; ZA southafrica; AU australia;"
    " AT austria; BE belgium; BR brazil; CA canada; CL chile; "
    "CN china; DK denmark; FI finland; FR france; DE germany; GR greece; IN india; ID indonesia;"
    " IL israel; IT italy; JP japan; KR korea; MY malaysia; "
    "MX mexico; NZ newzealand; NO norway; PL poland; QA qatar; SA saudi; ES spain; SE sweden; CH"
    " switzerland; TW taiwan; AE uae; GB uk"
)


def _by_name(table: str) -> dict[str, str]:
    return {name: line.split()[0] for line in table.split("; ") for name in line.split()[1:]}


_LISTED: Mapping[str, Mapping[str, str]] = {
    "aws": _by_name(_AWS),
    "gcp": _by_name(_GCP),
    "lambda": _by_name(_LAMBDA),
    "nebius": _by_name(_NEBIUS),
}
_AZURE = _by_name(_AZURE_PARTS)
_DROPLETS = _by_name(_DO)
_AZURE_US = re.compile(
    r"^(north|south|east|west)*(central)?us(gov\w+|dod\w+)?\d?(euap|stg|stage)?$"
)
_HEADS: Mapping[str, str] = {
    "ap": "as",
    "asia": "as",
    "northamerica": "na",
    "southamerica": "sa",
    "australia": "oc",
    "europe": "eu",
    "eu": "eu",
}
_CODE = re.compile(r"^[A-Z]{2}$")


@cache
def ground_of(cloud: str, region: str) -> Ground:
    """The country and part of the world of a cloud's region.

    Examples
    --------
    >>> ground_of("aws", "eu-central-1"), ground_of("vast", "Texas, US, NA"), ground_of("azure", "uksouth").country
    (Ground(country='DE', part='eu'), Ground(country='US', part='na'), 'GB')
    """
    country = _country(cloud, region)
    if country:
        return Ground(country, PART_OF.get(country, ""))
    head = re.split(r"[\s,_-]", region.strip().lower())[0].rstrip("0123456789")
    return Ground("", _HEADS.get(head, PART_WORDS.get(head, "")))


def _country(cloud: str, region: str) -> str:
    low = region.strip().lower()
    if cloud == "azure":
        if _AZURE_US.match(low):
            return "US"
        # The longest fragment decides: `southeastasia` holds `eastasia`, `southafrica` must not be
        # looked up by a shorter one.
        return next(
            (_AZURE[part] for part in sorted(_AZURE, key=len, reverse=True) if part in low), ""
        )
    if cloud == "do":
        return _DROPLETS.get(low[:3], "")
    listed = _LISTED.get(cloud, {}).get(low)
    return listed or _spelled(region)


def _spelled(region: str) -> str:
    """A country that the name itself holds.

    `Texas, US, NA`, `CANADA-1`, `se-stockholm-1`, `us-west-2`, `CZ`.
    """
    if "," in region:
        parts = [part.strip() for part in region.split(",")]
        codes = [part for part in parts if _CODE.match(part)]
        # Free text ends in country and part of the world; with one code alone, that is the country.
        if codes and (len(codes) > 1 or codes[0] in PART_OF):
            code = codes[-2] if len(codes) > 1 else codes[0]
            return code if code in PART_OF else ""
        return next(
            (
                COUNTRY_WORDS[part.lower()]
                for part in reversed(parts)
                if part.lower() in COUNTRY_WORDS
            ),
            "",
        )
    low = region.strip().lower()
    whole = COUNTRY_WORDS.get(low)
    if whole:
        return whole
    head = re.split(r"[\s_-]", low)[0].rstrip("0123456789")
    return "" if head in PART_WORDS and head != "as" else COUNTRY_WORDS.get(head, "")
