"""A launch across three clouds, and how clouds that are not set up are shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from aws_double import AwsDouble
from gcp_double import GcpDouble
from notebook_page import NotebookPage, button, panel, state
from pictures import Album
from playwright.sync_api import expect
from runpod_double import Double as RunPodDouble

PROVISION = """%%provision dev
resources:
  accelerators: L4
  ordered:
  - {infra: aws/us-east-1, instance_type: g6.xlarge}
  - {infra: gcp/us-central1, instance_type: g2-standard-4}
  - {infra: runpod}
max_lifetime: 8h"""
LONG_MS = 60_000


@pytest.fixture
def env(nbprov_home: Path) -> Iterator[dict[str, str]]:
    """Three clouds: AWS has nothing in stock, Google allows none, RunPod has one."""
    with ExitStack() as stack:
        folders = {name: nbprov_home.parent / f"{nbprov_home.name}{name}" for name in "agr"}
        for folder in folders.values():
            folder.mkdir()
        aws = stack.enter_context(closing(AwsDouble(machines=folders["a"]).start()))
        gcp = stack.enter_context(closing(GcpDouble(machines=folders["g"]).start()))
        runpod = stack.enter_context(closing(RunPodDouble(machines=folders["r"])))
        aws.add_fault("RunInstances", "capacity", times=1000)
        gcp.add_fault(call="create", do="quota", times=-1)
        yield {**aws.env, **gcp.env, **runpod.env}


def test_failover_across_clouds(
    open_notebook: Callable[..., NotebookPage], env: dict[str, str], album: Album
) -> None:
    notebook = open_notebook(
        ["%load_ext nbprov", "%nbprov check", PROVISION, "%%on dev --bash\nnvidia-smi -L"], env
    )
    notebook.run("%load_ext")
    checked = notebook.run("%nbprov check")
    expect(checked).to_contain_text("runpod")
    expect(checked).to_contain_text("no Lambda API key found")
    album.take("check", notebook.cell("%nbprov check"))
    run = panel(notebook.run("%%provision"), "Provision")
    button(run, "Launch").click()
    expect(state(run)).to_have_text("ready", timeout=LONG_MS)
    attempts = run.get_by_role("table", name="Attempts")
    refused = (
        attempts.locator(".nbprov-reason button").filter(has_text=re.compile("o")).all_inner_texts()
    )
    assert refused[0] == "out of stock"
    assert refused[-1] == "over your quota"
    expect(attempts).to_contain_text("runpod")
    album.take("across-clouds", notebook.cell("%%provision"))
    expect(notebook.run("%%on dev")).to_contain_text(re.compile("GPU 0: .*L4"))
    button(run, "Down").click()
    button(run, "Really down?").click()
    expect(state(run)).to_have_text("ended", timeout=LONG_MS)


def test_clouds_that_are_not_set_up(
    open_notebook: Callable[..., NotebookPage], album: Album
) -> None:
    notebook = open_notebook(
        ["%load_ext nbprov", "%prices L4", "%%nbprov plan\nresources: {accelerators: L4}"]
    )
    notebook.run("%load_ext")
    prices = panel(notebook.run("%prices"), "Prices")
    expect(prices.locator('.nbprov-body [role="row"]').first).to_be_visible()
    planned = notebook.run("%%nbprov plan")
    expect(planned).to_contain_text("not set up")
    expect(planned.locator(".nbprov-body").first).to_contain_text("L4:1")
    album.take("not-set-up", notebook.cell("%%nbprov plan"))
