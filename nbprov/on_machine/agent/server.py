"""The server: greets each client and answers its requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Awaitable, Callable

from . import VERSION
from .background import spawn
from .clients import BridgeClient, Clients
from .errors import RequestError, disk_refusal
from .framing import read_frame
from .json_types import Json
from .log import report_error
from .machine_operations import MachineOperations
from .task_operations import TaskOperations

CLIENT_SILENCE_SECONDS = 180.0
"""A client pings every 20 s; one that is silent this long lost its connection without a word."""
SLOW = frozenset(("status", "complete", "inspect"))
"""Operations that ask nvidia-smi or a kernel, which take their time."""

Operation = Callable[[BridgeClient, Json], Awaitable[Json]]


class AgentServer:
    """Serves the bridges that connect to the agent's socket.

    Parameters
    ----------
    hello
        Returns the first frame that a client is sent.
    """

    def __init__(
        self,
        clients: Clients,
        tasks: TaskOperations,
        machine: MachineOperations,
        hello: Callable[[], Json],
    ) -> None:
        self._clients, self._hello = clients, hello
        self._operations: dict[str, Operation] = {
            "bridge": machine.bridge,
            "ping": machine.ping,
            "status": machine.status,
            "load": machine.load,
            "start": tasks.start,
            "submit": tasks.submit,
            "release": tasks.release,
            "tasks": tasks.tasks,
            "follow": tasks.follow,
            "unfollow": tasks.unfollow,
            "cancel": tasks.cancel,
            "complete": machine.complete,
            "inspect": machine.inspect,
            "interrupt": machine.interrupt,
            "restart": machine.restart,
            "put": machine.put,
            "get": machine.get,
            "drop": machine.drop,
            "guards": machine.guards,
            "gang": machine.gang,
            "taken": machine.taken,
            "shutdown": machine.shutdown,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client until it goes."""
        client = BridgeClient(reader, writer)
        self._clients.add(client)
        try:
            await client.send(self._hello())
            while True:
                frame = await asyncio.wait_for(read_frame(reader), CLIENT_SILENCE_SECONDS)
                if frame is None:
                    return
                answering = self._answer(client, frame)
                if frame.get("op") in SLOW:
                    spawn(answering)
                else:
                    await answering
        except (asyncio.TimeoutError, OSError, ValueError):
            return  # it is silent, gone or none of ours; nothing of it is lost but the channel
        finally:
            self._clients.remove(client)

    async def _answer(self, client: BridgeClient, frame: Json) -> None:
        name = str(frame.get("op"))
        operation = self._operations.get(name)
        try:
            if operation is None:
                message = f"this agent ({VERSION}) does not know {name!r}"
                raise RequestError("unknown-op", message)
            reply = await operation(client, frame)
        except RequestError as error:
            reply = {"error": {"code": error.code, "message": str(error)}}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"{type(error).__name__}: {error}"
            reply = {"error": {"code": "bad-request", "message": message}}
        except OSError as error:
            report_error(f"the operation {name}")
            refusal = disk_refusal(error)
            reply = {"error": {"code": refusal.code, "message": str(refusal)}}
        except Exception as error:
            # Without an answer the client would take the line for broken, and ask for ever.
            report_error(f"the operation {name}")
            message = f"{type(error).__name__}: {error}"
            reply = {"error": {"code": "internal", "message": message}}
        if "id" in frame:
            with contextlib.suppress(OSError):  # a client that has gone asks again
                await client.send({"re": frame["id"], **reply})
