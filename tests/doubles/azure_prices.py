"""Azure's Retail Prices API on a `WebDouble`: OData filters, pages, links to the next one."""

from __future__ import annotations

import re
from typing import Any

from web_double import Answer, Asked, WebDouble, json_answer

PATH = "/api/retail/prices"


def meter(
    size: str,
    price: float,
    region: str = "eastus",
    *,
    spot: bool = False,
    product: str = "Virtual Machines Series",
    **other: Any,
) -> dict[str, Any]:
    """A meter as the API writes it; `other` changes fields by name."""
    short = size.removeprefix("Standard_").replace("_", " ") + (" Spot" if spot else "")
    plain = {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": region,
        "location": "US East",
        "effectiveStartDate": "2024-03-01T00:00:00Z",
        "meterId": "00000000-0000-0000-0000-000000000000",
        "meterName": short,
        "productName": product,
        "skuName": short,
        "serviceName": "Virtual Machines",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
    }
    return {**plain, **other}


class AzureDouble:
    """The API over some meters; pages of `page` meters.

    The links to the next page name the provider's own host and port, as the real ones do, whatever
    host was asked.
    """

    def __init__(self, web: WebDouble, meters: list[dict[str, Any]], *, page: int = 3) -> None:
        self.meters = meters
        self.page = page
        web.on(PATH, self.answer)

    def answer(self, asked: Asked) -> Answer:
        """Return one page, by the filter and `$skip`."""
        found = [one for one in self.meters if _passes(asked.query["$filter"], one)]
        start = int(asked.query.get("$skip", 0))
        end = start + self.page
        link = (
            f"https://prices.azure.com:443{PATH}?$filter={asked.query['$filter']}&currencyCode=USD&$skip={end}"
            if end < len(found)
            else None
        )
        items = found[start:end]
        return json_answer(
            {
                "BillingCurrency": "USD",
                "CustomerEntityType": "Retail",
                "Items": items,
                "NextPageLink": link,
                "Count": len(items),
            }
        )


def _passes(question: str, one: dict[str, Any]) -> bool:
    """Whether a meter passes an OData filter of `eq`, `contains`, `and`, and `or` in brackets.

    Any other filter is refused.
    """
    held = re.sub(
        r"\(((?:contains\([^)]*\)(?: or )?)+)\)", lambda group: str(_any(group[1], one)), question
    )
    result = True
    for part in held.split(" and "):
        equal = re.fullmatch(r"(\w+) eq '([^']*)'", part)
        assert equal or part in ("True", "False"), f"the double does not know {part!r}"
        if equal:
            name = {"priceType": "type"}.get(equal[1], equal[1])
            result = result and one[name] == equal[2]
        else:
            result = result and part == "True"
    return result


def _any(choices: str, one: dict[str, Any]) -> bool:
    parts = re.findall(r"contains\((\w+), '([^']*)'\)", choices)
    return any(wanted in one[name] for name, wanted in parts)
