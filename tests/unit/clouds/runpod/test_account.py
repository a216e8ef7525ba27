"""RunPod's own Python package and nbprov use the same key from the same file, and the same
address.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from runpod_catalogue import KEY
from runpod_double import Double

from nbprov.clouds.runpod.account import find_access
from nbprov.clouds.runpod.provisioner import CAPABILITIES
from nbprov.model.failures import Cause, CloudError

# The package runs in a process of its own: importing it takes a second and reads the file.
THEIRS = """
import json, sys
import runpod
if sys.argv[1:]:
    runpod.set_credentials(sys.argv[1], overwrite=True)
    print(json.dumps(runpod.get_credentials()))
else:
    print(json.dumps([runpod.api_key, runpod.get_user()["id"]]))
"""


@pytest.fixture(scope="module")
def double() -> Iterator[Double]:
    made = Double()
    yield made
    made.close()


def theirs(home: Path, *arguments: str, **env: str) -> object:
    given = {"PATH": os.environ["PATH"], "HOME": str(home), **env}
    done = subprocess.run(
        [sys.executable, "-c", THEIRS, *arguments],
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_package_and_adapter_agree(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert theirs(tmp_path, KEY) == {"api_key": KEY}
    monkeypatch.setenv("HOME", str(tmp_path))
    base = double.env["RUNPOD_API_BASE_URL"]
    ours = find_access({"RUNPOD_API_BASE_URL": base})
    assert (ours.key, ours.base, ours.source) == (KEY, base, str(Path("~/.runpod/config.toml")))
    assert theirs(tmp_path, RUNPOD_API_BASE_URL=base) == [KEY, "user_double"]


def test_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".runpod").mkdir()
    file = tmp_path / ".runpod" / "config.toml"
    for text in (f'[default]\napi_key = "{KEY}"\n', f"apikey = '{KEY}'\n"):
        file.write_text(text)
        assert find_access({}).key == KEY
    assert find_access({"RUNPOD_API_KEY": "rpa_OTHER"}).source == "RUNPOD_API_KEY"


@pytest.mark.parametrize("text", ["", "[default]\n", "not toml [", 'api_key = ""\n'])
def test_file_without_a_key_is_no_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".runpod").mkdir()
    (tmp_path / ".runpod" / "config.toml").write_text(text)
    with pytest.raises(CloudError) as raised:
        find_access({})
    assert raised.value.failure.cause is Cause.CREDENTIALS


def test_key_is_masked() -> None:
    found = find_access({"RUNPOD_API_KEY": KEY})
    assert (found.masked, KEY in repr(found)) == (f"RUNPOD_API_KEY (…{KEY[-4:]})", False)
    assert find_access({"RUNPOD_API_KEY": "short"}).masked == "RUNPOD_API_KEY"


def test_importing_the_adapter_imports_nothing_heavy() -> None:
    code = (
        "import sys, nbprov.clouds.runpod as it; it.make(); print(sorted({'requests', "
        "'runpod', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_the_planner_reads() -> None:
    can = CAPABILITIES
    assert (
        can.spot,
        can.multi_node,
        can.replayable,
        can.own_timer,
        can.stock_probe,
        can.login,
    ) == (
        False,
        False,
        False,
        False,
        True,
        "root",
    )
