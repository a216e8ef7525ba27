"""Names of clusters: which are valid, and how a cluster gets another one."""

from __future__ import annotations

import re
from collections.abc import Callable

from nbprov.api.context import Context
from nbprov.api.errors import with_readable_errors
from nbprov.api.steps import Steps, result
from nbprov.model.errors import UsageError
from nbprov.provisioning.ledger import ClusterRow

_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-]{1,2}[A-Za-z0-9]+)*")


def check_name(name: str) -> None:
    """Refuse a name that a cluster cannot have; an empty one means none, and passes.

    Raises
    ------
    UsageError
        If it has a wrong form.
    """
    if name and not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a cluster's name",
            hint="use letters, digits and . _ -; begin and end with a letter or digit",
            code="cluster.name",
        )


class NameService:
    """Renames clusters.

    Parameters
    ----------
    renamed
        Called with a run's id, the old name and the new name of its cluster.
    """

    def __init__(self, context: Context, renamed: Callable[[str, str, str], None]) -> None:
        self._context = context
        self.renamed = renamed

    def rename(self, row: ClusterRow, /, name: str) -> Steps[None]:
        """Give a cluster another name; see `Session.rename`."""
        engine = self._context.engine
        check_name(name or "?")
        if name != row.name:
            yield from result(
                engine.thread.call(with_readable_errors(engine.lifecycle.rename(row, name)))
            )
            self.renamed(row.run_id, row.name, name)
