"""An engine that the environment of `python` does not have.

It is put beside it, and sees the very same packages and interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from index_double import wheel

from nbprov.machines.engines import installation
from nbprov.on_machine.engines import overlay_venv

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="machines are never Windows")

SEEN = (
    "import json, sys, distributed, tabular, plotting; print(json.dumps([sys.version,"
    " tabular.__version__, distributed.__version__]))"
)


class Home:
    """A machine's home with an environment of `python`; a folder of wheels is its index."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wheels = folder, folder / "wheels"
        self.place = folder / ".nbprov" / "envs" / "0123"
        self.call(sys.executable, "-m", "venv", "--without-pip", str(self.place))
        (folder / ".nbprov" / "python").symlink_to("envs/0123")
        self.packages = next((self.place / "lib").glob("python*")) / "site-packages"
        for part in Path(sysconfig.get_path("purelib")).glob("pip*"):
            (self.packages / part.name).symlink_to(part)
        self.put("tabular", "1.4")

    def put(self, name: str, version: str) -> None:
        """Have a package in the environment of `python`."""
        (self.packages / name).mkdir()
        (self.packages / name / "__init__.py").write_text(f'__version__ = "{version}"\n')
        (self.packages / f"{name}-{version}.dist-info").mkdir()
        (self.packages / f"{name}-{version}.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )

    def call(self, *command: str, code: int = 0) -> str:
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "PYTHON"))
        }
        env |= {
            "HOME": str(self.folder),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
        }
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def install(self, *wanted: str, code: int = 0) -> str:
        """What a machine does that has no such engine."""
        return self.call(
            "bash",
            "-c",
            installation.install_script(str(self.place / "bin" / "python3"), wanted),
            code=code,
        )

    def engine(self, code: str) -> str:
        """What the engine's interpreter says."""
        return self.call(str(self.place / overlay_venv.FOLDER / "bin" / "python"), "-c", code)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_workers_have_the_packages_of_python_in_their_versions_and_its_interpreter(
    home: Home,
) -> None:
    wheel(home.wheels, "distributed", "2026.8.0", requires=["tabular>=1", "messages"])
    wheel(home.wheels, "messages", "3.0")
    wheel(home.wheels, "tabular", "9.9")
    (home.folder / "work" / "plotting").mkdir(parents=True)
    (home.folder / "work" / "plotting" / "__init__.py").touch()
    (home.packages / "editable.pth").write_text(f"{home.folder / 'work'}\n")
    home.install("distributed==2026.8.0", "tabular==9.9", "messages")
    version = home.call(
        str(home.place / "bin" / "python"), "-c", "import sys; print(sys.version)"
    ).strip()
    assert json.loads(home.engine(SEEN)) == [version, "1.4", "2026.8.0"]
    # Nothing was put into the environment itself, and what is put there later is seen.
    assert not list(home.packages.glob("distributed*"))
    home.put("later", "1")
    assert home.engine("import later; print(later.__version__)").strip() == "1"
    # It is found there again by the look that comes before any installing.
    assert (home.folder / ".nbprov" / "python" / "engine" / "bin" / "python").exists()


def test_an_engine_that_wants_other_versions_than_python_has_is_not_put_over_them(
    home: Home,
) -> None:
    wheel(home.wheels, "distributed", "2026.8.0", requires=["tabular>=2"])
    wheel(home.wheels, "tabular", "2.0")
    said = home.install("distributed==2026.8.0", code=1)
    assert "tabular" in said
    assert "1.4" in said


def test_the_look_takes_what_is_beside_python_and_nothing_that_is_older_than_it(home: Home) -> None:
    own = home.folder / ".nbprov" / "engine" / "venv"
    home.call(sys.executable, "-m", "venv", "--without-pip", str(own))
    stale = next((own / "lib").glob("python*")) / "site-packages" / "distributed-1.dist-info"
    stale.mkdir()
    (stale / "METADATA").write_text("Metadata-Version: 2.1\nName: distributed\nVersion: 1\n")

    def found() -> dict[str, str]:
        lines = home.call("bash", "-c", installation.look_script("dask")).splitlines()
        every = [json.loads(line.removeprefix(installation.MARK)) for line in lines]
        return {said["program"]: said["packages"].get("distributed", "") for said in every}

    # By their real paths: the link may lead elsewhere when the process is started again.
    assert found() == dict.fromkeys(
        (str(home.place / "bin" / name) for name in ("python", "python3")), ""
    )
    wheel(home.wheels, "distributed", "2026.8.0")
    home.install("distributed")
    assert found()[str(home.place / "engine" / "bin" / "python")] == "2026.8.0"
    # Without a `python` it is the one of our own.
    (home.folder / ".nbprov" / "python").unlink()
    assert found()[str(own / "bin" / "python")] == "1"


def test_an_engine_is_elsewhere_once_python_is_another_one_or_made_anew(home: Home) -> None:
    def elsewhere() -> bool:
        lines = home.call(
            "sh", "-c", installation.whereabouts_script(["dask-scheduler", "none"])
        ).splitlines()
        return installation.says_elsewhere(lines)

    assert not elsewhere()
    state, request = (
        home.folder / ".nbprov" / "engine" / "dask-scheduler.json",
        home.place / "request.json",
    )
    state.parent.mkdir()
    known = {"ports": {}, "python": "3.12.4", "packages": {}}
    for program, is_older in (
        ("/usr/bin/python3", True),
        (str(home.place / "engine" / "bin" / "python"), False),
    ):
        state.write_text(json.dumps({**known, "program": program}))
        assert elsewhere() == is_older
    request.touch()
    for seconds, is_older in ((-100, False), (100, True)):
        at = state.stat().st_mtime + seconds
        os.utime(request, (at, at))
        assert elsewhere() == is_older
    (home.folder / ".nbprov" / "envs" / "4567").mkdir()
    (home.folder / ".nbprov" / "python").unlink()
    assert not elsewhere(), "what runs without a python is left alone where there is none"
    (home.folder / ".nbprov" / "python").symlink_to("envs/4567")
    assert elsewhere()
    state.write_text("nonsense")
    assert not elsewhere()
