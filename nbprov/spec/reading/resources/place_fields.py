"""Read `cloud`, `region`, `zone` and `infra`.

Each is one place, a list or set of places, or a map of `allow`, `deny` and `prefer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nbprov.model.resources import PlaceGlob, PlaceRule
from nbprov.spec.reading.field_reader import converted, entries, join, recognise
from nbprov.spec.schema.registry import Section
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import Mapping, Node, Scalar, Sequence, describe, is_null

from .place_choices import ANY, PlacePick
from .place_patterns import (
    cloud_name,
    infra,
    is_apart,
    is_pattern,
    is_under,
    place_name,
    place_text,
)

MAX_LISTED = 250
"""Places in one list of a map: more than any cloud has regions, and few enough to compare."""

_KEYS = frozenset({"allow", "deny", "prefer"})


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


def reader_of(name: str) -> Callable[[Node, str, Findings], tuple[PlacePick, ...] | None]:
    """The reader of one of the four fields: it returns its picks, or None with a problem."""
    convert, wants, example = _FORMS[name]

    def read(node: Node, path: str, findings: Findings) -> tuple[PlacePick, ...] | None:
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
            return None if one is None else (PlacePick(one),)
        globs = _globs(node, path, findings, name)
        if globs is None:
            return None
        members = list(entries(node) or ())
        if len(members) > 1 and not any(_has_pattern(g) for g in globs):
            findings.note(
                node.start,
                path,
                "places",
                f"{path}: any of these, the cheapest first; to prefer one, use `ordered` or "
                "`prefer`",
            )
        return tuple(PlacePick(g) for g in dict.fromkeys(globs))

    return read


def _has_pattern(glob: PlaceGlob) -> bool:
    return is_pattern(glob.cloud + glob.region + glob.zone)


def _globs(node: Node, path: str, findings: Findings, name: str) -> list[PlaceGlob] | None:
    """The names and patterns of a list, a set or a single value; None, and a problem, if one is
    bad.
    """
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


def _read_map(
    node: Mapping, path: str, findings: Findings, name: str
) -> tuple[PlacePick, ...] | None:
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
    """The lists of an `allow`, `deny` and `prefer` map; None, and problems, if one is bad."""
    before = findings.problem_count
    lists = _Lists()
    for key, value in node.pairs:
        known = recognise(key, value, Section.PLACE, path, findings)
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


def _preferred(lists: _Lists, node: Mapping, path: str, findings: Findings) -> list[PlacePick]:
    """The preferred places in order, each a tier; one that an earlier one contains is left out."""
    at = node.get("prefer") or node
    picks: list[PlacePick] = []
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
                PlacePick(
                    glob,
                    (*lists.deny, *earlier),
                    () if inside else tuple(lists.allow),
                    len(earlier),
                )
            )
            earlier.append(glob)
    return picks


def _others(lists: _Lists, preferred: tuple[PlaceGlob, ...]) -> list[PlacePick]:
    return [
        PlacePick(glob, (*lists.deny, *preferred), (), len(preferred))
        for glob in lists.allow or [ANY]
    ]


def _short(glob: PlaceGlob) -> str:
    return place_text(glob) if glob.cloud else glob.region or glob.zone or "*"


def read_rules(node: Node, path: str, findings: Findings) -> tuple[PlaceRule, ...] | None:
    """Read `places`: rules of `cloud/region/zone` patterns, which must all hold."""
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
