"""Refreshing from the hosted mirror."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import price_mirror as doubles
import price_world as world
import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.refresh import Outcome, Owner, PriceFileStore, Source, automatic, download
from nbprov.clouds.pricing import fetcher
from nbprov.model.errors import Interrupted, UsageError

REFUSES = "http://127.0.0.1:9/{cloud}/vms.csv"


def _price(upkeep: PriceFileStore) -> int:
    return (
        Catalog.open(upkeep.root, cache=upkeep.home / "cache")
        .offers(Query(accelerator="A10"))[0]
        .hourly
    )


def test_first_refresh_puts_the_file_in_place_and_the_next_question_sees_it(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    file = mirror.host("lambda", world.v8_text())
    done = upkeep.refresh(["lambda"])
    assert done["lambda"].outcome is Outcome.UPDATED
    assert done["lambda"].rows == 20
    assert done["lambda"].differences.counts() == {"up": 0, "down": 0, "new": 20, "gone": 0}
    assert (upkeep.root / "lambda" / "vms.csv").read_bytes() == file.data
    assert _price(upkeep) == 750_000
    mirror.host("lambda", world.v8_text(factor=1.2))
    assert upkeep.refresh(["lambda"])["lambda"].differences.counts() == {
        "up": 20,
        "down": 0,
        "new": 0,
        "gone": 0,
    }
    assert _price(upkeep) == 900_000


def test_tag_is_sent_and_304_keeps_the_file(upkeep: PriceFileStore, mirror: doubles.Mirror) -> None:
    file = mirror.host("lambda", world.v8_text())
    upkeep.refresh(["lambda"])
    (path,) = (upkeep.root / "lambda").glob("vms.csv")
    os.utime(path, (1e9, 1e9))
    again = upkeep.refresh(["lambda"])["lambda"]
    assert again.outcome is Outcome.CURRENT
    assert again.received == 0
    assert mirror.requests("lambda")[-1]["If-None-Match"] == file.etag
    assert path.stat().st_mtime > 1.7e9, "prices that were confirmed today are of today"
    assert upkeep.status(["lambda"])[0].owner is Owner.NBPROV


def test_no_tag_is_sent_with_force_or_when_the_file_is_gone(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text())
    upkeep.refresh(["lambda"])
    upkeep.refresh(["lambda"], force=True)
    assert "If-None-Match" not in mirror.requests("lambda")[-1]
    (upkeep.root / "lambda" / "vms.csv").unlink()
    assert upkeep.refresh(["lambda"])["lambda"].outcome is Outcome.UPDATED
    assert "If-None-Match" not in mirror.requests("lambda")[-1]


def test_same_bytes_without_a_tag_change_nothing(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text(), doubles.untagged)
    upkeep.refresh(["lambda"])
    before = (upkeep.root / "lambda" / "vms.csv").stat().st_ino
    assert upkeep.refresh(["lambda"])["lambda"].outcome is Outcome.CURRENT
    assert (upkeep.root / "lambda" / "vms.csv").stat().st_ino == before


@pytest.mark.parametrize(
    "primary", [doubles.status(404), doubles.status(503), doubles.torn(300), doubles.status(403)]
)
def test_fallback_is_asked_where_the_primary_fails(
    upkeep: PriceFileStore, mirror: doubles.Mirror, primary: doubles.Behaviour
) -> None:
    mirror.host("lambda", world.v8_text(), primary)
    with doubles.mirror() as second:
        second.host("lambda", world.v8_text())
        world.settings(upkeep.home, mirror.address, second.address)
        done = upkeep.refresh(["lambda"])["lambda"]
        assert done.outcome is Outcome.UPDATED
        assert done.url.startswith(second.base)


def test_a_busy_mirror_is_waited_for_as_long_as_it_says(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host(
        "lambda", world.v8_text(), doubles.status(429, "7"), doubles.status(502), doubles.whole
    )
    made: list[world.QuickHttp] = []

    def http(stop: threading.Event) -> world.QuickHttp:
        made.append(world.QuickHttp(stop))
        return made[-1]

    patient = world.upkeep(upkeep.home, upkeep.home / "none", http=http)
    assert patient.refresh(["lambda"])["lambda"].outcome is Outcome.UPDATED
    assert made[0].pauses[0] == 7.0
    assert len(mirror.requests("lambda")) == 3


def test_every_cut_of_the_file_is_refused_and_the_old_one_stays(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    old = world.v8_text(regions=world.REGIONS[:1])
    mirror.host("lambda", old)
    upkeep.refresh(["lambda"])
    new = world.v8_text(factor=1.1, regions=world.REGIONS[:1])
    lines = [at for at, character in enumerate(new, 1) if character == "\n"]
    for at in [0, 1, *range(40, len(new), 97), *lines[:-1], len(new) - 1]:
        for cut in (doubles.torn(at), doubles.short(at)):
            mirror.host("lambda", new, cut)
            done = upkeep.refresh(["lambda"])["lambda"]
            assert done.outcome is Outcome.FAILED, f"{cut} at {at}: {done}"
            assert (upkeep.root / "lambda" / "vms.csv").read_text() == old
    mirror.host("lambda", new)
    assert upkeep.refresh(["lambda"])["lambda"].outcome is Outcome.UPDATED


def test_a_cut_in_a_line_is_refused_without_any_tag_or_length(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    text = world.v8_text(regions=world.REGIONS[:1])
    ends = {at for at, character in enumerate(text, 1) if character == "\n"}
    for at in range(1, len(text), 67):
        if at in ends:
            continue
        mirror.host("lambda", text[:at], doubles.untagged)
        assert upkeep.refresh(["lambda"])["lambda"].code in (
            "catalog.torn",
            "catalog.no-prices",
            "catalog.columns",
        )


def test_offline_is_one_line_and_changes_nothing(upkeep: PriceFileStore) -> None:
    world.settings(upkeep.home, REFUSES)
    done = upkeep.refresh(["lambda", "vast"])
    assert done.is_offline
    assert done.sentence() == "offline: no price source could be reached; the prices in place stay"
    assert upkeep.status(["lambda"])[0].error


def test_one_cloud_that_fails_leaves_the_others_alone(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text())
    mirror.host("vast", "InstanceType,Price\nx,1\n")
    done = upkeep.refresh(["vast", "lambda"])
    assert [c.outcome for c in done] == [Outcome.FAILED, Outcome.UPDATED]
    assert done["vast"].code == "catalog.columns"
    assert not done.ok
    assert "1 updated, 1 failed" in done.sentence()
    assert upkeep.status(["vast"])[0].error == done["vast"].message
    frame = done.to_frame()
    assert list(frame["outcome"]) == ["failed", "updated"]
    assert list(frame["new"]) == [0, 20]


def test_a_success_forgets_the_error(upkeep: PriceFileStore, mirror: doubles.Mirror) -> None:
    mirror.host("lambda", world.v8_text(), doubles.status(500))
    assert upkeep.refresh(["lambda"])["lambda"].outcome is Outcome.FAILED
    mirror.host("lambda", world.v8_text())
    upkeep.refresh(["lambda"])
    assert upkeep.status(["lambda"])[0].error == ""


def test_a_file_that_others_may_change_says_so_and_names_the_clouds_own_list(
    upkeep: PriceFileStore, mirror: doubles.Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cloud in ("vast", "lambda", "hyperbolic"):
        mirror.host(cloud, world.v8_text())
    assert upkeep.refresh(["vast"])["vast"].notes == (), "a mirror of one's own"
    monkeypatch.setattr(download, "PRIMARY", mirror.address)
    done = upkeep.refresh(["lambda", "hyperbolic"])
    words = "hosted for SkyPilot and not signed: whoever writes to that place can change them"
    assert done["hyperbolic"].notes == (words,)
    assert done["lambda"].notes == (f"{words}; --source provider asks lambda itself",)


def test_a_file_that_nobody_signs_is_fetched_only_where_it_is_named(
    upkeep: PriceFileStore, mirror: doubles.Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    for module in (automatic, download):
        monkeypatch.setattr(module, "PRIMARY", mirror.address)
    for cloud in ("lambda", "hyperbolic"):
        mirror.host(cloud, world.v8_text())
        done = upkeep.refresh([cloud])[cloud]
        assert (done.outcome, done.code) == (Outcome.FAILED, "catalog.unsigned")
        assert "--source hosted" in done.hint
        assert mirror.requests(cloud) == []
    assert "LAMBDA_API_KEY" in upkeep.refresh(["lambda"])["lambda"].message
    done = upkeep.refresh(["lambda"], source=Source.HOSTED)["lambda"]
    assert done.outcome is Outcome.UPDATED


def test_a_refresh_of_all_passes_over_what_only_an_unsigned_file_has(
    upkeep: PriceFileStore, mirror: doubles.Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.host("hyperbolic", world.v8_text())
    upkeep.refresh(["hyperbolic"], source=Source.HOSTED)
    monkeypatch.setattr(automatic, "PRIMARY", mirror.address)
    monkeypatch.setattr(fetcher, "known", lambda: ())
    done = upkeep.refresh()["hyperbolic"]
    assert done.outcome is Outcome.PASSED
    assert "nbprov reads no price list of hyperbolic" in done.message
    assert "%nbprov catalog refresh hyperbolic --source hosted" in done.message
    assert len(mirror.requests("hyperbolic")) == 1


def test_what_is_not_hosted_says_so(upkeep: PriceFileStore) -> None:
    done = upkeep.refresh(["nowhere"])["nowhere"]
    assert done.outcome is Outcome.FAILED
    assert "no price file of nowhere is hosted" in done.message


def test_a_slip_in_a_name_is_no_new_cloud(upkeep: PriceFileStore) -> None:
    with pytest.raises(UsageError, match="did you mean lambda"):
        upkeep.refresh(["lamda"])


def test_a_policy_of_never_is_passed_over_unless_named(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("runpod", world.v8_text())
    world.settings(upkeep.home, mirror.address, more='[source]\ndefault = "hosted"\n')
    assert upkeep.refresh()["runpod"].outcome is Outcome.PASSED
    assert mirror.requests("runpod") == []
    assert upkeep.refresh(["runpod"])["runpod"].outcome is Outcome.UPDATED


def test_a_stop_lets_go_at_once_and_leaves_the_old(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text())
    upkeep.refresh(["lambda"])
    mirror.host("lambda", world.v8_text(factor=1.1), doubles.hanging)
    stop = threading.Event()

    def tick() -> None:
        if mirror.held.is_set():
            stop.set()

    done = upkeep.refresh(["lambda"], stop=stop, tick=tick)["lambda"]
    assert done.outcome is Outcome.STOPPED
    assert done.seconds < 30
    assert upkeep.folder("lambda").owner() is Owner.NBPROV
    assert not upkeep.folder("lambda").staging.exists()


def test_a_cloud_that_takes_too_long_is_ended_and_keeps_its_prices(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text())
    upkeep.refresh(["lambda"])
    before = upkeep.present("lambda")
    mirror.host("lambda", world.v8_text(factor=1.1), doubles.hanging)
    mirror.host("vast", world.v8_text())
    hurried = PriceFileStore(upkeep.home, shipped=upkeep._shipped, seconds=1.0)
    done = hurried.refresh(["lambda", "vast"])
    assert (done["lambda"].outcome, done["lambda"].code) == (Outcome.FAILED, "catalog.slow")
    assert done["lambda"].message == ("its prices did not arrive within 1 s; those in place stay")
    assert hurried.present("lambda") == before
    assert done["vast"].outcome is Outcome.UPDATED
    assert hurried.status(["lambda"])[0].error == done["lambda"].message


def test_an_interrupt_says_what_was_renewed(upkeep: PriceFileStore, mirror: doubles.Mirror) -> None:
    mirror.host("lambda", world.v8_text())
    mirror.host("vast", world.v8_text(), doubles.hanging)
    over: set[str] = set()

    def interrupt() -> None:
        if mirror.held.is_set() and "lambda" in over:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="renewed before that: lambda"):
        upkeep.refresh(
            ["lambda", "vast"],
            watch=lambda step: over.add(step.cloud) if step.result else None,
            tick=interrupt,
        )
    assert not (upkeep.root / "vast" / "vms.csv").exists()


def test_two_at_once_fetch_once(
    upkeep: PriceFileStore, mirror: doubles.Mirror, tmp_path: Path
) -> None:
    mirror.host("lambda", world.v8_text(), doubles.hanging, doubles.whole)
    other = world.upkeep(upkeep.home, tmp_path / "shipped")
    waits = threading.Event()
    results = {}

    def first() -> None:
        results["first"] = upkeep.refresh(["lambda"])["lambda"]

    def second() -> None:
        results["second"] = other.refresh(
            ["lambda"], watch=lambda s: waits.set() if "waiting" in s.doing else None
        )["lambda"]

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert mirror.held.wait(60)
    threads[1].start()
    assert waits.wait(60)
    mirror.release.set()
    for thread in threads:
        thread.join(60)
    assert results["first"].outcome is Outcome.UPDATED
    assert results["second"].outcome is Outcome.CURRENT
    assert results["second"].rows == 20
    assert len(mirror.requests("lambda")) == 1


def test_progress_tells_bytes_and_ends_with_the_result(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text())
    steps = []
    upkeep.refresh(["lambda"], watch=steps.append)
    assert steps[0].doing == "asking"
    assert max(s.progress.received for s in steps if s.progress) == len(world.v8_text())
    assert steps[-1].result is not None
    assert steps[-1].result.outcome is Outcome.UPDATED


def test_a_folder_that_cannot_be_written_is_a_typed_failure(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    mirror.host("lambda", world.v8_text())
    upkeep.root.parent.mkdir(parents=True, exist_ok=True)
    upkeep.root.write_text("a file where the folder should be")
    done = upkeep.refresh(["lambda"])["lambda"]
    assert (done.outcome, done.code) == (Outcome.FAILED, "catalog.unwritable")


def test_a_cloud_that_is_hosted_is_known_by_name_and_kept_from_then_on(
    upkeep: PriceFileStore, mirror: doubles.Mirror
) -> None:
    assert upkeep.refresh(["OCI"])["oci"].code == "catalog.not-hosted"
    assert "oci" not in upkeep.clouds()
    with pytest.raises(UsageError) as slip:
        upkeep.refresh(["shadefrom"])
    assert slip.value.hint == "did you mean shadeform?"
    mirror.host("oci", world.v8_text())
    assert upkeep.refresh(["oci"])["oci"].outcome is Outcome.UPDATED
    assert "oci" in upkeep.clouds()
