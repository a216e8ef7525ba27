"""Opens the way to machines that do not answer.

The cloud is asked to let this computer in, and the last listing says where the machines are now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from nbprov.model.clock import Clock, Seconds
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance

from .async_cloud import AsyncCloud

log = logging.getLogger("nbprov.provisioning")

REQUEST_EVERY: Seconds = 30.0
"""Between two requests to let this computer in.

A laptop changes its network seldom, and a rule takes seconds to be in force.
"""


class SshIngress:
    """Access of this computer to the ssh port of a launch's machines. On the engine thread.

    Parameters
    ----------
    ids
        The machines.
    listed
        The machines as they were last listed.
    """

    def __init__(
        self,
        cloud: AsyncCloud,
        ids: Sequence[str],
        clock: Clock,
        listed: Callable[[], Sequence[Instance]],
    ) -> None:
        self._cloud, self._ids, self._clock, self._listed = cloud, tuple(ids), clock, listed
        self._last: Seconds | None = None
        self._task: asyncio.Task[None] | None = None

    def request_access(self) -> None:
        """Ask the cloud to let this computer in, unless that was done just now.

        Call it when a machine does not answer. Returns at once.
        """
        now = self._clock.elapsed()
        is_asking = self._task is not None and not self._task.done()
        if is_asking or (self._last is not None and now - self._last < REQUEST_EVERY):
            return
        self._last = now
        self._task = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        try:
            if await self._cloud.admit(self._ids):
                log.info(
                    "%s lets this computer in to %s again", self._cloud.name, ", ".join(self._ids)
                )
        except CloudError as error:
            log.warning(
                "%s: this computer may be kept out: %s", self._cloud.name, error.failure.sentence()
            )
        except Exception:
            log.exception("%s: this computer may be kept out", self._cloud.name)

    def current_address(self, instance: Instance) -> Instance:
        """A machine with the address of its last listing, or as given where there is none."""
        try:
            found = next(
                (i for i in self._listed() if i.id == instance.id and i.host and i.port), None
            )
        except Exception as error:
            log.info("the address of %s could not be looked up: %s", instance.id, error)
            found = None
        return instance if found is None else found

    def add(self, instance_id: str) -> None:
        """Let this computer in to one more machine."""
        self._ids = (*self._ids, instance_id)

    def close(self) -> None:
        """Cancel a request that is under way."""
        if self._task is not None:
            self._task.cancel()
