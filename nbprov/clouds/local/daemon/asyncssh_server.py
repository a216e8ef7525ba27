"""An ssh server in Python for computers without sshd.

Run as a file: `asyncssh_server.py serve CONFIG HOST PORT` or `asyncssh_server.py keygen PATH`. It
understands the parts of sshd_config that this package writes, starts a shell for every command, and
serves sftp.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Any

EXIT_BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a command."""


def read_config(path: Path) -> tuple[Path, Path, dict[str, str]]:
    """Return the host key, the authorized keys and the environment in a configuration."""
    words = [shlex.split(line) for line in path.read_text().splitlines() if line.strip()]
    named = {line[0]: line[1:] for line in words}
    env = dict(pair.split("=", 1) for pair in named["SetEnv"])
    return Path(named["HostKey"][0]), Path(named["AuthorizedKeysFile"][0].replace("%%", "%")), env


async def handle(process: Any, env: dict[str, str]) -> None:
    """Run what one ssh channel asks for; send all its output before its exit status."""
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    command = [shell, "-c", process.command] if process.command else [shell, "-l"]
    child: Any = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**env, **{k: v for k, v in process.env.items() if k == "LANG" or k.startswith("LC_")}},
        cwd=env["HOME"],
        start_new_session=True,
    )
    feeding = asyncio.create_task(_feed(process.stdin, child.stdin))
    await asyncio.gather(_drain(child.stdout, process.stdout), _drain(child.stderr, process.stderr))
    status = await child.wait()
    feeding.cancel()
    process.exit(status if status >= 0 else EXIT_BY_SIGNAL - status)


async def _drain(source: Any, sink: Any) -> None:
    while piece := await source.read(1 << 16):
        try:
            sink.write(piece)
            await sink.drain()
        except (BrokenPipeError, ConnectionError):
            return


async def _feed(source: Any, sink: Any) -> None:
    try:
        while piece := await source.read(1 << 16):
            sink.write(piece)
            await sink.drain()
    except (BrokenPipeError, ConnectionError):
        return
    finally:
        sink.close()


async def serve(config: Path, host: str, port: int) -> None:
    """Serve until killed."""
    import asyncssh

    key, authorized, env = read_config(config)

    async def session(process: Any) -> None:
        await handle(process, env)

    class TunnelServer(asyncssh.SSHServer):
        """Forwards connections to this computer's loopback, as tunnels need."""

        def connection_requested(
            self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
        ) -> bool:
            return dest_host == "127.0.0.1"

    await asyncssh.listen(
        host,
        port,
        server_factory=TunnelServer,
        server_host_keys=[str(key)],
        authorized_client_keys=str(authorized),
        process_factory=session,
        sftp_factory=True,
        encoding=None,
    )
    print(f"asyncssh server listening on {host} port {port}", flush=True)
    await asyncio.Event().wait()


def keygen(path: Path) -> None:
    """Write a new ed25519 key pair."""
    import asyncssh

    pair = asyncssh.generate_private_key("ssh-ed25519")
    pair.write_private_key(str(path))
    pair.write_public_key(f"{path}.pub")


def main(arguments: list[str]) -> None:
    """Run the command line."""
    if arguments[:1] == ["keygen"] and len(arguments) == 2:
        keygen(Path(arguments[1]))
    elif arguments[:1] == ["serve"] and len(arguments) == 4:
        asyncio.run(serve(Path(arguments[1]), arguments[2], int(arguments[3])))
    else:
        raise SystemExit("usage: asyncssh_server.py serve CONFIG HOST PORT | keygen PATH")


if __name__ == "__main__":
    main(sys.argv[1:])
