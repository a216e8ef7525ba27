"""A cloud that does not answer is not taken for one that lacks what a spec names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import nbprov
from nbprov import api
from nbprov.api.errors import CloudTrouble
from nbprov.clouds.local import provisioner, rpc
from nbprov.clouds.local.client import DaemonClient
from nbprov.planning import PlanError
from nbprov.provisioning.run.unavailable import Unavailable

TYPED = "resources: {infra: local, instance_type: sim-l4-1}"
SPECS = (
    TYPED,
    "resources: {infra: local, accelerators: L4}",
    "resources: {infra: local/local-south, use_spot: true}",
)
SECONDS = 60.0


class Daemon:
    """The daemon of the `local` cloud, which answers nothing while it is held."""

    def __init__(self, folder: Path) -> None:
        self.client = DaemonClient(folder)
        self.client.call("describe", timeout=SECONDS)
        endpoint = rpc.read_endpoint(folder)
        assert endpoint is not None
        self._process = psutil.Process(endpoint.pid)

    def hold(self) -> None:
        """Let every request wait."""
        self._process.suspend()

    def release(self) -> None:
        """Answer again, the requests that wait first."""
        self._process.resume()


@pytest.fixture
def daemon(nbprov_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    made = Daemon(nbprov_home / "local")
    with monkeypatch.context() as patient:
        # The adapter gives up soon: how long it waits is not what these tests are about.
        patient.setattr(provisioner, "CHECK_SECONDS", 0.2)
        yield made
    made.release()
    api.close()
    made.client.call("shutdown", {"end_machines": True}, timeout=SECONDS, start=False)


@pytest.mark.parametrize("asked_before", [False, True], ids=["at first", "after an answer"])
@pytest.mark.parametrize("spec", SPECS)
def test_a_plan_says_that_it_could_not_be_asked(
    daemon: Daemon, spec: str, asked_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = nbprov.session()
    if asked_before:
        with monkeypatch.context() as patient:
            patient.setattr(provisioner, "CHECK_SECONDS", SECONDS)
            assert session.plan(spec).chosen is not None
    daemon.hold()
    made = session.plan(spec)
    assert (len(made.candidates), made.silent, made.unknown) == (0, ("local",), ())
    (why,) = [note for note in made.notes if note.startswith("local ")]
    assert why.startswith("local could not be asked since 20")
    assert why.endswith("no answer in time; %nbprov check local asks it now")
    again = session.plan(spec)
    assert why in again.notes or asked_before, "the time is that of the first question"
    assert not any("instance type" in note for note in made.notes)
    daemon.release()
    monkeypatch.setattr(provisioner, "CHECK_SECONDS", SECONDS)
    assert session.check(["local"])[0].enabled
    found = session.plan(spec)
    assert (found.chosen is not None, found.silent) == (True, ())


def test_a_launch_says_so_too(daemon: Daemon) -> None:
    daemon.hold()
    run = nbprov.session().provision(TYPED, "dev")
    assert isinstance(run, api.Run)
    with pytest.raises(Unavailable, match="no answer from local") as told:
        run.launch().wait(SECONDS)
    assert told.value.code == "provision.no-answer"
    assert "%nbprov check local asks it now" in told.value.hint


def test_a_question_about_its_prices_is_no_question_about_its_name(daemon: Daemon) -> None:
    session = nbprov.session()
    daemon.hold()
    with pytest.raises(CloudTrouble, match="no answer in time"):
        session.prices(cloud="local")
    with pytest.raises(CloudTrouble, match="no answer in time"):
        session.prices(cloud=["local", "aws"])


def test_in_demo_mode_the_other_prices_are_told_all_the_same(daemon: Daemon) -> None:
    session = nbprov.session()
    session.demo = True
    daemon.hold()
    found = session.prices("L4")
    assert "aws" in {row.cloud for row in found}
    assert [r for r in found.remarks if r.startswith("local: no prices of now")]
    with pytest.raises(PlanError, match="'sim-l4-7'; local could not be asked since 20") as told:
        session.plan("resources: {instance_type: sim-l4-7}")
    assert told.value.code == "plan.unknown-type"
