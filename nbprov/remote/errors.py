"""What can go wrong on the way to a machine, each with a cause of the closed set."""

from __future__ import annotations

from enum import StrEnum

from nbprov.model.errors import NbprovError
from nbprov.model.failures import Cause, CloudError, Failure


class SshCode(StrEnum):
    """Why ssh did not work, finer than its cause."""

    NOT_UP = "ssh.not-up"
    TIMEOUT = "ssh.timeout"
    HOST_KEY = "ssh.host-key"
    AUTH = "ssh.auth"
    LOST = "ssh.lost"


_CAUSES = {
    SshCode.NOT_UP: Cause.TRANSIENT,
    SshCode.TIMEOUT: Cause.TIMEOUT,
    SshCode.HOST_KEY: Cause.UNHEALTHY,
    SshCode.AUTH: Cause.UNHEALTHY,
    SshCode.LOST: Cause.TRANSIENT,
}


class SshError(CloudError):
    """No ssh connection could be made, or it broke.

    Attributes
    ----------
    code
        Whether sshd is not up (yet), the time ran out, a foreign host key was shown, our key was
        refused, or the connection broke.
    """

    def __init__(self, code: SshCode, message: str) -> None:
        super().__init__(Failure(_CAUSES[code], message, code=code.value))
        self.code = code

    @property
    def may_pass(self) -> bool:
        """Whether trying again can help: never for a foreign host key or a refused login."""
        return self.code not in (SshCode.HOST_KEY, SshCode.AUTH)


class RemoteError(NbprovError):
    """A machine answered, but a command or request failed there."""

    code = "remote"


class CopyError(RemoteError):
    """Files could not be copied to a machine."""

    code = "remote.copy"
