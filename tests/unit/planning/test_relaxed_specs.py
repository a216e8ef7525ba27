"""The spec that a relaxation brings, which a panel's button launches."""

from __future__ import annotations

from nbprov.catalog import Catalog
from nbprov.planning import plan, relax
from nbprov.planning.lookup.skypilot_capabilities import skypilot_clouds
from nbprov.spec import parse

NOW = 100.0


def test_a_change_brings_the_spec_that_opens_the_places(small: Catalog) -> None:
    """Whoever launches it gets them, and no other constraint has gone."""
    text = "resources: {accelerators: L4, infra: aws/us-east-1, max_price: 0.50}"
    spec, enabled = parse(text), skypilot_clouds(["aws", "gcp"])
    before = len(plan(spec, small, enabled, now=NOW).candidates)
    opening = [r for r in relax(spec, small, enabled, now=NOW) if r.offers]
    assert {"max_price", "use_spot"} <= {r.field for r in opening}
    for one in opening:
        assert one.spec is not None
        assert len(plan(one.spec, small, enabled, now=NOW).candidates) >= before + one.offers
        if one.field != "max_price":
            assert {request.max_hourly for request in one.spec.requests} == {500_000}
