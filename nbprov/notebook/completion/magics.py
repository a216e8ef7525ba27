"""Completion inside the magics: flags, YAML keys, and names of GPUs, clouds and clusters."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion

if TYPE_CHECKING:
    import argparse

    from nbprov.catalog import Catalog
    from nbprov.notebook.arguments import MagicParser

_MAGICS = re.compile(r"\s*(?:\w+\s*=\s*)?%{1,2}(provision|prices|clusters|on|nbprov)\b")
_LARGE_PLACES = ("eu", "us", "asia")
"""Parts of the world that a region may name, which are offered before the clouds' own names."""
_MOST_BESIDE = 60
"""The longest description beside a completion, in characters."""
_MOST = 200
"""The most completions that are offered."""


class _NothingElse(list[SimpleCompletion]):
    """No completion, where no other matcher is to be asked.

    IPython ignores `suppress` where the list has no length, and would offer names of Python.
    """

    def __len__(self) -> int:
        return 1


def completions_at(context: Any) -> dict[str, Any]:
    """Return what fits at the cursor of a cell that is one of our magics; nothing elsewhere.

    Parameters
    ----------
    context
        IPython's `CompletionContext`.
    """
    first, _, _ = context.full_text.partition("\n")
    found = _MAGICS.match(first)
    if found is None:
        return {"completions": [], "suppress": False}
    word, offered = _complete(found.group(1), context, first)
    # Case is ignored here because the magics ignore it too.
    fitting = [text for text in offered if text.casefold().startswith(word.casefold())]
    # Front ends show the type beside the text, as they show `function` beside a name of Python.
    made = [SimpleCompletion(text=text, type=offered[text] or "nbprov") for text in fitting[:_MOST]]
    # In a cell that runs on a machine the words are Python, and so may be those of this kernel.
    is_python = found.group(1) == "on" and context.cursor_line > 0
    return {
        "completions": made if made or is_python else _NothingElse(),
        "matched_fragment": word,
        "suppress": True,
        "do_not_suppress": set(),
    }


def _complete(magic: str, context: Any, first: str) -> tuple[str, dict[str, str]]:
    """Return the word at the cursor, and what is offered with a few words on each."""
    if context.cursor_line == 0:
        before = first[: context.cursor_position]
        word = re.split(r"\s", before)[-1]
        return word, _line_words(magic, before, word)
    if magic == "provision" or (magic == "nbprov" and "plan" in first):
        return _yaml_words(context)
    if magic == "on":
        from .remote import remote_words

        body = context.full_text.split("\n", 1)[1]
        lines = body.split("\n")
        line = context.cursor_line - 1
        at = sum(len(one) + 1 for one in lines[:line]) + context.cursor_position
        word, names = remote_words(first, body, at)
        return word, dict.fromkeys(names, "")
    return "", {}


def _line_words(magic: str, before: str, word: str) -> dict[str, str]:
    previous = before[: len(before) - len(word)].split()[1:]
    if magic == "nbprov":
        from nbprov.notebook.commands.registry import COMMANDS

        if not previous:
            return dict.fromkeys(sorted(COMMANDS), "")
    parser = magic_parser(magic, previous)
    if parser is None:
        return {}
    if word.startswith("-"):
        return {flag: _first_words(words) for flag, words in parser.flags().items()}
    action = parser.option(previous[-1]) if previous else None
    if magic == "nbprov" and previous[0] in ("jobs", "logs"):
        from nbprov.notebook.commands.jobs import completions

        dest = action.dest if action is not None else ""
        return dict.fromkeys(completions(previous, dest, list(_cluster_names())), "")
    if action is not None:
        return dict.fromkeys(_option_values(action, previous), "")
    if magic == "prices":
        return _accelerators()
    if magic == "nbprov" and previous[0] == "catalog":
        from nbprov.notebook.commands.catalog import ACTIONS

        return dict.fromkeys(ACTIONS if len(previous) == 1 else _catalog().clouds(), "")
    # A new cluster has no name yet, but %%provision may name an existing one.
    return _cluster_names() if magic in ("on", "nbprov", "provision") else {}


def magic_parser(magic: str, previous: list[str]) -> MagicParser | None:
    """Return the parser of a magic; of `%nbprov`, that of its command, if one is named."""
    from nbprov.notebook.magics import parsers

    if magic == "nbprov":
        from nbprov.notebook.commands.registry import COMMANDS, parser_of

        is_known = bool(previous) and previous[0] in COMMANDS
        return parser_of(previous[0]) if is_known else None
    made: dict[str, Callable[[], MagicParser]] = {
        "provision": parsers.provision_parser,
        "prices": parsers.prices_parser,
        "on": parsers.on_parser,
        "clusters": parsers.clusters_parser,
    }
    return made[magic]()


