"""Arguments that take several names."""

from __future__ import annotations

from collections.abc import Iterable

from nbprov.model.errors import UsageError


def name_list(given: Iterable[str] | str, what: str) -> tuple[str, ...]:
    """Return one or several names as a tuple: a text is one name, or several with commas between.

    Parameters
    ----------
    what
        What the names are, for the error.

    Raises
    ------
    UsageError
        If something else is given.

    Examples
    --------
    >>> name_list("all", "assume"), name_list("aws, gcp", "assume"), name_list(["aws"], "assume")
    (('all',), ('aws', 'gcp'), ('aws',))
    """
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(",") if name.strip())
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise UsageError(
            f"{what} takes names, not {wrong!r}", hint=f'{what}="aws", or {what}=["aws", "gcp"]'
        )
    return names
