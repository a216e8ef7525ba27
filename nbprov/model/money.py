"""Money in integer micro-dollars.

Prices are compared, summed and capped, and binary fractions would make `0.1 + 0.2` exceed a cap of
`0.3`. One US dollar is 1,000,000 micros.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

MICROS_PER_USD = 1_000_000
SECONDS_PER_HOUR = 3600

LARGEST_DIGIT = 11
"""Place of the highest digit of dollars that is read.

The ledger's columns take no more, and as a number the 8 letters `1e999990` take minutes.
"""

Micros = int
"""An amount of money: US dollars times 1,000,000."""


def usd(amount: str | int | float | Decimal) -> Micros:
    """Convert dollars to micros, rounding half up.

    Raises
    ------
    ValueError
        If the amount is not a finite number below a trillion.

    Examples
    --------
    >>> usd("2.50"), usd(0.1) + usd(0.2) == usd(0.3)
    (2500000, True)
    """
    try:
        value = Decimal(str(amount).strip().lstrip("$"))
    except InvalidOperation:
        raise ValueError(f"{amount!r} is not an amount of money") from None
    if not value.is_finite():
        raise ValueError(f"{amount!r} is not a finite amount of money")
    if value.adjusted() > LARGEST_DIGIT:
        raise ValueError("no such amount of money exists")
    return int((value * MICROS_PER_USD).to_integral_value(ROUND_HALF_UP))


def format_usd(micros: Micros, *, places: int | None = None) -> str:
    """Write micros as dollars with cents, or with more digits if the amount is small.

    Examples
    --------
    >>> format_usd(2_500_000), format_usd(9_500), format_usd(1_234_567_890)
    ('$2.50', '$0.0095', '$1,234.57')
    """
    value = Decimal(micros) / MICROS_PER_USD
    if places is None:
        places = 2 if micros == 0 or abs(micros) >= MICROS_PER_USD // 10 else 4
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.{places}f}"


def exact_usd(micros: Micros) -> str:
    """Write micros as dollars with cents, and with all further digits that there are.

    This is for what was agreed: a rounded cap or price promises more or less than holds.

    Examples
    --------
    >>> exact_usd(2_500_000), exact_usd(105_000), exact_usd(1_234_567_890)
    ('$2.50', '$0.105', '$1,234.56789')
    """
    whole, _, digits = format_usd(micros, places=6).partition(".")
    return f"{whole}.{digits.rstrip('0'):0<2}"


def format_difference(more: Micros, less: Micros) -> str:
    """Write how much one amount is above another, as a person finds it between the figures shown.

    Where these look the same, the difference itself is written.

    Examples
    --------
    >>> format_usd(3_302_000), format_usd(3_487_000), format_difference(3_487_000, 3_302_000)
    ('$3.30', '$3.49', '$0.19')
    >>> format_difference(3_304_000, 3_302_000)
    '$0.0020'
    """
    if min(more, less) < MICROS_PER_USD // 10:
        return format_usd(more - less)
    cents = [round(Decimal(amount) / MICROS_PER_USD, 2) for amount in (more, less)]
    shown = int((cents[0] - cents[1]) * MICROS_PER_USD)
    return format_usd(shown or more - less)


def cost_of(hourly: Micros, seconds: float) -> Micros:
    """The cost of `seconds` at an hourly price.

    It is rounded up to a micro, so that rounding never exceeds a cap.
    """
    exact = Decimal(hourly) * Decimal(str(max(0.0, seconds))) / SECONDS_PER_HOUR
    return int(exact.to_integral_value(rounding="ROUND_CEILING"))
