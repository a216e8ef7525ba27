"""The connection between the adapter and the daemon of the `local` cloud."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from clouds_under_test import LocalUnderTest

from nbprov.clouds.local import client, rpc
from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import CreateOperation, InstanceState

pytestmark = pytest.mark.machine


def test_state_directory_is_named_or_in_the_home(tmp_path: Path) -> None:
    assert rpc.state_dir({"NBPROV_LOCAL_DIR": str(tmp_path)}) == tmp_path
    assert rpc.state_dir({"NBPROV_HOME": str(tmp_path)}) == tmp_path / "local"


def test_socket_of_a_deep_directory_lies_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    found = rpc.socket_path(deep)
    assert found is not None
    assert len(os.fsencode(found)) <= rpc.SOCKET_PATH_BYTES
    assert found != rpc.socket_path(deep / "z")
    assert rpc.socket_path(Path("/s")) == Path("/s/s")


def test_secret_files_are_private(local: LocalUnderTest) -> None:
    assert local.cloud.check().enabled
    for name in (rpc.ENDPOINT_FILE, "s", "state.db"):
        assert stat.S_IMODE((local.folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(local.folder.stat().st_mode) == 0o700


def test_a_caller_without_the_secret_is_refused(
    local: LocalUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(rpc.TRANSPORT_VARIABLE, "tcp")
    assert local.cloud.check().enabled
    endpoint = rpc.read_endpoint(local.folder)
    assert endpoint is not None
    assert endpoint.kind == "tcp"
    stranger = rpc.Endpoint("tcp", port=endpoint.port, cookie="guess")
    with rpc.connect(stranger, 2) as link, pytest.raises(rpc.Refusal) as raised:
        rpc.exchange(link, stranger, "describe", {})
    assert raised.value.code == rpc.STRANGER


@pytest.mark.parametrize(
    "line", [b"\n", b"not json\n", b"{}\n", b'{"cookie": 1}\n', b"[]\n", b"no end"]
)
def test_what_is_not_a_request_does_not_hurt(local: LocalUnderTest, line: bytes) -> None:
    assert local.cloud.check().enabled
    endpoint = rpc.read_endpoint(local.folder)
    assert endpoint is not None
    with rpc.connect(endpoint, 2) as link:
        link.sendall(line)
    assert local.cloud.list("owner-1") == []


def test_a_request_with_missing_parts_is_a_bad_request(local: LocalUnderTest) -> None:
    with pytest.raises(rpc.Refusal) as raised:
        client.DaemonClient(local.folder).call("submit", {"token": "x"}, timeout=60)
    assert raised.value.code == "InvalidParameter"
    with pytest.raises(rpc.Refusal) as raised:
        client.DaemonClient(local.folder).call("explode", timeout=60)
    assert raised.value.code == "UnknownCall"


def test_daemon_gets_no_credentials_from_the_environment() -> None:
    kept = client.daemon_environment(
        {
            "PATH": "/bin",
            "AWS_SECRET_ACCESS_KEY": "x",
            "NBPROV_HOME": "/h",
            "LC_ALL": "C",
            "HF_TOKEN": "y",
        }
    )
    assert set(kept) == {"PATH", "NBPROV_HOME", "LC_ALL", "PYTHONPATH"}


def test_a_directory_that_cannot_be_used_disables_the_cloud(tmp_path: Path) -> None:
    from nbprov.clouds.local.provisioner import LocalCloud

    (tmp_path / "file").write_text("")
    cloud = LocalCloud(tmp_path / "file")
    told = cloud.check()
    assert not told.enabled
    assert told.problem is not None
    with pytest.raises(CloudError) as raised:
        cloud.poll(CreateOperation("local", "x", "y"))
    assert raised.value.failure.cause is Cause.TRANSIENT


def test_terminal_command_says_what_runs_and_ends_it(local: LocalUnderTest) -> None:
    command = [sys.executable, "-m", "nbprov.clouds.local", "status", "--dir", str(local.folder)]
    before = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "no daemon runs" in before.stdout
    local.running(local.launch())
    assert (
        '"running": 1' in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )
    ended = subprocess.run(
        [*command[:3], "stop", *command[4:]], capture_output=True, text=True, check=True
    )
    assert "ended 1 machines" in ended.stdout


def test_a_caller_with_the_secret_of_the_last_daemon_looks_again(
    local: LocalUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.cloud.check().enabled
    endpoint = rpc.read_endpoint(local.folder)
    assert endpoint is not None
    seen = iter([replace(endpoint, cookie="of the last one")])
    monkeypatch.setattr(rpc, "read_endpoint", lambda _: next(seen, endpoint))
    assert local.accepted(local.cloud.submit(local.launch()))


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbprov.clouds.local import make

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("NBPROV_HOME", "NBPROV_LOCAL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    told = make().check()
    assert not told.enabled
    assert told.problem is not None
    assert "NBPROV_LOCAL_DIR" in told.problem.message


def test_the_daemon_shows_no_state_that_the_adapter_does_not_know() -> None:
    assert {state.value for state in rpc.MachineState} < {state.value for state in InstanceState}


def test_the_daemon_starts_without_the_models_of_offers() -> None:
    """It is started by every test with a machine, and by a person's first launch."""
    code = (
        "import sys, nbprov.clouds.local.daemon.daemon;"
        " print([name for name in sys.modules if name.startswith('nbprov.model.')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "nbprov.model.clock" in told.stdout
    assert "nbprov.model.offers" not in told.stdout
