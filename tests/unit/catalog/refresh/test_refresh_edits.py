"""Files that were edited by hand, damaged, or are to be put back."""

from __future__ import annotations

from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.refresh import Outcome, Owner, PriceFileStore
from nbprov.model.errors import UsageError


def _file(upkeep: PriceFileStore, cloud: str = "lambda") -> Path:
    return upkeep.root / cloud / "vms.csv"


def _edit(upkeep: PriceFileStore) -> str:
    text = _file(upkeep).read_text().replace("0.7500", "0.5000")
    _file(upkeep).write_text(text)
    return text


@pytest.fixture
def fetched(upkeep: PriceFileStore, mirror: doubles.Mirror) -> PriceFileStore:
    """A home that has fetched `lambda`; the mirror has dearer prices by now."""
    mirror.host("lambda", world.v8_text())
    upkeep.refresh(["lambda"])
    mirror.host("lambda", world.v8_text(factor=1.1))
    return upkeep


def test_an_edited_file_is_never_overwritten(
    fetched: PriceFileStore, mirror: doubles.Mirror
) -> None:
    text, asked = _edit(fetched), len(mirror.asked)
    done = fetched.refresh(["lambda"])["lambda"]
    assert done.outcome is Outcome.EDITED
    assert done.ok
    assert "vms.csv" in done.message
    assert "--force" in done.hint
    assert _file(fetched).read_text() == text
    assert len(mirror.asked) == asked, "nothing is fetched that would not be used"
    (status,) = fetched.status(["lambda"])
    assert (status.owner, status.edited, status.source) == (
        Owner.PERSON,
        ("vms.csv",),
        "hosted, edited",
    )


def test_force_fetches_over_edits_and_keeps_them_aside(fetched: PriceFileStore) -> None:
    text = _edit(fetched)
    assert fetched.refresh(["lambda"], force=True)["lambda"].outcome is Outcome.UPDATED
    assert _file(fetched).read_text() == world.v8_text(factor=1.1)
    assert (fetched.root / "lambda" / ".set-aside" / "vms.csv").read_text() == text
    assert fetched.status(["lambda"])[0].owner is Owner.NBPROV


def test_restore_takes_edits_back_and_the_next_refresh_works(fetched: PriceFileStore) -> None:
    text = _edit(fetched)
    assert fetched.restore() == {"lambda": "as the last refresh wrote them"}
    assert _file(fetched).read_text() == world.v8_text()
    assert (fetched.root / "lambda" / ".set-aside" / "vms.csv").read_text() == text
    assert fetched.refresh(["lambda"])["lambda"].outcome is Outcome.UPDATED


def test_restore_without_edits_does_nothing_unless_named(fetched: PriceFileStore) -> None:
    assert fetched.restore() == {}
    assert fetched.restore("lambda") == {"lambda": "no prices are left of it"}
    assert not _file(fetched).exists()
    assert fetched.status(["lambda"])[0].owner is Owner.NOBODY
    assert not fetched.diff("lambda")


def test_restore_to_shipped(fetched: PriceFileStore, tmp_path: Path) -> None:
    place = tmp_path / "shipped" / "lambda"
    place.mkdir(parents=True)
    (place / "vms.csv").write_text(world.v8_text(factor=0.9))
    assert fetched.restore("lambda", to="shipped") == {"lambda": "the shipped prices"}
    assert fetched.present("lambda") == fetched.shipped("lambda")
    assert fetched.path("lambda") == place
    assert not (fetched.root / "lambda" / ".last-good").exists()


def test_a_file_of_ones_own_is_ones_own(upkeep: PriceFileStore, mirror: doubles.Mirror) -> None:
    mirror.host("lambda", world.v8_text())
    _file(upkeep).parent.mkdir(parents=True)
    _file(upkeep).write_text(world.v8_text(factor=2.0))
    assert upkeep.refresh(["lambda"])["lambda"].outcome is Outcome.EDITED
    assert upkeep.status(["lambda"])[0].source == "yours"


def test_overrides_in_the_folder_stay(fetched: PriceFileStore) -> None:
    custom = fetched.root / "lambda" / "mine_custom.csv"
    custom.write_text("InstanceType,Price\ngpu_1x_a10,0.1\n")
    fetched.refresh(["lambda"])
    fetched.restore("lambda")
    assert custom.exists()


@pytest.mark.parametrize("damage", [b"", b"\0" * 4096, b"InstanceType,Accel", b"\xff\xfe\xff"])
def test_a_damaged_file_is_recovered_from_the_last_good_one(
    fetched: PriceFileStore, mirror: doubles.Mirror, damage: bytes
) -> None:
    _file(fetched).write_bytes(damage)
    catalog = Catalog.open(fetched.root, cache=fetched.home / "cache")
    assert catalog.offers(Query(accelerator="A10"))[0].hourly == 750_000, (
        "readers turn to the last good one by themselves"
    )
    assert fetched.status(["lambda"])[0].owner is Owner.DAMAGED
    mirror.files.clear()
    done = fetched.refresh(["lambda"])["lambda"]
    assert done.outcome is Outcome.FAILED
    assert "replaced by the last good ones" in done.notes[0]
    assert _file(fetched).read_text() == world.v8_text()
    assert (fetched.root / "lambda" / ".set-aside" / "vms.csv").read_bytes() == damage


def test_damage_without_a_copy_is_fetched_anew(fetched: PriceFileStore) -> None:
    (fetched.root / "lambda" / ".last-good" / "vms.csv").unlink()
    _file(fetched).write_bytes(b"x")
    assert fetched.refresh(["lambda"])["lambda"].outcome is Outcome.UPDATED
    assert _file(fetched).read_text() == world.v8_text(factor=1.1)


@pytest.mark.parametrize("state", [b"", b"[]", b'{"marks": 3}', b'{"fetched": "never"}', b"\0\0"])
def test_a_torn_state_makes_the_files_the_persons_own(
    fetched: PriceFileStore, state: bytes
) -> None:
    (fetched.root / "lambda" / ".refresh" / "state.json").write_bytes(state)
    assert fetched.status(["lambda"])[0].owner is Owner.PERSON
    assert fetched.refresh(["lambda"])["lambda"].outcome is Outcome.EDITED
    assert _file(fetched).read_text() == world.v8_text()


def test_differences_of_the_last_refresh_and_against_shipped(
    fetched: PriceFileStore, tmp_path: Path
) -> None:
    place = tmp_path / "shipped" / "lambda"
    place.mkdir(parents=True)
    (place / "vms.csv").write_text(world.v8_text(regions=world.REGIONS[:2]))
    fetched.refresh(["lambda"])
    assert fetched.diff("lambda").counts() == {"up": 20, "down": 0, "new": 0, "gone": 0}
    assert fetched.diff().counts() == {"up": 20, "down": 0, "new": 0, "gone": 0}
    assert fetched.diff("lambda", against="shipped").counts() == {
        "up": 10,
        "down": 0,
        "new": 10,
        "gone": 0,
    }
    with pytest.raises(UsageError, match="not 'yesterday'"):
        fetched.diff(against="yesterday")
    with pytest.raises(UsageError, match="not to 'yesterday'"):
        fetched.restore(to="yesterday")
