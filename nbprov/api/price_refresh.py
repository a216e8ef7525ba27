"""Looking after the prices: how they stand, renewing them, what changed, putting them back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.model import paths
from nbprov.model.clock import Seconds
from nbprov.model.errors import NbprovError, UsageError

if TYPE_CHECKING:
    from nbprov.catalog import Problem
    from nbprov.catalog.refresh import CloudStatus, Differences, Refreshed, Upkeep
    from nbprov.catalog.refresh.status import Watch

log = logging.getLogger("nbprov.catalog")


BEHIND_SECONDS: Seconds = 1.0
"""The automatic refresh waits so long: importing what it takes would hold up the table that a person is waiting for."""


class Catalogue:
    """The price files of this user, as `session.catalogue`.

    Examples
    --------
    >>> session.catalogue.refresh(["gcp"])["gcp"].differences.to_frame()   # doctest: +SKIP
    >>> session.catalogue.diff("gcp", against="shipped").counts()          # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._options: Mapping[str, Any] = {}
        self._lock = threading.Lock()
        self._automatic: threading.Thread | None = None
        self._told: set[Problem] = set()

    def configure(self, options: Mapping[str, Any]) -> None:
        """Set policies beside `catalog.toml`, which they beat.

        Parameters
        ----------
        options
            By cloud (or `default`): `7h`, `on demand`, `never`; `automatic: False` ends all refresh that nobody asked for.

        Raises
        ------
        CatalogError
            If one is not understood; then nothing is changed.
        """
        from nbprov.catalog.refresh import Settings

        refresh = {name: policy for name, policy in options.items() if name != "automatic"}
        asked = {
            "refresh": refresh,
            **({"automatic": options["automatic"]} if "automatic" in options else {}),
        }
        Settings.read(paths.home(), asked)
        self._options = asked

    def upkeep(self) -> Upkeep:
        """What does the work, for the home of now."""
        from nbprov.catalog.refresh import Upkeep

        return Upkeep(paths.home(), options=lambda: self._options)

    def refresh(
        self,
        clouds: Sequence[str] | str | None = None,
        *,
        source: str = "auto",
        force: bool = False,
        watch: Watch | None = None,
        tick: Callable[[], object] | None = None,
        stop: threading.Event | None = None,
    ) -> Refreshed:
        """Fetch prices and put in place what holds up. Blocks; the next price question sees them.

        Parameters
        ----------
        clouds
            Their names; None: all but those whose policy is never.
        source
            `hosted`: the v8 mirror; `provider`: the cloud's own list; `auto`: the mirror, the cloud where nothing is hosted.
        force
            Fetch over files that were edited by hand (a copy is kept), and take a list that has far fewer rows than before.
        watch, tick
            Told of every step, from any thread; called ten times a second in the caller's.
        stop
            Set it to end the refresh from another thread.

        Returns
        -------
        Refreshed
            What became of each cloud. One that could not be renewed keeps its prices.

        Raises
        ------
        UsageError
            If a cloud or the source has no such name.
        CatalogError
            If `catalog.toml` cannot be used.
        Interrupted
            On Ctrl-C, within a second; every cloud's prices are whole, the old or the new.
        """
        from nbprov.catalog.refresh import Source

        try:
            chosen = Source(source)
        except ValueError:
            raise UsageError(
                f"prices do not come from {source!r}", hint=f"one of {', '.join(Source)}"
            ) from None
        named = [clouds] if isinstance(clouds, str) else clouds
        given = {
            name: value
            for name, value in (("watch", watch), ("tick", tick), ("stop", stop))
            if value is not None
        }
        return self.upkeep().refresh(named, source=chosen, force=force, **given)  # type: ignore[arg-type]

    def status(self, clouds: Sequence[str] | None = None) -> list[CloudStatus]:
        """How each cloud's prices stand: source, age, policy, edits, last error. Nothing is fetched."""
        return self.upkeep().status(clouds)

    def diff(self, cloud: str = "", *, against: str = "last") -> Differences:
        """What the last refresh changed, of one cloud or of all; `against="shipped"`: the prices of now beside those of this release."""
        return self.upkeep().diff(cloud, against=against)

    def restore(self, cloud: str = "", *, to: str = "last") -> dict[str, str]:
        """Put prices back; by cloud, what was done.

        Parameters
        ----------
        cloud
            Empty: every cloud whose files were edited.
        to
            `last`: as the last refresh wrote them, or the shipped ones where they are so already; `shipped`: those of this release.
        """
        return self.upkeep().restore(cloud, to=to)

    def path(self, cloud: str = "") -> Path:
        """The folder of the price files, of all or of one cloud."""
        return self.upkeep().path(cloud)

    def untold(self, problems: Iterable[Problem]) -> list[Problem]:
        """Those problems of price files that this session was not told of yet; each is given out once."""
        with self._lock:
            news = [problem for problem in dict.fromkeys(problems) if problem not in self._told]
            self._told.update(news)
        return news

    def begin_automatic(self) -> threading.Thread:
        """Refresh what its policy says is due, once a session, in a daemon thread. Returns that, at once.

        For a notebook, behind its first price question: it never blocks, never speaks and never fails. What became of it is in the log
        and in `status()`.
        """
        with self._lock:
            if self._automatic is None:
                self._automatic = threading.Thread(
                    target=self._refresh_what_is_due, name="nbprov-prices", daemon=True
                )
                self._automatic.start()
            return self._automatic

    def _refresh_what_is_due(self) -> None:
        time.sleep(BEHIND_SECONDS)
        try:
            upkeep = self.upkeep()
            due = upkeep.due()
            if not due:
                return
            done = upkeep.refresh(due)
            log.info("refresh of %s: %s", ", ".join(due), done.sentence())
            if any(len(cloud.differences) for cloud in done):
                from nbprov.catalog import default_catalog

                default_catalog().clouds()  # the next question finds the new files parsed
        except NbprovError as error:
            log.warning("automatic refresh: %s", error.message)
        except Exception:  # nobody is there to see it
            log.exception("automatic refresh")
