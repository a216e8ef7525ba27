"""The quickstart on each cloud's double, a launch across three clouds, and the use of stock
reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clouds_at_hand import ALWAYS, kernel_with

if TYPE_CHECKING:
    from kernels import Kernel, Outcome

pytestmark = [pytest.mark.kernel, pytest.mark.machine]

PLACES = {
    "aws": "aws/us-east-1",
    "gcp": "gcp/us-central1",
    "runpod": "runpod",
    "lambda": "lambda/us-east-1",
}
STOPS = ("aws", "gcp", "runpod")
ACCELERATOR = {"aws": "L4", "gcp": "L4", "runpod": "L4", "lambda": "A10"}

CELL = """%%provision dev --yes --wait
resources:
  accelerators: {gpu}
  infra: {infra}
  autostop: {{idle_minutes: 30, down: true}}
setup: nvidia-smi -L
run: echo kept > kept; echo "from run $((6 * 7))"
"""


def assert_nothing_is_left(clouds: dict[str, Any]) -> None:
    """Checked in the clouds' own records; no request violated their models."""
    for name, cloud in clouds.items():
        assert cloud.is_empty(), f"{name}: {cloud.alive()} {cloud.left()}"
        assert cloud.problems() == []


def last_panel(kernel: Kernel, cell: Outcome) -> dict[str, str]:
    """Return the last form of a cell's panel, by MIME type."""
    shown = next(d for d in cell.displays if d.get("transient", {}).get("display_id"))
    data: dict[str, str] = kernel.shown(shown["transient"]["display_id"])[-1]["data"]
    return data


@pytest.mark.parametrize("cloud", PLACES)
def test_the_quickstarts_story(cloud: str, home: Path) -> None:
    with kernel_with(home, [cloud]) as (kernel, clouds):
        assert cloud in kernel.run("%nbprov check").everything
        kernel.run(CELL.format(gpu=ACCELERATOR[cloud], infra=PLACES[cloud]))
        assert len(clouds[cloud].alive()) == 1
        assert kernel.run("%%on dev\nx = 6 * 7\nprint(x)").text.strip() == "42"
        assert "from run 42" in kernel.run("%nbprov logs dev").everything
        assert ACCELERATOR[cloud] in kernel.run("%%on dev --bash\nnvidia-smi -L").text
        assert "dev" in kernel.run("%clusters").everything
        if cloud in STOPS:
            kernel.run("%nbprov stop dev")
            kernel.run("%nbprov start dev")
            assert kernel.run("%%on dev --bash\ncat kept").text == "kept\n"
        kernel.run("%nbprov down dev")
        assert kernel.value("len(dev._context.engine.ledger.clusters.latest(live_only=True))") == 0
        assert_nothing_is_left(clouds)


ACROSS = """%%provision dev --yes --wait
resources:
  accelerators: L4
  ordered:
  - infra: aws/us-east-1
  - infra: gcp/us-central1
  - infra: runpod
"""


def test_a_launch_goes_on_across_clouds_until_one_accepts(home: Path) -> None:
    with kernel_with(home, ["aws", "gcp", "runpod"]) as (kernel, clouds):
        clouds["aws"].fault("capacity", ALWAYS)
        clouds["gcp"].fault("quota", ALWAYS)
        cell = kernel.run(ACROSS)
        assert kernel.value("dev._context.engine.cluster('dev').candidate.offer.cloud") == "runpod"
        panel = last_panel(kernel, cell)
        for form in (
            panel["text/plain"],
            panel["text/html"],
            kernel.run("%nbprov attempts").everything,
        ):
            for words in (
                "aws/us-east-1",
                "out of stock",
                "gcp/us-central1",
                "over your quota",
                "runpod/",
            ):
                assert words in form
        assert (clouds["aws"].alive(), clouds["gcp"].alive()) == (set(), set())
        # Every zone of the region was tried. The quota is the region's, so a second zone cannot
        # have any.
        assert clouds["aws"].creates() >= 2
        assert clouds["gcp"].creates() == 1
        kernel.run("%nbprov down dev")
        assert_nothing_is_left(clouds)


COUNTRIES = ("IS", "NL", "CZ", "SE", "RO", "NO")
L40S_ID = "NVIDIA L40S"
IN_EUROPE = (
    "%%provision dev --yes --wait\nresources:\n  accelerators: L40S\n  ordered:\n"
    + "".join(f"  - infra: runpod/{country}\n" for country in COUNTRIES)
)


@pytest.fixture
def only_in_norway(home: Path) -> Iterator[tuple[Kernel, Any]]:
    """Start RunPod with its L40S sold out everywhere but in one place, the last one of the
    document."""
    with kernel_with(home, ["runpod"]) as (kernel, clouds):
        double = clouds["runpod"].double
        double.set_stock(0, kind=L40S_ID)
        double.set_stock(2, kind=L40S_ID, centre="EUR-NO-1")
        yield kernel, clouds["runpod"]
        assert_nothing_is_left(clouds)


@pytest.mark.parametrize("look", [True, False])
def test_a_look_at_the_stock_spares_the_creates_that_would_be_refused(
    look: bool, only_in_norway: tuple[Kernel, Any]
) -> None:
    """The example of the reference document: one L40S in six countries of Europe, with stock in
    a single data centre."""
    kernel, runpod = only_in_norway
    if not look:
        runpod.double.add_fault(
            "transient", call="listGpuTypes", times=ALWAYS, where={"params.count": "1"}
        )
    kernel.run(IN_EUROPE)
    assert kernel.value("dev._context.engine.cluster('dev').candidate.offer.zone") == "EUR-NO-1"
    tried = [call["body"]["dataCenterIds"] for call in runpod.double.calls("createPod")]
    if look:
        assert tried == [["EUR-NO-1"]]
    else:  # nothing is known, so the places are tried one after the other
        assert len(tried) > 1
        assert tried[-1] == ["EUR-NO-1"]
    print(f"creates with{'' if look else 'out'} a look at the stock: {len(tried)}")
    kernel.run("%nbprov down dev")
