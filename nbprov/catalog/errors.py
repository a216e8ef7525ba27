"""The errors of the catalogue that people see."""

from __future__ import annotations

from collections.abc import Sequence

from nbprov.model.errors import NbprovError


class CatalogError(NbprovError):
    """A price file is missing, or is not in a form nbprov reads."""

    code = "catalog"


class QueryError(NbprovError):
    """A price question is not in a form nbprov reads: a pattern, a count, a size, a date."""

    code = "catalog.query"


class UnknownName(NbprovError):
    """The catalogue has no accelerator, cloud, region, zone or instance type of this name.

    Attributes
    ----------
    name
        What was asked for.
    close
        The nearest names that exist, best first.
    kind
        `accelerator`, `cloud`, `region`, `zone` or `instance type`.
    """

    code = "catalog.unknown-accelerator"

    def __init__(self, name: str, close: Sequence[str], kind: str = "accelerator") -> None:
        self.name = name
        self.close = tuple(close)
        self.kind = kind
        hint = (
            f"did you mean {', '.join(self.close)}?"
            if self.close
            else "%prices lists everything that is sold"
        )
        super().__init__(
            f"no {kind} is called {name!r}",
            hint=hint,
            code=f"catalog.unknown-{kind.replace(' ', '-')}",
        )


class AmbiguousName(NbprovError):
    """A fragment of a name matches several accelerators.

    Attributes
    ----------
    name
        What was asked for.
    close
        All names that contain it, sorted.
    """

    code = "catalog.ambiguous-accelerator"

    def __init__(self, name: str, close: Sequence[str]) -> None:
        self.name = name
        self.close = tuple(close)
        super().__init__(
            f"{name!r} could be any of {', '.join(self.close)}",
            hint="write one of these names in full",
        )
