"""What lets the machines of a cluster reach each other: hosts files, an ssh key, and their agents.

The key pair is made for this alone: it opens nothing but the cluster's machines, and only from
their private addresses.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from nbprov.model.errors import NbprovError
from nbprov.model.launches import Instance
from nbprov.on_machine.gang_files import FOLDER
from nbprov.on_machine.loader import source
from nbprov.remote.errors import RemoteError
from nbprov.remote.ssh.connection import Connection
from nbprov.remote.ssh.keys import ClusterKeys, inner_pair
from nbprov.remote.ssh.login import KEEPALIVE_MISSES, KEEPALIVE_SECONDS

MARK = "nbprov-gang"
"""Marks our line in `authorized_keys`, and names the machines' host key."""

HOSTS, HYDRA_HOSTS = "hosts", "hosts.hydra"
KEY, KNOWN, CONFIG = "gang/id_ed25519", "gang/known_hosts", "gang/ssh_config"
"""Below `~/.nbprov` on every machine."""

PORT = 29500
"""The head's port for rendezvous, torch's own default. Agents talk over the same UDP port."""

SHARED_PORTS = range(20000, 29000)
"""The range of the port where all machines share one computer.

It lies below the ports that systems give out by themselves (32768 and up).
"""

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
_MOST_PATH = 1000


class GangAddressError(NbprovError):
    """The addresses that the cloud reports do not let the machines reach each other."""

    code = "gang.addresses"


@dataclass(frozen=True, slots=True)
class GangConfig:
    """The machines of one cluster, head first.

    Attributes
    ----------
    run_id
        Names the cluster.
    instances
        In the order of their ranks, that of `Instance.node`: the same after a stop and start.
    slots
        Processes that MPI starts on each unless told otherwise: one for each GPU or vCPU.
    missing
        Ranks of machines that were lost and are not replaced yet. The others keep their ranks, and
        get no address of a lost one.
    """

    run_id: str
    instances: tuple[Instance, ...]
    slots: int
    missing: frozenset[int] = frozenset()

    @property
    def addresses(self) -> list[str]:
        """The addresses by which the machines reach each other.

        A lost machine is represented by the head's address, where nobody listens at its port.
        """
        head = self.instances[0].private_host or self.instances[0].host
        return [
            head if rank in self.missing else i.private_host or i.host
            for rank, i in enumerate(self.instances)
        ]

    @property
    def there(self) -> list[tuple[Instance, str]]:
        """The machines that are not lost, each with its address."""
        return [
            one
            for rank, one in enumerate(zip(self.instances, self.addresses, strict=True))
            if rank not in self.missing
        ]

    @property
    def port(self) -> int:
        """The head's port for rendezvous; see `rendezvous_port`."""
        return rendezvous_port(self.run_id, self.addresses)

    @property
    def agents(self) -> list[tuple[str, int]]:
        """Address and UDP port of each agent.

        Raises
        ------
        GangAddressError
            If one is not an IP address.
        """
        for address in self.addresses:
            _checked(address)
        return [
            (address, self.port + self.addresses[:rank].count(address))
            for rank, address in enumerate(self.addresses)
        ]


def rendezvous_port(run_id: str, addresses: Sequence[str]) -> int:
    """Return the head's port for rendezvous: 29500, or an own one on a shared computer.

    Examples
    --------
    >>> rendezvous_port("r1", ["10.0.0.5", "10.0.0.6"])
    29500
    >>> rendezvous_port("r1", ["127.0.0.5"]) in SHARED_PORTS
    True
    """
    if not all(map(_is_loopback, addresses)):
        return PORT
    number = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:4], "big")
    return SHARED_PORTS[number % len(SHARED_PORTS)]


def hosts(addresses: Sequence[str], slots: int) -> dict[str, str]:
    """Return the hosts files, as Open MPI and as MPICH's Hydra read them.

    Examples
    --------
    >>> files = hosts(["10.0.0.5", "10.0.0.6"], 8)
    >>> files["hosts"], files["hosts.hydra"]
    ('10.0.0.5 slots=8\\n10.0.0.6 slots=8\\n', '10.0.0.5:8\\n10.0.0.6:8\\n')
    """
    names = [_checked(address) for address in addresses] if len(addresses) > 1 else ["localhost"]
    return {
        HOSTS: "".join(f"{name} slots={slots}\n" for name in names),
        HYDRA_HOSTS: "".join(f"{name}:{slots}\n" for name in names),
    }


