"""The on-demand price of now, from AWS's price list API."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from nbprov.clouds.aws.account.clients import QUICK, AwsAccount
from nbprov.clouds.pricing.region_fetch import price
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import Quote
from nbprov.model.money import Micros
from nbprov.model.offers import Offer

PRICING_REGION = "us-east-1"
"""The API has three endpoints with the same content; this one has had all regions' prices first."""
SOURCE = "AWS price list API"
HOLDS: Seconds = 300.0
"""How long an answer is used again: AWS changes list prices a few times a year."""
DENIED_HOLDS: Seconds = 600.0
"""How long a refusal of `pricing:GetProducts` is remembered; a new policy counts after that."""

FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    # A Capacity Block equals an ordinary on-demand machine in all other attributes.
    "marketoption": "OnDemand",
}


def quote(account: AwsAccount, offer: Offer) -> Quote | None:
    """Return the on-demand price of an offer.

    None if the login may not read the price list, or the list has no price or two prices for it:
    then the price of the catalogue stands, with its date.

    Raises
    ------
    CloudError
        If AWS cannot be asked.
    """
    key = ("on-demand price", offer.region, offer.instance_type)
    known: tuple[float, Micros | None] | None = account.fact(key, HOLDS)
    if known is None:
        if account.fact(("pricing denied",), DENIED_HOLDS):
            return None
        try:
            known = time.time(), _ask(account, offer)
        except CloudError as error:
            if error.failure.cause is not Cause.PERMISSION:
                raise
            account.keep(("pricing denied",), True)
            return None
        account.keep(key, known)
    at, hourly = known
    return None if hourly is None else Quote(hourly, SOURCE, at)


def _ask(account: AwsAccount, offer: Offer) -> Micros | None:
    wanted = {**FILTERS, "instanceType": offer.instance_type, "regionCode": offer.region}
    answer = account.call(
        PRICING_REGION,
        "GetProducts",
        QUICK,
        service="pricing",
        ServiceCode="AmazonEC2",
        Filters=[
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in wanted.items()
        ],
    )
    found = {amount for text in answer.get("PriceList", ()) for amount in _hourly(json.loads(text))}
    # Two prices, or a second page of them, mean that something else matched as well.
    return found.pop() if len(found) == 1 and not answer.get("NextToken") else None


def _hourly(product: Mapping[str, Any]) -> Iterator[Micros]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            amount = price(dimension.get("pricePerUnit", {}).get("USD"))
            if dimension.get("unit") == "Hrs" and amount:
                yield amount
