"""`%nbprov check`, grey rows and the stock column in a real kernel, as a front end gets them."""

from __future__ import annotations

import re

import pytest
from kernels import Kernel

pytestmark = pytest.mark.kernel

# A cloud in the kernel's own process, because a real one needs an account. It is an adapter like
# any other.
CLOUD = """
import builtins, threading, time
from nbprov.clouds import registry
from nbprov.clouds.base import Capabilities, Cloud
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import CheckResult
from nbprov.model.stock import Stock, StockLevel
class Told(Cloud):
    capabilities = Capabilities(stock_probe=True, spot=True)
    def __init__(self, name, problem=None):
        self.name, self.problem = name, problem
        self.telling, self.was_asked = threading.Event(), threading.Event()
        self.telling.set()
    def check(self):
        key = "a key (…beef)"
        return CheckResult(self.name, self.problem is None, "someone", key, self.problem)
    def stock(self, offers, count):
        self.was_asked.set()
        self.telling.wait(120)
        level = {"NO": StockLevel.HIGH, "CZ": StockLevel.NONE}
        known = [o for o in offers if o.region in level]
        return [Stock(time.time(), o.pool, level[o.region]) for o in known]
    def submit(self, launch): raise CloudError(Failure(Cause.CAPACITY, "none"))
    def poll(self, operation): raise CloudError(Failure(Cause.CAPACITY, "none"))
    def list(self, owner): return []
    def terminate(self, ids): pass
class Point:
    module = "types"
    def __init__(self, cloud): self.cloud = cloud
    def load(self): return lambda: self.cloud
rented = Told("runpod")
refused = Told("aws", Failure(Cause.CREDENTIALS, "no AWS credentials were found"))
points = {**registry._points(), "runpod": Point(rented), "aws": Point(refused)}
registry._points = lambda: points
"""
SPEC = (
    "resources: {accelerators: L40S:1, any_of: [{infra: runpod/CZ}, {infra: runpod/NO}, {infra: "
    "aws}]}"
)


@pytest.fixture(scope="module")
def told(shared: Kernel) -> Kernel:
    """Yield a kernel with two more clouds: one is usable and reports its stock, the other has no
    credentials."""
    shared.run(CLOUD)
    return shared


def test_check_is_one_table_in_both_forms(told: Kernel) -> None:
    sheet = told.run("%nbprov check").displays[-1]["data"]
    assert set(sheet) == {"text/plain", "text/html"}
    text, html = sheet["text/plain"], sheet["text/html"]
    assert "clouds can be used" in text.splitlines()[0]
    assert "aws: no AWS credentials were found" in text
    assert re.search(r"next for aws, .*: provide working credentials", text)
    assert "<table" in html
    assert "✕ no AWS credentials were found" in html
    assert "simulated" in html
    assert "prices are known, but nothing can be launched there yet: " in text


def test_a_panel_is_there_at_once_and_is_put_in_order_when_the_clouds_have_answered(
    told: Kernel,
) -> None:
    told.run("rented.telling.clear()")
    outcome = told.run(f"%%provision dev\n{SPEC}")  # ends while no cloud has reported any stock
    panel = outcome.displays[0]
    assert "first L40S:1 1x_L40S_SECURE in runpod/CZ" in panel["data"]["text/plain"]
    assert "not set up: no AWS credentials were found" in panel["data"]["text/html"]
    told.run("assert rented.was_asked.wait(120); rented.telling.set()")
    renewed = told.renewed(panel, "first L40S:1 1x_L40S_SECURE in runpod/NO")
    assert "high, " in renewed, "the saved output tells it too"
    comm = told.panels()[-1]
    told.until(
        lambda: "runpod/NO" in told.state(comm)["plan"]["headline"],
        "the live panel in the new order",
    )
    assert any("tried last" in note for note in told.state(comm)["plan"]["notes"])
    assert told.value("dev.plan.chosen.offer.region") == "NO"
    told.run("dev.cancel()")


def test_a_plan_s_saved_form_has_the_stock_that_came(told: Kernel) -> None:
    outcome = told.run(f"%%nbprov plan\n{SPEC}")
    table = told.shown(outcome.displays[0]["transient"]["display_id"])[-1]["data"]
    assert "high, " in table["text/html"]
    assert "color:#767676" in table["text/html"]
    assert (
        "clouds in brackets are not set up: aws (no AWS credentials were found)"
        in table["text/plain"]
    )
    assert "tried last" in outcome.text


def test_prices_are_grey_where_nothing_can_be_launched(told: Kernel) -> None:
    table = told.run("%prices L40S:1 --cloud aws").displays[0]["data"]
    assert 'title="not set up: no AWS credentials were found"' in table["text/html"]
    assert "(aws/" in table["text/plain"]
    live = told.run("%prices L40S:1 --cloud runpod --region NO --live").displays[0]["data"]
    assert "high, " in live["text/plain"]
