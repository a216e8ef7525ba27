"""The `local` cloud under the contract, and what the subjects of this tree share."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from nbprov.clouds.base import Cloud
from nbprov.clouds.contract import SCRIPTED, STOCK_CHECKS, CloudUnderTest, eventually, own_folder
from nbprov.model.failures import Cause
from nbprov.model.launches import Launch
from nbprov.model.offers import Offer
from nbprov.model.places import Market

__all__ = ["SCRIPTED", "CloudUnderTest", "LocalUnderTest", "eventually", "own_folder"]


def left_of(folder: Path, machines: Iterable[str]) -> list[str]:
    """Return the processes and folders that are left of these machines of a daemon."""
    from nbprov.clouds.local.daemon import processes

    found = [str(p) for one in machines if one for p in processes.of_machine(one)]
    return found + [
        str(folder / "i" / one) for one in machines if one and (folder / "i" / one).exists()
    ]


def end_folder(folder: Path) -> None:
    """Remove a daemon's folder; fail if a process or a machine of it is left."""
    eventually(lambda: not processes_that_name(folder), f"nothing that names {folder}")
    left = [*(folder / "i").glob("*")]
    shutil.rmtree(folder)
    assert left == []


LOCAL_MARKET = """
account = "contract"
[timing]
accept = {accept}
hidden = {hidden}
end = {end}
[[regions]]
name = "here"
zones = ["here-a", "here-b"]
price = {price}
[[regions]]
name = "there"
zones = ["there-a"]
[[types]]
name = "cpu"
vcpus = 2
memory_gib = 8
hourly = 0.04
[[types]]
name = "gpu"
accelerator = "A100"
count = 1
vcpus = 4
memory_gib = 16
family = "A100"
hourly = 2.0
spot = 0.5
{extra}
"""

OF_REQUESTS = (
    "a_change_ends_in_time_wherever_it_hangs",
    "a_create_that_failed_is_refused_in_words",
    "a_page_without_its_list_is_an_error",
    "a_call_ends_in_time_though_every_answer_is_slow",
    "a_create_that_became_late_is_not_sent",
    "a_machine_that_lacks_a_field_is_listed_or_an_error",
    "a_machine_that_names_no_owner_is_nobodys",
    "a_machine_without_labels_breaks_no_listing",
    "side_objects_that_name_no_owner_are_not_listed",
    "a_quote_that_cannot_be_asked_is_not_told",
    "a_server_that_does_not_prove_who_it_is_is_sent_nothing",
    "an_unknown_price_is_not_free",
    "nothing_secret_is_sent_unencrypted",
    "secrets_are_sent_where_they_are_needed_alone",
    "a_change_that_fails_says_so",
    "a_check_that_fails_says_so_and_raises_nothing",
    "a_create_that_was_never_sent_is_no_unknown_outcome",
    "a_create_whose_answer_is_lost_is_never_forgotten",
    "a_listing_that_breaks_anywhere_is_an_error",
    "a_machine_of_a_type_nobody_knows_is_listed",
    "a_poll_that_fails_decides_nothing",
    "an_image_is_used_or_refused",
    "labels_reach_the_cloud",
    "no_call_takes_longer_than_it_says",
    "only_ssh_is_open_and_only_to_the_caller",
    "secrets_that_a_refusal_repeats_are_not_passed_on",
    "side_objects_that_cannot_be_asked_are_not_forgotten",
    "to_end_nothing_asks_nothing",
    "what_a_cloud_can_do_is_in_its_create",
    "what_hinders_one_machine_hinders_no_other",
    "what_launches_share_is_made_once_for_each_owner",
)
"""The checks that read or spoil requests, which needs a cloud that is reached over HTTP."""

LOCAL_CODES = {
    Cause.CAPACITY: "InsufficientCapacity",
    Cause.QUOTA: "QuotaExceeded",
    Cause.NOT_OFFERED: "NotOffered",
    Cause.CREDENTIALS: "Unauthorized",
    Cause.BALANCE: "InsufficientBalance",
    Cause.PERMISSION: "AccessDenied",
    Cause.BAD_REQUEST: "InvalidParameter",
    Cause.RATE_LIMIT: "RateExceeded",
    Cause.TRANSIENT: "InternalError",
    Cause.SPOT: "SpotCapacity",
}


