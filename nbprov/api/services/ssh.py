"""The way in for other programs: ssh commands, and an ssh config file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nbprov.api.context import Context, EngineBound

if TYPE_CHECKING:
    from nbprov.machines.ssh_config import SshConfig
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.ledger import ClusterRow


class SshService:
    """Ssh commands for machines, and the ssh config file that nbprov keeps up to date."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._file = EngineBound(context, _file_of)

    @property
    def file(self) -> SshConfig:
        """The ssh config file. The user's own files are never changed."""
        return self._file.get()

    def begin(self, engine: Engine) -> None:
        """Follow an engine that was just opened, where a file was written before."""
        engine.thread.soon(self.file.follow)

    def made_file(self) -> SshConfig | None:
        """The ssh config file of the engine of now; opens no engine."""
        return self._file.made()

    def write_config(self) -> Path:
        """Write the ssh config file, one host for each machine of a running cluster.

        It is kept up to date from now on. Nothing of the user's own is changed: `Include` it at
        the top of `~/.ssh/config`, or use it with `ssh -F`.

        Raises
        ------
        SshConfigError
            If the path of the file cannot stand in an ssh config.
        SshFileUnwritable
            If the file cannot be written.
        """
        file = self.file
        assert file.include
        file.write()
        return file.path

    def ssh_command(self, row: ClusterRow, /, node: int = 0) -> str:
        """The ssh command that logs in to a machine from a terminal.

        It uses this cluster's key and its pinned host key, and forwards nothing.

        Raises
        ------
        NotFound
            If it does not run now.
        UsageError
            If it has no such node.
        """
        from nbprov.machines.ssh_config import command_line, ssh_arguments

        return command_line(ssh_arguments(self._context.engine, row.name, node))


def _file_of(engine: Engine) -> SshConfig:
    from nbprov.machines.ssh_config import SshConfig

    return SshConfig(engine)