def _option_values(option: argparse.Action, previous: list[str]) -> list[str]:
    if option.dest == "cloud":
        return _catalog().clouds()
    if option.dest == "assume":
        return [*_catalog().clouds(), "all"]
    if option.dest in ("region", "zone", "type"):
        named = [value for flag, value in pairwise(previous) if flag == "--cloud"]
        clouds = _catalog().clouds()
        return _names_in([cloud for cloud in clouds if cloud in named] or clouds, option.dest)
    return [str(choice) for choice in option.choices or ()]


def _names_in(clouds: list[str], what: str) -> list[str]:
    """Return the regions, zones or instance types of these clouds."""
    if what == "region":
        return _regions(clouds)
    catalog = _catalog()
    if what == "type":
        return sorted(catalog.instance_types(clouds))
    return sorted(
        {
            zone
            for cloud in clouds
            for region in catalog.regions(cloud)
            for zone in catalog.zones(cloud, region)
        }
    )


def _yaml_words(context: Any) -> tuple[str, dict[str, str]]:
    from nbprov.spec import keys_at

    body = context.full_text.split("\n", 1)[1]
    place = keys_at(body, context.cursor_line, context.cursor_position + 1)
    if not place.field:
        return place.prefix, {f"{key.name}:": _first_words(key.doc) for key in place.keys}
    if place.values:
        return place.prefix, dict.fromkeys(place.values, "")
    if place.field == "accelerators":
        return place.prefix, _accelerators()
    catalog = _catalog()
    values: Iterable[str] = ()
    if place.field == "cloud":
        values = [*catalog.clouds(), "local"]
    elif place.field == "infra":
        values = _infra_words(place.prefix)
    elif place.field == "region":
        values = [*_LARGE_PLACES, *_regions(_named_clouds(body))]
    elif place.field == "zone":
        values = _names_in(_named_clouds(body), "zone")
    elif place.field == "instance_type":
        values = _names_in(_named_clouds(body), "type")
    return place.prefix, dict.fromkeys(values, "")


def _first_words(text: str) -> str:
    """Return the first clause of a description, as much of it as fits beside a name."""
    clause = re.split(r"[:;.] |\.$", text.replace("`", ""), maxsplit=1)[0]
    return clause if len(clause) <= _MOST_BESIDE else f"{clause[: _MOST_BESIDE - 1]}…"


def _accelerators() -> dict[str, str]:
    """Return the accelerators on sale, with the cheapest price of one and how many sell it."""
    from nbprov.catalog import Query
    from nbprov.catalog.accelerators_on_sale import accelerators_of
    from nbprov.model.money import format_usd

    catalog = _catalog()
    sold = {one.name: one for one in accelerators_of(catalog.select(Query()))}
    return {
        name: f"from {format_usd(one.each)} an hour; {one.offers:,} offers in"
        f" {len(one.clouds)} cloud{'' if len(one.clouds) == 1 else 's'}"
        if (one := sold.get(name)) is not None
        else ""
        for name in catalog.accelerators()
    }


def _named_clouds(body: str) -> list[str]:
    """Return the clouds that a spec names, else all."""
    clouds = _catalog().clouds()
    named = [cloud for cloud in clouds if re.search(rf"\b(?:cloud|infra)\s*:.*\b{cloud}\b", body)]
    return named or clouds


def _infra_words(prefix: str) -> list[str]:
    """Return clouds, or the regions and zones of the cloud before the slash."""
    catalog = _catalog()
    cloud, *rest = prefix.split("/")
    if not rest:
        return [*catalog.clouds(), "local"]
    if len(rest) == 1:
        return [f"{cloud}/{region}" for region in _regions([cloud])]
    return [f"{cloud}/{rest[0]}/{zone}" for zone in catalog.zones(cloud, rest[0])]


def _catalog() -> Catalog:
    from nbprov.catalog import default_catalog

    return default_catalog()


def _regions(clouds: Iterable[str]) -> list[str]:
    catalog = _catalog()
    # A marketplace also has places without a name of their own, such as `, CN, AS`.
    return sorted(
        {region for cloud in clouds for region in catalog.regions(cloud) if re.match(r"\w", region)}
    )


def _cluster_names() -> dict[str, str]:
    # A completion never opens a ledger, so without a session there are no names.
    api = sys.modules.get("nbprov.api")
    here = api.current() if api is not None else None
    if here is None:
        return {}
    from nbprov.notebook.rendering.formatting import describe_candidate

    under_way = {name: run.state.value for name, run in here.runs.items() if not run.done}
    running = {
        view.name: f"{view.state.value}: {describe_candidate(view.candidate)}"
        if view.candidate is not None
        else view.state.value
        for view in here.clusters()
    }
    return {**under_way, **running}
