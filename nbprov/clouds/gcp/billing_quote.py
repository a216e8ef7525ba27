"""The list price of now of one machine, added up from Google's billing catalogue.

Google has no call that quotes a machine, and its catalogue of 30,000 lines takes longer than a
quote may. So it is read by a thread of its own and kept for a while: a quote waits for it as long
as it may, and the next one finds it.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime

from nbprov.clouds.gcp.account import price_list_auth
from nbprov.clouds.gcp.account.credentials import ENDPOINT_VARIABLE
from nbprov.clouds.gcp.catalog.machine_prices import machine_price
from nbprov.clouds.gcp.catalog.skus import Rates, rates
from nbprov.clouds.gcp.prices import SOURCE, skus
from nbprov.clouds.pricing.fetcher import FetchContext
from nbprov.clouds.web.client import HttpClient
from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError
from nbprov.model.launches import Quote
from nbprov.model.offers import Offer
from nbprov.model.places import Market

BILLING_VARIABLE = "NBPROV_GCP_BILLING_ENDPOINT"
"""Another address of the Cloud Billing API; it begins with https://, or is on this computer."""
HOLDS: Seconds = 1800.0
"""How long the catalogue is used again: Google changes list prices on announced days."""
REFUSED_HOLDS: Seconds = 600.0
"""How long it is not asked again after it refused this login or could not be read."""


class _Reading:
    """One read of the catalogue, by a thread of its own."""

    def __init__(self, login: tuple[str, ...]) -> None:
        self.login = login
        self.rates: Rates | None = None
        self.error: CloudError | None = None
        self.at = 0.0
        self.done = threading.Event()
        threading.Thread(target=self._read, name="nbprov-gcp-prices", daemon=True).start()

    def _read(self) -> None:
        try:
            told = os.environ.get(BILLING_VARIABLE)
            context = FetchContext(
                http=HttpClient(),
                today=datetime.now(UTC).strftime("%Y-%m-%d"),
                endpoints={"billing": told} if told else {},
            )
            self.rates = rates(skus(context, price_list_auth.open_access({})))
        except CloudError as error:
            self.error = error
        finally:
            self.at = time.time()
            self.done.set()

    def is_old(self) -> bool:
        """Whether its result holds no more."""
        holds = HOLDS if self.rates is not None else REFUSED_HOLDS
        return self.done.is_set() and not 0 <= time.time() - self.at < holds


class BillingQuotes:
    """Quotes list prices. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: _Reading | None = None

    def begin(self) -> _Reading | None:
        """Begin to read the catalogue, unless it was just read; None if the login allows none."""
        is_private = bool(os.environ.get(ENDPOINT_VARIABLE))
        if (is_private and not os.environ.get(BILLING_VARIABLE)) or price_list_auth.missing({}):
            return None
        login = (
            *price_list_auth.login_state(),
            price_list_auth.api_key({}, os.environ),
            os.environ.get(BILLING_VARIABLE, ""),
        )
        with self._lock:
            reading = self._reading
            if reading is None or reading.login != login or reading.is_old():
                reading = self._reading = _Reading(login)
            return reading

    def quote(self, offer: Offer, seconds: Seconds) -> Quote | None:
        """Return the list price of an offer.

        None if the login may not read the catalogue, it is not read in time, or it has no price of
        a part of the machine: then the price of nbprov's catalogue stands, with its date.
        """
        reading = self.begin()
        if reading is None or not reading.done.wait(seconds) or reading.rates is None:
            return None
        spot = offer.market is Market.SPOT
        hourly = machine_price(reading.rates, offer.region, offer.instance_type, spot=spot)
        return None if hourly is None else Quote(hourly, SOURCE, reading.at)
