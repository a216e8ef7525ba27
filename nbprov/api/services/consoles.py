"""What machines wrote on their consoles, such as the log of a boot, asked of their clouds."""

from __future__ import annotations

from concurrent.futures import Future

from nbprov.api.context import Context
from nbprov.model.errors import UsageError
from nbprov.model.failures import CloudError
from nbprov.model.launches import Instance
from nbprov.model.text.plain import printable

SHOWN_CHARACTERS = 16_000
"""The end of a console that is shown; what went wrong last stands there."""


class ConsoleService:
    """Asks clouds for the consoles of machines."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, token: str) -> Future[str]:
        """Ask what the machines of a launch wrote, newest last. Any thread.

        Returns
        -------
        Future
            The text, with secrets masked and safe to show; why there is none, in its place.
        """
        return self._context.engine.thread.call(self._read(token))

    def read_cluster(self, run_id: str) -> Future[str]:
        """Ask what the machines of the latest launch of a run wrote. Any thread.

        Raises
        ------
        UsageError
            If nothing was launched by this run.
        """
        launches = self._context.engine.ledger.launches.latest_attempts(run_id, 1)
        if not launches:
            raise UsageError(
                "no machine was asked for yet",
                hint="%nbprov attempts shows what was tried",
                code="console.no-machine",
            )
        return self.read(launches[-1].token)

    async def _read(self, token: str) -> str:
        machines = self._context.engine.ledger.instances.of_launch(token)
        if not machines:
            return "no machine of this launch is known yet"
        most = SHOWN_CHARACTERS // len(machines)
        texts = [(await self._console(machine))[-most:].strip() for machine in machines]
        if len(machines) > 1:
            pairs = zip(machines, texts, strict=True)
            texts = [f"node {machine.node}:\n{text}" for machine, text in pairs]
        return "\n\n".join(texts)

    async def _console(self, machine: Instance) -> str:
        try:
            said = await self._context.engine.cloud(machine.cloud).console(machine.id)
        except CloudError as error:
            return error.failure.sentence()
        text = printable(self._context.mask(said))
        return text or f"{machine.cloud} shows no console of {machine.id}"
