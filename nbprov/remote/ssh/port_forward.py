"""Forward TCP connections of this computer to a port of a machine.

Each goes through whatever ssh connection there is at the time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nbprov.model.errors import NbprovError
from nbprov.remote.errors import SshCode, SshError

if TYPE_CHECKING:
    import asyncssh

log = logging.getLogger("nbprov.remote")

MOST_CONNECTIONS = 128
"""Connections open at once through one forward.

A browser opens 6 for each page. A kernel may have only 256 files open on macOS, and a runaway
client must not take them all.
"""

LOOPBACK = "127.0.0.1"
"""The machine's loopback.

A tunnel leads to what listens there (an engine's to its private address), and nowhere further.
"""

OPENING, CARRYING, OVER = "opening", "carrying", "over"

# On Windows the two fields of `struct linger` are short.
_RESET = struct.pack("hh" if str(sys.platform) == "win32" else "ii", 1, 0)


class PortRefused(NbprovError):
    """The machine was reached, and refuses a connection to that port of its own."""

    code = "tunnel.refused"


Reach = Callable[[Callable[[asyncio.Event], "MachineEnd"]], Awaitable[None]]
"""Opens a channel to the port for the session that the given function makes.

The function is given an event that is set once the ssh connection is broken or ended. `NbprovError`
is raised where no channel can be opened.
"""


async def open_channel(
    ssh: asyncssh.SSHClientConnection,
    port: int,
    session: Callable[[asyncio.Event], Any],
    where: str,
    lost: asyncio.Event,
    at: str = LOOPBACK,
) -> None:
    """Open a channel to a port of the machine's own; see `Connection.reach`."""
    import asyncssh

    # Shielded: a channel that is cancelled while it is being opened would stay open on the machine
    # for as long as the connection.
    opening = asyncio.ensure_future(
        ssh.create_connection(lambda: session(lost), at, port, LOOPBACK, 0)
    )
    opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.shield(opening)
    except asyncssh.ChannelOpenError as error:
        # asyncssh gives this reason for channels that were being opened when it closed the
        # connection.
        if lost.is_set() or error.reason == "SSH connection closed":
            raise SshError(SshCode.LOST, f"the connection to {where} broke") from error
        if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
            raise PortRefused(
                "its ssh server forwards no ports",
                hint="AllowTcpForwarding in its sshd_config must be yes",
            ) from error
        raise PortRefused(f"nothing listens on port {port} there") from error
    except (OSError, asyncssh.Error) as error:
        raise SshError(SshCode.LOST, f"no channel to {where}: {error}") from error


class Forward:
    """A listening socket and the connections that came in on it.

    It belongs to the loop it is opened on.

    Parameters
    ----------
    listener
        Bound and listening; closed with the forward.
    reach
        May wait for a connection that is down; how long is its own affair.

    Attributes
    ----------
    carried
        Connections so far.
    sent, received
        Bytes to the machine, and from it.
    trouble, troubles
        Why the last connection was not carried, empty once a later one was; and how often that
        happened.
    """

    def __init__(self, listener: socket.socket, reach: Reach) -> None:
        self._listener, self.reach = listener, reach
        self._server: asyncio.Server | None = None
        self._near: set[LocalEnd] = set()
        self.carried = self.sent = self.received = 0
        self.trouble = ""
        self.troubles = 0

    def in_trouble(self, why: str) -> None:
        """Note why a connection was not carried."""
        self.trouble = why
        self.troubles += 1

    def is_well(self, known: int) -> None:
        """Clear the note, unless more went wrong than the `known` troubles.

        A connection that began earlier says nothing of later ones.
        """
        if self.troubles == known:
            self.trouble = ""

    @property
    def open_now(self) -> int:
        """Connections that are open."""
        return len(self._near)

    async def open(self) -> None:
        """Begin to accept connections."""
        try:
            # In two steps: a server that was begun when this is cancelled could not be found again
            # to be closed.
            self._server = await asyncio.get_running_loop().create_server(
                lambda: LocalEnd(self), sock=self._listener, start_serving=False
            )
            await self._server.start_serving()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Accept no more connections, and break those that are open."""
        if self._server is not None:
            self._server.close()
        self._listener.close()
        for near in list(self._near):
            near.reset()

    def admit(self, near: LocalEnd) -> bool:
        """Count a connection in, unless there are too many."""
        if len(self._near) >= MOST_CONNECTIONS:
            self.in_trouble(f"{MOST_CONNECTIONS} connections were open already")
            return False
        self.carried += 1
        self._near.add(near)
        return True

    def leave(self, near: LocalEnd) -> None:
        """Count a connection out."""
        self._near.discard(near)


class LocalEnd(asyncio.Protocol):
    """This computer's end of one connection.

    What breaks on the way is a reset here: a client must never take a broken connection for the end
    of a page.
    """

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._transport: asyncio.Transport | None = None
        self._channel: asyncssh.SSHTCPChannel[bytes] | None = None
        self._joining: asyncio.Task[None] | None = None
        self._state = OPENING
        self._is_written = self._is_read = False

    # -- of this computer's end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a server of streams makes no other"
        self._transport = transport
        if not self._forward.admit(self):
            self.reset()
            return
        transport.pause_reading()
        self._joining = asyncio.create_task(self._join())

    async def _join(self) -> None:
        known = self._forward.troubles
        try:
            await self._forward.reach(lambda lost: MachineEnd(self, lost))
        except NbprovError as error:
            self._forward.in_trouble(error.message)
            self.reset()
        except Exception as error:
            log.exception("a connection through a tunnel")
            self._forward.in_trouble(f"{type(error).__name__}: {error}")
            self.reset()
        else:
            self._forward.is_well(known)

    def data_received(self, data: bytes) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._forward.sent += len(data)
            self._channel.write(data)

    def eof_received(self) -> bool:
        self._is_read = True
        if self._channel is not None:
            self._channel.write_eof()
        self._end_if_over()
        return True

    def pause_writing(self) -> None:
        if self._channel is not None:
            self._channel.pause_reading()

    def resume_writing(self) -> None:
        if self._channel is not None:
            self._channel.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = OVER
        self._forward.leave(self)
        if self._joining is not None:
            self._joining.cancel()
        if self._channel is not None:
            self._channel.abort()

    # -- of the machine's end

    def joined(self, channel: asyncssh.SSHTCPChannel[bytes]) -> None:
        """Take the open channel, or close it where the client has gone."""
        if self._state is OVER or self._transport is None or self._transport.is_closing():
            channel.abort()
            return
        self._state, self._channel = CARRYING, channel
        self._transport.resume_reading()

    def deliver(self, data: bytes) -> None:
        """Pass on what the machine sent."""
        if self._transport is not None and not self._transport.is_closing():
            self._forward.received += len(data)
            self._transport.write(data)

    def machine_ended(self) -> None:
        """Pass on that the machine has sent all it will."""
        self._is_written = True
        if (
            self._transport is not None
            and not self._transport.is_closing()
            and self._transport.can_write_eof()
        ):
            try:
                self._transport.write_eof()
            except OSError:
                # The client has gone, which is not reported here yet. An exception from here would
                # end the whole ssh connection and all that it carries.
                self.reset()
                return
        self._end_if_over()

    def channel_lost(self, is_closed: bool) -> None:
        """Close the connection if the machine had sent all it will, else break it.

        Parameters
        ----------
        is_closed
            The machine closed the channel itself, which it does after its last data. asyncssh
            (2.24) does not call `eof_received` if data was still queued for a slow client then.
        """
        self._channel = None
        if not self._is_written and not is_closed:
            self.reset()
        elif self._transport is not None:
            self._transport.close()

    def pause(self) -> None:
        """Stop reading from the client: the channel to the machine is full."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read from the client again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # -- the end

    def _end_if_over(self) -> None:
        if self._is_read and self._is_written:
            if self._channel is not None:
                self._channel.close()
            if self._transport is not None:
                self._transport.close()

    def reset(self) -> None:
        """Break the connection, so that its client sees a break and no orderly end."""
        if self._transport is None:
            return
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET
            )
        self._transport.abort()


class MachineEnd:
    """The machine's end of one connection: what asyncssh calls a session.

    Parameters
    ----------
    lost
        Set once the ssh connection is broken or ended.
    """

    def __init__(self, near: LocalEnd, lost: asyncio.Event) -> None:
        self._near, self._lost = near, lost

    def connection_made(self, chan: Any) -> None:
        """Take the open channel. asyncssh calls this and all below."""
        self._near.joined(chan)

    def session_started(self) -> None:
        """Do nothing: what the machine sends comes from now on."""

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Pass on data of the machine."""
        self._near.deliver(data)

    def eof_received(self) -> bool:
        """Pass on that the machine sends no more; the other direction goes on."""
        self._near.machine_ended()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on that the channel is closed, or the whole connection is gone."""
        # asyncssh tells the channels of a connection that is gone before it tells its owner.
        asyncio.get_running_loop().call_soon(self._closed, exc)

    def _closed(self, exc: Exception | None) -> None:
        self._near.channel_lost(is_closed=exc is None and not self._lost.is_set())

    def pause_writing(self) -> None:
        """Pass on that the channel is full."""
        self._near.pause()

    def resume_writing(self) -> None:
        """Pass on that the channel has room again."""
        self._near.resume()
