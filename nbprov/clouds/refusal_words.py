"""What the words of a refusal mean in any cloud, and where they say more than its code.

A cloud's own table (`errors.py`) goes by codes. Codes are too general, or wrong, in ways that are
the same everywhere: a 5xx whose words say that nothing is in stock is no lost answer, a capacity
code whose words say "incompatible" is not about stock, a 403 may be a limit or a forbidden region.
The classes of words are those of `refusal_rows.py`.
"""

from __future__ import annotations

from nbprov.model.failures import Cause

from .refusal_rows import FAULT, ROWS, Meaning

MOST_READ, MOST_CODE = 2000, 200
"""Characters of a refusal and of its code that are read: patterns of two words take long."""


def is_fault(message: str) -> bool:
    """Whether words tell of a fault inside the service, of a database or of its own code.

    Such words name what the service was working at, and that is not what was refused.

    Examples
    --------
    >>> is_fault("create pod: pq: column NetworkVolume.userId does not exist")
    True
    """
    return FAULT.pattern.search(message[:MOST_READ]) is not None


def meaning_of(message: str, coded: Cause = Cause.UNKNOWN) -> Meaning | None:
    """Return what the words of a refusal mean, or None if they do not say more than its code.

    Parameters
    ----------
    coded
        The cause by the code or the status, `unknown` if they say nothing. Words of the same cause
        may still say how far the refusal reaches.

    Examples
    --------
    >>> meaning_of("The zone does not have enough resources available", Cause.TRANSIENT).cause.value
    'capacity'
    >>> meaning_of("Quota exceeded: 20 queries per minute", Cause.QUOTA).cause.value
    'rate_limit'
    >>> meaning_of("This image is not supported by the instance type", Cause.CAPACITY).scope.value
    'offer'
    """
    message = message[:MOST_READ]
    for row in ROWS:
        if (coded in row.overrules or coded is row.meaning.cause) and row.pattern.search(message):
            return row.meaning
    return None
