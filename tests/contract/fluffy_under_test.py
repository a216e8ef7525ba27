"""The example plugin under the contract.

It is installed as a package of its own, loaded by its entry point, and runs over its own server
process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar

from clouds_under_test import LOCAL_CODES, SCRIPTED, CloudUnderTest, LocalUnderTest, own_folder

from nbprov.clouds.base import Cloud
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

PACKAGE = Path(__file__).parents[1] / "plugins" / "fluffycloud"
KEY = "fluffy-demo-key"
MARKET = """
account = "fluffy-contract"
[timing]
accept = {accept}
hidden = {hidden}
end = {end}
[[regions]]
name = "meadow"
zones = ["meadow-1"]
price = {price}
[[regions]]
name = "warren"
zones = ["warren-1"]
price = {price}
[[types]]
name = "small"
vcpus = 2
memory_gib = 4
hourly = 0.04
[[types]]
name = "gpu"
accelerator = "A100"
count = 1
vcpus = 4
memory_gib = 16
family = "A100"
hourly = 2.0
{extra}
"""


def install(target: Path) -> None:
    """Install the package with the metadata of its pyproject.toml.

    This is done by hand because a build needs its back end, and tests have no network to download
    one. Python's import system and `importlib.metadata` see the same result. The entry points come
    from pyproject.toml, so they are tested as written.
    """
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(
        PACKAGE / "fluffycloud",
        target / "fluffycloud",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    info = target / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "INSTALLER").write_text("the tests\n")
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


class FluffyServer:
    """FluffyCloud's server as a process, over the daemon of a folder with a market file."""

    def __init__(self, folder: Path, site: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(site)}
        command = [sys.executable, "-m", "fluffycloud.server", "--dir", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line.startswith("READY "), f"the server did not start: {line!r}"
        self.url = line.split()[1]

    @property
    def env(self) -> dict[str, str]:
        """Return the environment with which the adapter reaches it."""
        return {"FLUFFYCLOUD_URL": self.url, "FLUFFYCLOUD_KEY": KEY}

    def tell(self, path: str) -> None:
        """POST to one of its control routes."""
        request = urllib.request.Request(
            f"{self.url}/v1{path}",
            data=b"{}",
            method="POST",
            headers={"Authorization": f"Bearer {KEY}"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)
        if self.process.stdout:
            self.process.stdout.close()


class FluffyUnderTest(LocalUnderTest):
    """FluffyCloud. Its server uses a `local` daemon, so the market file works here too."""

    name = "fluffycloud"
    login_label = True
    does_not_apply: ClassVar[Mapping[str, str]] = {
        "a_create_that_became_late_is_not_sent": "a create is its first request",
        "whether_credentials_are_there_is_told_without_a_request": "it has no `missing`",
        "a_machine_without_labels_breaks_no_listing": "the owner is a field of every machine",
        "side_objects_that_name_no_owner_are_not_listed": "nothing lies beside its machines",
        "side_objects_that_cannot_be_asked_are_not_forgotten": "the same",
        "a_new_address_is_admitted_in_place_of_the_old_one": "launches change no rules",
        "a_disk_tier_makes_another_create": "it has one kind of disk",
    }
    causes = frozenset(SCRIPTED) - {Cause.SPOT}
    tells_poweroff_reason = False
    addresses = ("FLUFFYCLOUD_URL",)
    credentials = ("FLUFFYCLOUD_KEY",)
    billed_states = ("baking", "hopping", "shedding", "carrot-wait")

    def __init__(self) -> None:
        self.site = own_folder("s")
        install(self.site)
        sys.path.insert(0, str(self.site))
        self.folder = own_folder("l")
        self.begin_market()
        self.server = FluffyServer(self.folder, self.site)
        self.set_environment(self.server.env)
        CloudUnderTest.__init__(self)

    def make(self) -> Cloud:
        (point,) = entry_points(group="nbprov.clouds", name="fluffycloud")
        made: Cloud = point.load()()
        return made

    def write(self, **values: Any) -> None:
        self.values |= values
        draft = self.folder / "market.new"
        draft.write_text(MARKET.format(**self.values, extra="\n".join(self.extra)))
        draft.replace(self.folder / "market.toml")

    def launch(self, **changes: Any) -> Launch:
        market = changes.pop("market", Market.ON_DEMAND)
        offer = Offer("fluffycloud", "meadow", "", "gpu", "A100", 1, 4, 16, market, usd(2))
        return self.launch_of(offer, **changes)

    def other_launch(self, **changes: Any) -> Launch:
        kind = ("warren", "", "small", "", 0, 2, 4)
        offer = Offer("fluffycloud", *kind, Market.ON_DEMAND, usd("0.04"))
        return self.launch_of(offer, **changes)

    def refuse(self, cause: Cause) -> None:
        assert cause in LOCAL_CODES
        super().refuse(cause)

    def leave(self, count: int) -> None:
        self.add(f'[[stock]]\nregion = "meadow"\nleft = {count}')

    def page(self, size: int, empty: int) -> bool:
        self.server.tell(f"/_pages/{size}/{empty}")
        return True

    def show_state(self, instance_id: str, state: str) -> bool:
        self.server.tell(f"/_state/{instance_id}/{state}")
        return True

    def close(self) -> None:
        self.server.close()
        sys.path.remove(str(self.site))
        for name in [name for name in sys.modules if name.partition(".")[0] == "fluffycloud"]:
            del sys.modules[name]
        shutil.rmtree(self.site)
        super().close()
