"""Which engine processes run where, what is accepted of machines, and which versions must match."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.machines.engines import certificates, dask, installation, process_specs, ray
from nbprov.machines.engines.engine_state import (
    EngineFailed,
    EngineMissing,
    EngineVersions,
    Interpreter,
    RunningEngine,
    ports_of,
    state_of,
)
from nbprov.machines.engines.processes import printable
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place
from nbprov.model.spec import ComputeEngine
from nbprov.on_machine import engines
from nbprov.provisioning.live_cluster import LiveCluster, Node

HERE = {"distributed": "2026.8.0", "dask": "2026.8.0"}


class Offered:
    """The part of a candidate that engines look at."""

    def __init__(self, gpus: float, vcpus: float | None) -> None:
        self.offer = self
        self.accelerator_count, self.vcpus = gpus, vcpus


def cluster(count: int = 2, gpus: float = 0, vcpus: float | None = 8, private: bool = True) -> Any:
    place = Place("local", "here", "here-a")
    nodes = [
        Node(
            Instance(
                "local",
                f"i{n}",
                "t",
                "o",
                place,
                "small",
                InstanceState.RUNNING,
                node=n,
                private_host=f"10.0.0.{n + 1}" if private else "",
            )
        )
        for n in range(count)
    ]
    return LiveCluster("run1234567", "dev", Offered(gpus, vcpus), None, nodes)  # type: ignore[arg-type]


def value(command: Any, flag: str) -> str:
    return str(command[list(command).index(flag) + 1])


def test_everything_of_dask_is_bound_to_private_addresses_and_speaks_tls() -> None:
    live = cluster()
    scheduler, workers = dask.scheduler(live), dask.workers(live, ComputeEngine("dask"), 8790)
    assert value(scheduler.command, "--host") == "10.0.0.1"
    assert value(scheduler.command, "--dashboard-address") == "10.0.0.1:{dashboard}"
    assert [value(role.command, "--host") for role in workers] == ["10.0.0.1", "10.0.0.2"]
    assert [value(role.command, "--dashboard-address") for role in workers] == [
        "10.0.0.1:0",
        "10.0.0.2:0",
    ]
    for role in (scheduler, *workers):
        assert value(role.command, "--protocol") == "tls"
        assert "{home}/.nbprov/engine/engine.pem" in role.command
    assert all("tls://10.0.0.1:8790" in role.command for role in workers)
    assert [value(role.command, "--nthreads") for role in workers] == ["8", "8"]


def test_a_worker_a_gpu_sees_that_gpu_alone() -> None:
    found = dask.workers(cluster(2, gpus=2), ComputeEngine("dask"), 8786)
    assert [(role.name, role.env["CUDA_VISIBLE_DEVICES"]) for role in found] == [
        ("dask-worker-0", "0"),
        ("dask-worker-0-1", "1"),
        ("dask-worker-1", "0"),
        ("dask-worker-1-1", "1"),
    ]
    assert {value(role.command, "--nthreads") for role in found} == {"4"}
    assert len({value(role.command, "--name") for role in found}) == 4
    assert all([value(role.command, "--local-directory")] == role.private for role in found)


def test_the_memory_of_a_node_is_shared_among_its_workers_and_hard_beyond_them() -> None:
    (role,) = dask.workers(
        cluster(1),
        ComputeEngine("dask", (("memory", "1GB"), ("threads", "1"), ("workers", "4"))),
        8786,
    )
    assert value(role.command, "--memory-limit") == "250000000"
    assert role.data == 250_000_000 + process_specs.BASE_BYTES
    assert (value(role.command, "--nworkers"), value(role.command, "--nthreads")) == ("4", "1")


def test_ray_names_the_nodes_by_private_addresses_and_wants_a_token() -> None:
    live = cluster(3, gpus=4, vcpus=16)
    head, others = (
        ray.head(live, ComputeEngine("ray", (("memory", "200MB"),))),
        ray.nodes(live, ComputeEngine("ray"), 6380),
    )
    assert "--node-ip-address=10.0.0.1" in head.command
    assert {"--num-cpus=16", "--num-gpus=4", "--object-store-memory=200000000", "--block"} <= set(
        head.command
    )
    assert [role.node.instance.node for role in others] == [1, 2]
    assert all("--address=10.0.0.1:6380" in role.command for role in others)
    assert all(role.env["RAY_AUTH_MODE"] == "token" for role in (head, *others))
    # Ray opens its folder to every user of the machine: it lies in one that is closed.
    assert all(
        list(role.private) == [os.path.dirname(value(role.command, "--temp-dir"))]
        for role in (head, *others)
    )
    # Without this, children of Ray's client server sometimes die of SIGSEGV.
    assert all(role.env["GRPC_ENABLE_FORK_SUPPORT"] == "0" for role in (head, *others))


def test_ray_shows_a_dashboard_where_all_that_it_stands_on_is_there() -> None:
    live, packages = (
        cluster(2),
        {"ray": "2.60.0", **dict.fromkeys(installation.RAYS_DASHBOARD, "1.0")},
    )
    whole = Interpreter("/usr/bin/python3", "3.11.7", packages)
    lacking = Interpreter(
        whole.program,
        whole.python,
        {
            name: version
            for name, version in packages.items()
            if name != installation.RAYS_DASHBOARD[0]
        },
    )
    assert {"--include-dashboard=true", "--dashboard-host=10.0.0.1"} <= set(
        ray.head(live, ComputeEngine("ray"), whole).command
    )
    assert "--include-dashboard=false" in ray.head(live, ComputeEngine("ray"), lacking).command
    # An engine of an earlier kernel is read by the same names, with or without a dashboard.
    assert list(ray.head(live, ComputeEngine("ray")).ports) == list(
        ray.head(live, ComputeEngine("ray"), whole).ports
    )


def test_several_machines_without_a_private_network_are_refused_and_one_is_its_own() -> None:
    with pytest.raises(EngineFailed) as error:
        dask.scheduler(cluster(2, private=False))
    assert error.value.code == "engine.no-private-address"
    assert value(dask.scheduler(cluster(1, private=False)).command, "--host") == "127.0.0.1"


def test_key_and_token_are_made_once_and_for_nobody_else(tmp_path: Path) -> None:
    for make in (certificates.certificate, ray.token_file):
        place = make(tmp_path)
        first = place.read_bytes()
        assert make(tmp_path).read_bytes() == first
        assert stat.S_IMODE(place.stat().st_mode) == 0o600 or platform.system() == "Windows"
    assert {p.name for p in tmp_path.iterdir()} == {"engine.pem", "engine.token"}


LATE = """
import sys
import rfc3987_syntax
from rfc3987_syntax import is_valid_syntax
assert "rfc3987_syntax.helpers" not in sys.modules
assert is_valid_syntax("iri", "a") == ("iri", "a", 1)
assert rfc3987_syntax.parse() == 1
from rfc3987_syntax import *
import rfc3987_syntax.helpers as helpers
assert parse is helpers.parse and helpers.count == 1
assert sys.modules["rfc3987_syntax"].__file__.endswith("__init__.py")
"""


def test_a_module_that_comes_late_is_the_packages_own_once_it_is_used(tmp_path: Path) -> None:
    late, place = tmp_path / "late", tmp_path / "packages" / "rfc3987_syntax"
    late.mkdir()
    place.mkdir(parents=True)
    shutil.copy(Path(engines.__file__).parent / "lazy_rfc3987.py", late / "rfc3987_syntax.py")
    (place / "__init__.py").write_text("from .helpers import *\n")
    (place / "helpers.py").write_text(
        "count = 1\ndef parse():\n    return count\n"
        "def is_valid_syntax(term, value):\n    return term, value, count\n"
    )

    def said(code: str, *folders: Path) -> str:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
        return subprocess.run(
            [sys.executable, "-S", "-c", code],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        ).stderr

    assert said(LATE, late, place.parent) == ""
    # Where the package is not installed, importing it still fails.
    assert (
        said("import rfc3987_syntax", late).splitlines()[-1]
        == "ModuleNotFoundError: No module named 'rfc3987_syntax'"
    )


def running(kind: str, python: str = platform.python_version(), **packages: str) -> RunningEngine:
    return RunningEngine(kind, {}, Interpreter("/usr/bin/python3", python, packages), 1)


def test_other_versions_are_named_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "versions_here", lambda kind: HERE)
    dask.check_versions("dev", running("dask", **HERE))
    with pytest.raises(EngineVersions, match=r"2026\.8\.0 here and 2025\.1\.0 on dev"):
        dask.check_versions("dev", running("dask", **HERE | {"distributed": "2025.1.0"}))
    with pytest.raises(EngineVersions, match=r"3\.8\.1 on dev") as error:
        dask.check_versions("dev", running("dask", "3.8.1", **HERE))
    assert f'python: {{version: "{platform.python_version()}"}}' in error.value.hint
    monkeypatch.setattr(ray, "versions_here", lambda kind: {"ray": "2.60.0"})
    ray.check_versions("dev", running("ray", ray="2.60.0"))
    patch = platform.python_version() + "9"
    with pytest.raises(EngineVersions, match="exactly the same version"):
        ray.check_versions("dev", running("ray", patch, ray="2.60.0"))
    dask.check_versions("dev", running("dask", patch, **HERE))


@pytest.mark.parametrize(
    ("version", "is_good"),
    [("2.60.0", True), ("2.52.0", True), ("3.0.0rc1", True), ("2.51.9", False), ("1.13.0", False)],
)
def test_a_ray_that_knows_no_token_is_not_started(version: str, is_good: bool) -> None:
    facts = Interpreter("/usr/bin/python3", "3.11.7", {"ray": version})
    if is_good:
        ray.check_protected("dev", facts)
        return
    with pytest.raises(EngineVersions, match="asks for a token"):
        ray.check_protected("dev", facts)


def test_a_missing_package_is_said_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dask, "versions_here", lambda kind: {})
    with pytest.raises(EngineMissing) as error:
        dask.check_installed("dev")
    assert error.value.hint == "%pip install distributed"


def test_machines_get_the_versions_of_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        installation, "versions_here", lambda kind: HERE | {"pandas": "3.1.1+local"}
    )
    assert installation.requirements("dask") == [
        "distributed==2026.8.0",
        "dask==2026.8.0",
        "pandas==3.1.1",
    ]
    monkeypatch.setattr(installation, "versions_here", lambda kind: {})
    assert (installation.requirements("dask"), installation.requirements("ray")) == (
        ["distributed"],
        ["ray[client]"],
    )


GOOD = {
    "ports": {"scheduler": 8786},
    "program": "/usr/bin/python3",
    "python": "3.11.7",
    "packages": {"dask": "2026.8.0"},
}


@pytest.mark.parametrize(
    "change",
    [
        {"ports": {}},
        {"ports": {"scheduler": 0}},
        {"ports": {"scheduler": 70000}},
        {"ports": {"scheduler": "8786"}},
        {"ports": [8786]},
        {"program": "python3; rm -rf ~"},
        {"program": "/bin/x\nrm"},
        {"python": "\x1b[2J"},
        {"packages": None},
    ],
)
def test_a_machine_that_says_nonsense_is_not_believed(change: dict[str, Any]) -> None:
    assert state_of(json.dumps(GOOD), ["scheduler"])[0] == {"scheduler": 8786}
    with pytest.raises(EngineFailed) as error:
        state_of(json.dumps(GOOD | change), ["scheduler"])
    assert error.value.code == "engine.foul"
    if "ports" in change:
        with pytest.raises(EngineFailed, match=r"is malformed|invalid ports"):
            ports_of(json.dumps(change["ports"]), ["scheduler"])


@given(st.text(max_size=200))
def test_no_text_of_a_machine_ends_in_another_error(text: str) -> None:
    with pytest.raises(EngineFailed):
        state_of(text, ["scheduler"])
    with pytest.raises(EngineFailed):
        ports_of(text, ["scheduler"])
    assert all(c >= " " and c != "\x7f" for c in printable(text))


def test_a_version_that_is_none_is_left_out() -> None:
    facts = Interpreter.of(GOOD | {"packages": {"dask": "1.0", "evil": "\x1b]0;x\x07", "ray": 3}})
    assert facts.packages == {"dask": "1.0"}
