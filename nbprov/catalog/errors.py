"""What goes wrong with the catalogue, as errors that people see."""

from __future__ import annotations

from collections.abc import Sequence

from nbprov.model.errors import NbprovError


class CatalogError(NbprovError):
    """A price file is missing, or is not in a form nbprov reads."""

    code = "catalog"


class UnknownName(NbprovError):
    """No accelerator in the catalogue has this name or holds it as a fragment.

    Attributes
    ----------
    name
        What was asked for.
    close
        The nearest names that exist, best first.
    """

    code = "catalog.unknown-accelerator"

    def __init__(self, name: str, close: Sequence[str]) -> None:
        self.name = name
        self.close = tuple(close)
        hint = f"did you mean {', '.join(self.close)}?" if self.close else "%prices lists every accelerator that is sold"
        super().__init__(f"no accelerator is called {name!r}", hint=hint)


class AmbiguousName(NbprovError):
    """A fragment fits several accelerators.

    Attributes
    ----------
    name
        What was asked for.
    close
        All names that hold it, sorted.
    """

    code = "catalog.ambiguous-accelerator"

    def __init__(self, name: str, close: Sequence[str]) -> None:
        self.name = name
        self.close = tuple(close)
        super().__init__(f"{name!r} could be any of {', '.join(self.close)}", hint="write one of these names in full")
