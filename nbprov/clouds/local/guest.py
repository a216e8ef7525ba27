"""The scripts that a machine finds in its directory: its boot, the way it powers itself off, its simulated GPUs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from .sshd import Server

BOOT = """#!/bin/sh
# The machine's first process at every start: the start script, then the ssh server.
umask 077
cd "$HOME" || exit 1
boot="$NBPROV_MACHINE/boot"
serve="$NBPROV_SERVE"
keygen="$NBPROV_KEYGEN"
unset NBPROV_SERVE NBPROV_KEYGEN
if [ -f "$boot/user-data" ]; then
    umask 022
    # Read by its interpreter and not executed: it holds a host key and stays a file that only its owner reads and writes.
    $(sed -n '1s/^#!//p' "$boot/user-data") "$boot/user-data" </dev/null || echo "the start script ended with status $?"
    umask 077
fi
[ -s "$NBPROV_HOST_KEY" ] || eval "$keygen"
chmod 600 "$NBPROV_HOST_KEY" "$NBPROV_AUTHORIZED_KEYS"
if [ -s "$boot/public_key" ] && ! grep -qxF -f "$boot/public_key" "$NBPROV_AUTHORIZED_KEYS"; then
    cat "$boot/public_key" >> "$NBPROV_AUTHORIZED_KEYS"
fi
umask 022
eval "$serve"
"""

POWEROFF = """#!/bin/sh
# nbprov-poweroff MODE REASON...: asks the cloud to stop (the disk is kept) or terminate this machine.
mode="${1:-terminate}"
[ $# -gt 0 ] && shift
case "$mode" in
stop | terminate) ;;
*) echo "usage: nbprov-poweroff stop|terminate [REASON]" >&2; exit 2 ;;
esac
draft="$NBPROV_MACHINE/.poweroff.$$"
printf '%s\\n%s\\n' "$mode" "$*" > "$draft" && mv -f "$draft" "$NBPROV_MACHINE/poweroff"
"""

PIP = """#!/bin/sh
exec "$NBPROV_MACHINE/venv/bin/python3" -m pip "$@"
"""

NVIDIA_SMI = """#!/bin/sh
# Stands in for nvidia-smi: this machine's GPUs are simulated.
name="${NBPROV_SIMULATED_GPUS%:*}"
count="${NBPROV_SIMULATED_GPUS##*:}"
memory="${NBPROV_SIMULATED_GPU_MEMORY:-0}"
fields="" units=" MiB" percent=" %" header=1 list=0
for argument in "$@"; do
    case "$argument" in
    -L | --list-gpus) list=1 ;;
    --query-gpu=*) fields="${argument#*=}" ;;
    --format=*) case "$argument" in *noheader*) header=0 ;; esac
        case "$argument" in *nounits*) units="" percent="" ;; esac ;;
    esac
done
value() {
    case "$2" in
    index) printf %s "$1" ;;
    name | gpu_name) printf '%s (simulated)' "$name" ;;
    uuid | gpu_uuid) printf 'GPU-simulated-%s-%s' "$NBPROV_INSTANCE" "$1" ;;
    memory.total | memory.free) printf '%s%s' "$memory" "$units" ;;
    memory.used) printf '0%s' "$units" ;;
    utilization.*) printf '0%s' "$percent" ;;
    driver_version) printf simulated ;;
    count) printf %s "$count" ;;
    *) printf '[N/A]' ;;
    esac
}
if [ -n "$fields" ] && [ "$header" = 1 ]; then echo "$fields" | sed 's/,/, /g'; fi
index=0
while [ "$index" -lt "${count%.*}" ]; do
    if [ -n "$fields" ]; then
        row=""
        for field in $(echo "$fields" | tr ',' ' '); do row="$row${row:+, }$(value "$index" "$field")"; done
        echo "$row"
    elif [ "$list" = 1 ]; then
        echo "GPU $index: $name (simulated) (UUID: GPU-simulated-$NBPROV_INSTANCE-$index)"
    else
        echo "GPU $index: $name (simulated), $memory MiB, 0 % used"
    fi
    index=$((index + 1))
done
"""


def server_command(server: Server, boot: Path, host: str, port: int) -> str:
    """The shell command that serves ssh, in the foreground."""
    if server.binary:
        return "exec " + shlex.join([server.binary, "-D", "-e", "-f", str(boot / "sshd_config")])
    stand_in = [sys.executable, str(Path(__file__).with_name("standin.py")), "serve", str(boot / "sshd_config"), host, str(port)]
    return "exec " + shlex.join(stand_in)


def keygen_command(key: Path) -> str:
    """The shell command that makes a host key where the start script left none."""
    stand_in = shlex.join([sys.executable, str(Path(__file__).with_name("standin.py")), "keygen", str(key)])
    ours = shlex.join(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
    return f"if command -v ssh-keygen >/dev/null; then {ours}; else {stand_in}; fi"