def ssh_config(gang: GangConfig) -> str:
    """Return the ssh config of each machine.

    It names `node0` to `nodeN` and their addresses, and uses the cluster's inner key and host key
    alone.
    """
    blocks = [
        "# Written by nbprov, and written anew whenever the cluster is opened:"
        " what is changed here is lost.\n"
    ]
    every = [address for _, address in gang.there]
    for instance, address in gang.there:
        user = [f"User {instance.user}"] if _USER.fullmatch(instance.user) else []
        # An address that several machines share names none of them.
        names = f"node{instance.node}" + (f" {address}" if every.count(address) == 1 else "")
        lines = [
            f"HostName {_checked(address)}",
            f"Port {int(instance.port)}",
            *user,
            f'IdentityFile "{FOLDER}/{KEY}"',
            "IdentitiesOnly yes",
            "PreferredAuthentications publickey",
            f"HostKeyAlias {MARK}",
            "HostKeyAlgorithms ssh-ed25519",
            f'UserKnownHostsFile "{FOLDER}/{KNOWN}"',
            "StrictHostKeyChecking yes",
            "CheckHostIP no",
            "UpdateHostKeys no",
            "ForwardAgent no",
            "ForwardX11 no",
            f"ServerAliveInterval {KEEPALIVE_SECONDS:.0f}",
            f"ServerAliveCountMax {KEEPALIVE_MISSES}",
        ]
        blocks.append(f"\nHost {names}\n" + "".join(f"    {line}\n" for line in lines))
    return "".join(blocks)


def authorized_key(gang: GangConfig, public: str) -> str:
    """Return the line that lets the machines log in to each other.

    It is limited to their private addresses where those are known.
    """
    known = [_checked(i.private_host) for i, _ in gang.there if i.private_host]
    if len(known) < len(gang.there):
        places: list[str] = []
    elif all(map(_is_loopback, known)):
        # A connection to any loopback address comes from 127.0.0.1.
        places = ["127.0.0.0/8", "::1"]
    else:
        places = list(dict.fromkeys(known))
    source = f'from="{",".join(places)}",' if places else ""
    kind, key = public.split()[:2]
    return f"{source}no-agent-forwarding,no-X11-forwarding {kind} {key} {MARK}"


def gang_secret(keys: ClusterKeys) -> bytes:
    """Return the secret by which the agents of a cluster authenticate each other's messages."""
    return hashlib.sha256(
        b"nbprov: agents of one cluster\n" + inner_pair(keys.folder)[0].encode()
    ).digest()


def node_files(gang: GangConfig, keys: ClusterKeys) -> bytes:
    """Return what `gang_files` reads on each machine.

    It holds the inner private key, so it is only for a verified connection.
    """
    files = hosts([address for _, address in gang.there], gang.slots)
    told: dict[str, object] = {"files": files, "login": "", "mark": MARK, "config": CONFIG}
    if len(gang.instances) > 1:
        private, public = inner_pair(keys.folder)
        kind, host_key = keys.host_public.split()[:2]
        more = {KEY: private, KNOWN: f"{MARK} {kind} {host_key}\n", CONFIG: ssh_config(gang)}
        told |= {"files": {**files, **more}, "login": authorized_key(gang, public)}
    return json.dumps(told).encode()


async def install_node_files(connection: Connection, told: bytes) -> str:
    """Write a machine's files; return the absolute path of its folder `~/.nbprov`.

    Raises
    ------
    SshError
        The connection broke.
    RemoteError
        The machine cannot write them.
    """
    done = await connection.run(f"python3 -c {shlex.quote(_program())}", told)
    lines = done.check("writing the hosts file").stdout.splitlines()
    folder = lines[-1] if lines else ""
    if not folder.startswith("/") or len(folder) > _MOST_PATH or not folder.isprintable():
        raise RemoteError("the machine does not say where its home is", code="remote.command")
    return folder


def launcher_files(folder: str, nodes: int) -> Mapping[str, str]:
    """Return the variables by which MPI finds its hosts file.

    Those of the MPI implementations are set only where there are several machines.

    Examples
    --------
    >>> launcher_files("/root/.nbprov", 1)
    {'NBPROV_HOSTFILE': '/root/.nbprov/hosts'}
    """
    ours = {"NBPROV_HOSTFILE": f"{folder}/{HOSTS}"}
    if nodes == 1:
        return ours
    open_mpi = dict.fromkeys(
        ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"), f"{folder}/{HOSTS}"
    )
    return ours | open_mpi | {"HYDRA_HOST_FILE": f"{folder}/{HYDRA_HOSTS}"}


@cache
def _program() -> str:
    return source("gang_files")


def _checked(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
        if "%" in str(found):
            raise ValueError(
                address
                # The zone of an IPv6 address may be any text, even lines of an ssh config.
            )
        return str(found)
    except ValueError:
        raise GangAddressError(
            f"{address!r} is not an IP address by which the machines could reach each other"
        ) from None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def slots_of(accelerators: float, vcpus: float) -> int:
    """Return the processes of a machine: one for each GPU (a fraction counts as one) or vCPU.

    Examples
    --------
    >>> slots_of(8, 96), slots_of(0.5, 8), slots_of(0, 4), slots_of(0, 0.5)
    (8, 1, 4, 1)
    """
    whole = int(-(-accelerators // 1))
    return whole or max(1, int(vcpus))
