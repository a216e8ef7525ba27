"""Reading `cloud`, `region`, `zone` and `infra`: one place, a list or set of places, or a map of `allow`, `deny` and `prefer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nbprov.model.spec import PlaceGlob, PlaceRule
from nbprov.spec.schema.registry import Where
from nbprov.spec.yaml.diagnostics import Findings

from .field_reader import converted, entries, join, recognise
from .nodes import Mapping, Node, Scalar, Sequence, describe, is_null
from .place_patterns import (
    cloud_name,
    infra,
    is_apart,
    is_pattern,
    is_under,
    place_name,
    place_text,
    rest_of,
)

MAX_REQUESTS = 1000
"""More alternatives than this is a mistake: no plan has so many kinds of machines."""

MAX_LISTED = 250
"""Places in one list of a map: more than any cloud has regions; keeps the comparing of lists short."""

ANY = PlaceGlob()
_KEYS = frozenset({"allow", "deny", "prefer"})


class TooMany(Exception):
    """Lists multiply out to more than `MAX_REQUESTS` alternatives."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One way to satisfy a place field.

    Attributes
    ----------
    glob
        The name or pattern.
    deny
        Places that are not meant.
    within
        An `allow` list of which the text alone does not tell whether it holds the name; empty where it does.
    rank
        Place in `prefer`.
    """

    glob: PlaceGlob = ANY
    deny: tuple[PlaceGlob, ...] = ()
    within: tuple[PlaceGlob, ...] = ()
    rank: int = 0


_FREE = Pick()


@dataclass(frozen=True, slots=True)
class Spot:
    """A place as the four fields make it. `infra` holds only what an `infra` map adds to its cloud, region and zone."""

    infra: Pick = _FREE
    cloud: Pick = _FREE
    region: Pick = _FREE
    zone: Pick = _FREE


ANYWHERE = (Spot(),)


class PlaceWish(NamedTuple):
    """A place as a request asks for it: names, rules beside them, and its rank among preferred places."""

    cloud: str = ""
    region: str = ""
    zone: str = ""
    rules: tuple[PlaceRule, ...] = ()
    rank: tuple[int, ...] = (0, 0, 0, 0)


@dataclass(slots=True)
class _Lists:
    allow: list[PlaceGlob] = field(default_factory=list)
    deny: list[PlaceGlob] = field(default_factory=list)
    prefer: list[PlaceGlob] = field(default_factory=list)


Convert = Callable[[str], PlaceGlob]

_FORMS: dict[str, tuple[Convert, str, str]] = {
    "infra": (infra, "cloud/region/zone", "aws/us-*"),
    "cloud": (lambda text: PlaceGlob(cloud=cloud_name(text)), "the name of a cloud", "aws"),
    "region": (lambda text: PlaceGlob(region=place_name(text)), "the name of a region", "us-*"),
    "zone": (lambda text: PlaceGlob(zone=place_name(text)), "the name of a zone", "us-east-1*"),
}


def reader_of(name: str) -> Callable[[Node, str, Findings], tuple[Pick, ...] | None]:
    """The reader of one of the four fields: its picks, or None, and a problem."""
    convert, wants, example = _FORMS[name]

    def read(node: Node, path: str, findings: Findings) -> tuple[Pick, ...] | None:
        if isinstance(node, Mapping) and (members := entries(node)) is None:
            return _read_map(node, path, findings, name)
        if isinstance(node, Mapping) and any(key.text in _KEYS for key, _ in node.pairs):
            message = f"{path}: allow, deny and prefer say nothing here"
            findings.error(
                node.start, path, "empty", message, f"write {name}: {{allow: [{example}]}}"
            )
            return None
        if isinstance(node, Scalar):
            one = converted(node, path, findings, convert, wants=wants)
            return None if one is None else (Pick(one),)
        globs = _globs(node, path, findings, name)
        if globs is None:
            return None
        members = list(entries(node) or ())
        if len(members) > 1 and not any(_has_pattern(g) for g in globs):
            findings.note(
                node.start,
                path,
                "places",
                f"{path}: any of these, the cheapest first; to prefer one, use `ordered` or `prefer`",
            )
        return tuple(Pick(g) for g in dict.fromkeys(globs))

    return read


def _has_pattern(glob: PlaceGlob) -> bool:
    return is_pattern(glob.cloud + glob.region + glob.zone)


def _globs(node: Node, path: str, findings: Findings, name: str) -> list[PlaceGlob] | None:
    """The names and patterns of a list, a set or a single value; None, and a problem, where one is not good."""
    convert, wants, example = _FORMS[name]
    members = [node] if isinstance(node, Scalar) else entries(node)
    if members is None:
        form = f"write {name}: {example}, [{example}, …] or {{allow: […], deny: […], prefer: […]}}"
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be {wants} or a list, not {describe(node)}",
            form,
        )
        return None
    found: list[PlaceGlob | None] = []
    for number, member in enumerate(members):
        here = path if member is node else f"{path}[{number}]"
        if is_null(member):
            findings.error(member.start, here, "empty", f"{here} is an empty entry", "remove it")
            found.append(None)
        else:
            found.append(converted(member, here, findings, convert, wants=wants))
    if not found:
        findings.error(
            node.start,
            path,
            "empty",
            f"{path} lists nothing",
            f"name a place, {name}: [{example}], or leave it out for any",
        )
    return (
        None if not found or any(g is None for g in found) else [g for g in found if g is not None]
    )


def _read_map(node: Mapping, path: str, findings: Findings, name: str) -> tuple[Pick, ...] | None:
    lists = read_lists(node, path, findings, name)
    if lists is None:
        return None
    before = findings.problem_count
    preferred = _preferred(lists, node, path, findings)
    picks = [*preferred, *_others(lists, tuple(pick.glob for pick in preferred))]
    left = [pick for pick in picks if not any(is_under(d, pick.glob) for d in pick.deny)]
    if findings.problem_count > before:
        return None
    if not left:
        findings.error(
            node.start,
            path,
            "empty",
            f"{path} denies every place it allows",
            "take a place out of deny",
        )
        return None
    return tuple(left)


def read_lists(node: Mapping, path: str, findings: Findings, name: str) -> _Lists | None:
    """The lists of an `allow`, `deny`, `prefer` map; None, and problems, where one is not good."""
    before = findings.problem_count
    lists = _Lists()
    for key, value in node.pairs:
        known = recognise(key, value, Where.PLACE, path, findings)
        if known is not None and not is_null(value):
            setattr(
                lists,
                known.name,
                list(dict.fromkeys(_globs(value, join(path, key.text), findings, name) or ())),
            )
    longest = max(len(lists.allow), len(lists.deny), len(lists.prefer))
    if longest > MAX_LISTED:
        message = f"{path} lists {longest:,} places; at most {MAX_LISTED}"
        findings.error(
            node.start, path, "too-many", message, f"write patterns: {name}: {{deny: [us-*]}}"
        )
    return lists if findings.problem_count == before else None


def _preferred(lists: _Lists, node: Mapping, path: str, findings: Findings) -> list[Pick]:
    """The preferred places in their order, each a tier of its own; what an earlier one holds is not asked for twice."""
    at = node.get("prefer") or node
    picks: list[Pick] = []
    earlier: list[PlaceGlob] = []
    for glob in lists.prefer:
        here = join(path, "prefer")
        if any(is_under(d, glob) for d in lists.deny):
            findings.error(
                at.start,
                here,
                "place",
                f"{here}: `{_short(glob)}` is denied as well",
                "take it out of one of the two lists",
            )
        elif lists.allow and all(is_apart(a, glob) for a in lists.allow):
            allow = ", ".join(_short(g) for g in [*lists.allow, glob])
            message = f"{here}: `{_short(glob)}` is not among the allowed places"
            findings.error(at.start, here, "place", message, f"write allow: [{allow}]")
        elif any(is_under(e, glob) for e in earlier):
            findings.note(
                at.start, here, "places", f"{here}: `{_short(glob)}` is held by an earlier one"
            )
        else:
            inside = not lists.allow or any(is_under(a, glob) for a in lists.allow)
            picks.append(
                Pick(
                    glob,
                    (*lists.deny, *earlier),
                    () if inside else tuple(lists.allow),
                    len(earlier),
                )
            )
            earlier.append(glob)
    return picks


def _others(lists: _Lists, preferred: tuple[PlaceGlob, ...]) -> list[Pick]:
    return [
        Pick(glob, (*lists.deny, *preferred), (), len(preferred)) for glob in lists.allow or [ANY]
    ]


def _short(glob: PlaceGlob) -> str:
    return place_text(glob) if glob.cloud else glob.region or glob.zone or "*"


def narrowed(
    outer: tuple[Spot, ...], given: dict[str, tuple[Pick, ...]]
) -> tuple[tuple[Spot, ...], bool]:
    """The places of an alternative, and whether its cloud pushed out an outer region or zone.

    `infra` replaces the outer places; a region or zone narrows the outer cloud; another cloud than the outer one takes the outer
    region and zone with it, which belong to that one.
    """
    if not given:
        return outer, False
    if "infra" in given:
        return tuple(_whole(pick) for pick in given["infra"] or (_FREE,)), False
    places, pushed = list(outer), False
    if "cloud" in given:
        _bound(len(outer) * len(given["cloud"]))
        places = [_with_cloud(spot, pick) for pick in given["cloud"] or (_FREE,) for spot in outer]
        if "region" not in given:
            clouds = [pick.glob for pick in given["cloud"]]
            placed = [s for s in outer if s.region.glob != ANY or s.zone.glob != ANY]
            pushed = any(clouds and all(is_apart(c, s.cloud.glob) for c in clouds) for s in placed)
    if "region" in given:
        heads = dict.fromkeys(Spot(spot.infra, spot.cloud) for spot in places)
        _bound(len(heads) * len(given["region"]))
        places = [
            replace(head, region=pick) for head in heads for pick in given["region"] or (_FREE,)
        ]
    if "zone" in given:
        _bound(len(places) * len(given["zone"]))
        places = [replace(spot, zone=pick) for spot in places for pick in given["zone"] or (_FREE,)]
    return tuple(dict.fromkeys(places)), pushed


def _bound(number: int) -> None:
    if number > MAX_REQUESTS:
        raise TooMany


def _whole(pick: Pick) -> Spot:
    glob = pick.glob
    return Spot(
        replace(pick, glob=ANY),
        Pick(PlaceGlob(cloud=glob.cloud)),
        Pick(PlaceGlob(region=glob.region)),
        Pick(PlaceGlob(zone=glob.zone)),
    )


def _with_cloud(spot: Spot, pick: Pick) -> Spot:
    return Spot(cloud=pick) if is_apart(pick.glob, spot.cloud.glob) else replace(spot, cloud=pick)


def wishes(spots: tuple[Spot, ...]) -> tuple[PlaceWish, ...]:
    """The places as requests ask for them: a name each, the patterns that differ in nothing else together in one rule."""
    groups: dict[PlaceWish, list[PlaceGlob]] = {}
    for spot in spots:
        found = _wish(spot)
        if found is not None:
            groups.setdefault(found[0], []).append(found[1])
    return tuple(_with_patterns(wish, globs) for wish, globs in groups.items())


def wishes_of_infra(
    allow: Iterable[PlaceGlob], deny: tuple[PlaceGlob, ...]
) -> tuple[PlaceWish, ...]:
    """What `infra: {allow: …, deny: …}` asks for."""
    return wishes(tuple(_whole(Pick(glob, deny)) for glob in allow))


def _wish(spot: Spot) -> tuple[PlaceWish, PlaceGlob] | None:
    """What a spot asks for, and its pattern; None where it denies all of itself."""
    said = (spot.cloud.glob.cloud, spot.region.glob.region, spot.zone.glob.zone)
    cloud, region, zone = ("" if is_pattern(part) else part for part in said)
    pattern = PlaceGlob(*(part if is_pattern(part) else "" for part in said))
    picks = (spot.infra, spot.cloud, spot.region, spot.zone)
    rank = (picks[0].rank, picks[1].rank, picks[2].rank, picks[3].rank)
    if not any(pick.deny or pick.within for pick in picks):
        return PlaceWish(cloud, region, zone, (), rank), pattern
    place = PlaceGlob(*said)
    deny: dict[PlaceGlob, None] = {}
    for glob in (d for pick in picks for d in pick.deny if not is_apart(d, place)):
        left = rest_of(glob, place)
        if left == ANY:
            return None
        deny[left] = None
    rules = [PlaceRule((), tuple(sorted(deny, key=_sort_key)))] if deny else []
    for pick in picks:
        allow = tuple(
            sorted(
                {rest_of(a, place) for a in pick.within if not is_apart(a, place)}, key=_sort_key
            )
        )
        if pick.within and ANY not in allow:
            rules.append(PlaceRule(allow))
    return PlaceWish(cloud, region, zone, tuple(rules), rank), pattern


def _sort_key(glob: PlaceGlob) -> tuple[str, str, str]:
    return (glob.cloud, glob.region, glob.zone)


def _with_patterns(wish: PlaceWish, globs: list[PlaceGlob]) -> PlaceWish:
    allow = tuple(sorted(set(globs), key=_sort_key))
    if ANY in allow:
        return wish
    rules = list(wish.rules)
    if rules and not rules[0].allow:
        rules[0] = PlaceRule(allow, rules[0].deny)
    else:
        rules.insert(0, PlaceRule(allow))
    return wish._replace(rules=tuple(rules))


def read_rules(node: Node, path: str, findings: Findings) -> tuple[PlaceRule, ...] | None:
    """Read `places`: rules of `cloud/region/zone` patterns that must all hold beside cloud, region and zone."""
    example = "write places: [{allow: [aws/us-*], deny: [aws/us-west-1]}]"
    if not isinstance(node, Sequence):
        findings.error(
            node.start,
            path,
            "type",
            f"{path} must be a list of maps, not {describe(node)}",
            example,
        )
        return None
    rules = []
    for number, item in enumerate(node.items):
        here = f"{path}[{number}]"
        if not isinstance(item, Mapping):
            findings.error(
                item.start,
                here,
                "type",
                f"{here} must be a map of allow and deny, not {describe(item)}",
                example,
            )
            continue
        if (preferred := item.get("prefer")) is not None:
            findings.error(
                preferred.start,
                join(here, "prefer"),
                "place",
                "a rule under places has no order",
                "write infra: {prefer: […]}",
            )
            continue
        lists = read_lists(item, here, findings, "infra")
        if lists is not None:
            rules.append(PlaceRule(tuple(lists.allow), tuple(lists.deny)))
    return tuple(rules)
