"""Changes of a spec that relax one constraint, each with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbprov.model.remarks import Origin
from nbprov.model.resources import Request
from nbprov.model.spec import Spec

from .lookup.enabled_clouds import EnabledCloud

RESOURCES = Origin("resources")


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One constraint, what to write instead, and the spec without it.

    `enabled` and `unblocked` hold what else changes in the conditions of the plan.

    Attributes
    ----------
    words
        YAML that replaces the field, or what to do.
    is_yaml
        Whether `words` is YAML.
    """

    field: str
    words: str
    spec: Spec
    is_yaml: bool = False
    origin: Origin = RESOURCES
    enabled: Mapping[str, EnabledCloud] | None = None
    unblocked: bool = False


class ChangeBuilder:
    """Builds the changes of one spec."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._requests = spec.requests

    def without(
        self, field: str, words: str, has: Callable[[Request], bool], **changes: Any
    ) -> Iterator[SpecChange]:
        """The change of a plain field in every request that has it; nothing if none has it."""
        if any(map(has, self._requests)):
            yield self.changed(field, words, self.replaced(has, **changes), self.origin(has))

    def replaced(self, has: Callable[[Request], bool], **changes: Any) -> list[Request]:
        """All requests, with the changes in those that have the field."""
        return [replace(r, **changes) if has(r) else r for r in self._requests]

    def changed(
        self,
        field: str,
        words: str,
        requests: Sequence[Request],
        origin: Origin,
        *,
        is_yaml: bool = False,
    ) -> SpecChange:
        return SpecChange(
            field,
            words,
            replace(self._spec, requests=_renumbered(requests)),
            is_yaml=is_yaml,
            origin=origin,
        )

    def origin(self, has: Callable[[Request], bool]) -> Origin:
        return next((r.origin for r in self._requests if has(r)), RESOURCES)


def _renumbered(requests: Sequence[Request]) -> tuple[Request, ...]:
    """Equal requests once, with new indices."""
    distinct = {replace(r, index=0, origin=Origin("")): r for r in reversed(requests)}
    return tuple(replace(r, index=i) for i, r in enumerate(reversed(distinct.values())))