class LocalUnderTest(CloudUnderTest):
    """The `local` cloud in a state directory of its own."""

    name = "local"
    login_label = False
    does_not_apply: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            OF_REQUESTS, "its daemon has a socket of its own: no request can be spoilt"
        ),
        "without_credentials_nothing_is_sent": "nobody logs in",
        "the_login_follows_its_label": "every machine runs as the account of the notebook",
        "a_listing_goes_through_every_page": "the daemon lists everything at once",
        "a_state_nobody_knows_is_unknown_and_billed": "daemon and adapter share one list of states",
        "every_state_that_bills_is_billed": "its machines cost nothing",
        "a_fetched_list_has_the_units_of_the_catalogue": "its offers are read from the market file",
        "a_price_list_that_cannot_be_read_is_not_empty": "the same",
        "a_part_of_a_price_list_that_cannot_be_read_is_named": "the same",
        "a_fetcher_obeys_the_stop": "the same",
        "a_fetcher_says_what_it_lacks": "the same",
        "a_quote_is_of_its_type_in_its_place": "the same",
        "a_new_address_is_admitted_in_place_of_the_old_one": "launches change no rules",
        "a_disk_tier_makes_another_create": "it has one kind of disk",
        "whether_credentials_are_there_is_told_without_a_request": "nobody logs in",
        **dict.fromkeys(STOCK_CHECKS, "no stock can be asked for"),
        "stock_that_cannot_be_asked_is_not_told": "the same",
    }

    def __init__(self) -> None:
        self.folder = own_folder("l")
        self.begin_market()
        super().__init__()

    def begin_market(self) -> None:
        """Write the market file for the first time."""
        self.values: dict[str, Any] = {"accept": 0.02, "hidden": 0, "end": 0, "price": 1.0}
        self.extra: list[str] = []
        self.write()

    def make(self) -> Cloud:
        from nbprov.clouds.local.provisioner import LocalCloud

        return LocalCloud(self.folder)

    def write(self, **values: Any) -> None:
        """Write the market file again, with changed values."""
        self.values |= values
        text = LOCAL_MARKET.format(**self.values, extra="\n".join(self.extra))
        draft = self.folder / "market.new"
        draft.write_text(text)
        draft.replace(self.folder / "market.toml")

    def add(self, table: str) -> None:
        """Add a table to the market file."""
        self.extra.append(table)
        self.write()

    def offer(self, market: Market = Market.ON_DEMAND) -> Offer:
        """Return the offer that `launch` requests."""
        found = self.cloud.offers() or ()
        return next(
            o for o in found if (o.zone, o.instance_type, o.market) == ("here-a", "gpu", market)
        )

    def launch(self, **changes: Any) -> Launch:
        offer = self.offer(changes.pop("market", Market.ON_DEMAND))
        return self.launch_of(offer, **changes)

    def other_launch(self, **changes: Any) -> Launch:
        found = self.cloud.offers() or ()
        offer = next(o for o in found if (o.region, o.instance_type) == ("there", "cpu"))
        return self.launch_of(offer, **changes)

    def refuse(self, cause: Cause) -> None:
        later = "refuse_later" if cause in (Cause.CAPACITY, Cause.SPOT, Cause.QUOTA) else "refuse"
        self.add(
            f'[[faults]]\ndo = "{later}"\nfirst = 1\nretry_after = 3\ncode = '
            f'"{LOCAL_CODES[cause]}"\nmessage = "scripted {uuid.uuid4()}"'
        )

    def lose_answer(self, call: str = "submit") -> None:
        self.add(
            f'[[faults]]\ndo = "lose_answer"\ncall = "{call}"\nfirst = 1\nmessage = '
            f'"{uuid.uuid4()}"'
        )

    def leave(self, count: int) -> None:
        self.add(f"[[stock]]\nleft = {count}")

    def hide_young(self, seconds: float) -> None:
        self.write(hidden=seconds)

    def end_slowly(self, seconds: float) -> None:
        self.write(end=seconds)

    def change_price(self, factor: float) -> None:
        self.write(price=factor)

    def traces(self, ids: Sequence[str]) -> list[str]:
        return left_of(self.folder, ids)

    def written(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in self.folder.glob("*") if p.is_file()}

    def close(self) -> None:
        from nbprov.clouds.local.__main__ import main

        ids = [p.name for p in (self.folder / "i").glob("*")]
        assert main(["stop", "--dir", str(self.folder)]) == 0
        super().close()
        left = self.traces(ids)
        end_folder(self.folder)
        assert left == []


def processes_that_name(folder: Path) -> list[str]:
    """Return command lines of other processes that name this directory in their arguments or
    environment (Linux).
    """
    found = []
    needle = str(folder).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if needle in command or needle in (entry / "environ").read_bytes():
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
