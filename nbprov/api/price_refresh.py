"""The price files of this user: their state, refresh, changes and restore."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.api.name_list import name_list
from nbprov.model import paths
from nbprov.model.clock import Instant, Seconds
from nbprov.model.errors import NbprovError, UsageError

if TYPE_CHECKING:
    from nbprov.catalog import CatalogProblem
    from nbprov.catalog.refresh import CloudStatus, Differences, PriceFileStore, Refreshed
    from nbprov.catalog.refresh.status import Watch

log = logging.getLogger("nbprov.catalog")


BEHIND_SECONDS: Seconds = 1.0
"""How long the automatic refresh waits: its imports would delay the table that a person awaits."""

LOOK_EVERY: Seconds = 600.0
"""How often it is looked what is due, at most; up to half as much is added at random, so that
kernels that were opened together do not ask together."""


class PriceFiles:
    """The price files of this user: `nbprov.session().catalogue`.

    Examples
    --------
    >>> files = nbprov.session().catalogue  # doctest: +SKIP
    >>> files.refresh(["gcp"])["gcp"].differences.to_frame()  # doctest: +SKIP
    >>> files.diff("gcp", against="shipped").counts()  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._options: Mapping[str, Any] = {}
        self._lock = threading.Lock()
        self._automatic: threading.Thread | None = None
        self._looked: Instant = 0.0
        self._pause: Seconds = LOOK_EVERY
        self._told: set[CatalogProblem] = set()

    def configure(self, options: Mapping[str, Any]) -> None:
        """Set policies in addition to `catalog.toml`; they take precedence.

        Parameters
        ----------
        options
            By cloud (or `default`): `7h`, `on demand`, `never`. `automatic: False` ends
            every refresh that nobody asked for.

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

    def upkeep(self) -> PriceFileStore:
        """The upkeep of the price files in the current home."""
        from nbprov.catalog.refresh import PriceFileStore

        return PriceFileStore(paths.home(), options=lambda: self._options)

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
        """Fetch prices and install those that pass the checks. Blocks.

        The next price question sees them.

        Parameters
        ----------
        clouds
            Their names; None: all but those whose policy is never.
        source
            `provider`: the cloud's own list; `hosted`: your mirror, or the v8 files hosted for
            SkyPilot, which are not signed; `auto`: your mirror if you have one, else the cloud.
        force
            Replace files that were edited by hand (a copy is kept), and accept a list with far
            fewer rows than before.
        watch
            Called at every step, in any thread.
        tick
            Called ten times a second, in the caller's thread.
        stop
            Set it to end the refresh from another thread.

        Returns
        -------
        Refreshed
            What became of each cloud. A cloud that could not be refreshed keeps its prices.

        Raises
        ------
        UsageError
            If a cloud or the source has no such name.
        CatalogError
            If `catalog.toml` cannot be used.
        Interrupted
            On Ctrl-C, within a second. The prices of each cloud are complete, old or new.
        """
        from nbprov.catalog.refresh import Source

        try:
            chosen = Source(source)
        except ValueError:
            raise UsageError(
                f"prices do not come from {source!r}", hint=f"one of {', '.join(Source)}"
            ) from None
        named = None if clouds is None else name_list(clouds, "clouds")
        given = {
            name: value
            for name, value in (("watch", watch), ("tick", tick), ("stop", stop))
            if value is not None
        }
        return self.upkeep().refresh(named, source=chosen, force=force, **given)  # type: ignore[arg-type]

    def status(self, clouds: Sequence[str] | str | None = None) -> list[CloudStatus]:
        """Source, age, policy, edits and last error of each cloud's prices. Nothing is fetched."""
        return self.upkeep().status(None if clouds is None else name_list(clouds, "clouds"))

    def diff(self, cloud: str = "", *, against: str = "last") -> Differences:
        """What the last refresh changed, of one cloud or of all.

        `against="shipped"` compares the current prices with those of this release.
        """
        return self.upkeep().diff(cloud, against=against)

    def restore(self, cloud: str = "", *, to: str = "last") -> dict[str, str]:
        """Restore prices; returns what was done, by cloud.

        Parameters
        ----------
        cloud
            Empty: every cloud whose files were edited.
        to
            `last`: as the last refresh wrote them, or the shipped ones where nothing was edited
            since; `shipped`: those of this release.
        """
        return self.upkeep().restore(cloud, to=to)

    def accept(self, cloud: str) -> int:
        """Accept the prices of a cloud that moved by more than half; returns how many there were.

        Launches buy at such prices only after this, or where the cloud itself confirms them.
        """
        from nbprov.catalog import Query, default_catalog

        (name,) = self.upkeep().named([cloud])
        offers = default_catalog().offers(Query(cloud=name, unusual=True))
        moved = {
            (
                *(o.region, o.zone, o.instance_type, o.accelerator),
                o.accelerator_count,
                o.market.value,
            ): o.hourly
            for o in offers
            if o.moved_from
        }
        if moved:
            self.upkeep().folder(name).accept(moved)
        return len(moved)

    def path(self, cloud: str = "") -> Path:
        """The folder of the price files of one cloud, or of all."""
        return self.upkeep().path(cloud)

    def untold(self, problems: Iterable[CatalogProblem]) -> list[CatalogProblem]:
        """Those of the problems that were not returned before: each is told once."""
        with self._lock:
            news = [problem for problem in dict.fromkeys(problems) if problem not in self._told]
            self._told.update(news)
        return news

    def begin_automatic(self) -> threading.Thread:
        """Refresh what its policy says is due, in a daemon thread.

        Returns the thread at once. A notebook calls this behind every price question: it never
        blocks, prints or fails, and looks again only `LOOK_EVERY` after it looked. So a kernel that
        is open for days renews what is due at its next question, and one that nobody uses asks for
        nothing. The log and `status()` say what became of it.
        """
        with self._lock:
            is_due = not 0 <= time.time() - self._looked < self._pause
            if self._automatic is None or (is_due and not self._automatic.is_alive()):
                self._looked, self._pause = time.time(), LOOK_EVERY * random.uniform(1, 1.5)
                self._automatic = threading.Thread(
                    target=self._refresh_what_is_due, name="nbprov-prices", daemon=True
                )
                self._automatic.start()
            return self._automatic

    def _refresh_what_is_due(self) -> None:
        time.sleep(BEHIND_SECONDS)
        try:
            from nbprov.catalog.refresh import Source
            from nbprov.catalog.refresh.automatic import automatic_source

            upkeep = self.upkeep()
            due = upkeep.due()
            if not due:
                return
            settings, changed = upkeep.settings(), False
            sources = {name: automatic_source(settings, name) for name in due}
            for source in Source:
                if names := [name for name in due if sources[name] is source]:
                    done = upkeep.refresh(names, source=source)
                    log.info("refresh of %s: %s", ", ".join(names), done.sentence())
                    changed = changed or any(len(cloud.differences) for cloud in done)
            if changed:
                from nbprov.catalog import default_catalog

                default_catalog().clouds()  # the next question finds the new files parsed
        except NbprovError as error:
            log.warning("automatic refresh: %s", error.message)
        except Exception:  # no caller would see it
            log.exception("automatic refresh")
