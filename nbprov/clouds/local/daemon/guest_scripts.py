"""The scripts that a machine finds in its directory: its boot, the way it powers itself off, its simulated GPUs.

What is meant to power a machine off must never reach the computer that runs it. `bin/` stands first in the PATH of all that runs in a
machine, and holds such commands by name. In bubblewrap that is all there is: the machine's own process namespace takes a forced power-off to
the machine alone, and the sockets of the computer's init are out of its sight. Below it only the names are caught: an absolute path
that sudo was not asked for, or a PATH made anew, reaches the computer's own command with the rights of whoever runs the notebook.
"""

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
# nbprov-poweroff [MODE] [REASON...]: asks the cloud to stop (the disk is kept) or terminate this machine.
# Without a MODE it is what its create asked for; without a REASON, what NBPROV_REASON says.
mode="${1:-}"
[ $# -gt 0 ] && shift
case "$mode" in
"" | stop | terminate) ;;
*) echo "usage: nbprov-poweroff [stop|terminate [REASON]]" >&2; exit 2 ;;
esac
machine="${NBPROV_MACHINE:-${0%/bin/*}}"
draft="$machine/.poweroff.$$"
printf '%s\\n%s\\n' "$mode" "${*:-${NBPROV_REASON:-}}" > "$draft" && mv -f "$draft" "$machine/poweroff"
"""

POWER = r"""#!/bin/sh
# Stands in for poweroff, shutdown, halt, reboot, init, systemctl and loginctl: none of them may reach the computer that this machine runs on.
here="${0%/*}" name="${0##*/}"
off() { exec "$here/nbprov-poweroff"; }
refuse() { echo "$name: not on a machine of the local cloud: $*" >&2; exit 1; }
other() {
    # The real one, for what does the computer no harm.
    PATH=$(printf '%s\n' "$PATH" | tr : '\n' | grep -vxF "$here" | paste -sd: -)
    real=$(command -v "$name") || { echo "$name: not found" >&2; exit 127; }
    exec "$real" "$@"
}
pending="${here%/bin}/tmp/.shutdown"
end_later() {
    echo "$$" > "$pending"
    # Only the last one counts, and none that was cancelled.
    { sleep "$1"; [ "$(cat "$pending")" != "$$" ] || off; } </dev/null >/dev/null 2>&1 &
}
case "$name" in
systemctl | loginctl)
    verb=""
    for word in "$@"; do
        case "$verb:$word" in
        *:-*) ;;
        status:* | show:* | cat:* | help:* | is-*:* | list-*:* | enable:* | disable:* | mask:* | unmask:* | edit:*) ;;
        *:poweroff | *:halt | *:reboot | *:kexec | *:soft-reboot) off ;;
        *:poweroff.target | *:halt.target | *:reboot.target | *:shutdown.target | *:runlevel[06].target) off ;;
        :suspend* | :hibernate | :hybrid-sleep | :emergency | :rescue | :default | :exit | :switch-root | isolate:*) refuse "$word" ;;
        *) verb="${verb:-$word}" ;;
        esac
    done
    other "$@" ;;
init | telinit)
    case "${1:-}" in
    0 | 6) off ;;
    esac
    refuse "$*" ;;
esac
wait=0
for word in "$@"; do
    case "$word" in
    --help | --version) echo "$name of a machine of the local cloud"; exit 0 ;;
    -c) rm -f "$pending"; exit 0 ;;
    -k | -w | --wtmp-only | --show) exit 0 ;;
    +[0-9]*) wait=$(expr "${word#+}" '*' 60) || [ "$wait" = 0 ] || refuse "$word" ;;
    [0-9]*:[0-9]*) refuse "a time of day" ;;
    esac
done
[ "$wait" -gt 0 ] || off
end_later "$wait"
"""

POWER_NAMES = ("poweroff", "shutdown", "halt", "reboot", "init", "telinit", "systemctl", "loginctl")
"""What `POWER` is found as; it looks at its own name."""

SUDO = r"""#!/bin/sh
# Stands in for sudo: what follows runs as this machine's own user, with the machine's own commands before all others.
login="" shell="" behind=""
while [ $# -gt 0 ]; do
    word="$1"
    case "$word" in
    --) shift; break ;;
    --user | --group | --prompt | --close-from | --chdir | --chroot | --role | --type | --command-timeout | --host | --other-user)
        shift; [ $# -gt 0 ] && shift ;;
    --login) login=1; shift ;;
    --shell) shell=1; shift ;;
    --background) behind=1; shift ;;
    --version | -V) echo "sudo of a machine of the local cloud"; exit 0 ;;
    --*) shift ;;
    -?*)
        shift
        word="${word#-}"
        while [ -n "$word" ]; do
            rest="${word#?}"
            case "${word%"$rest"}" in
            [ugpCTrtDRU]) [ -n "$rest" ] || { [ $# -gt 0 ] && shift; }; rest="" ;;
            i) login=1 ;;
            s) shell=1 ;;
            b) behind=1 ;;
            esac
            word="$rest"
        done ;;
    *) break ;;
    esac
done
PATH="${0%/*}:$PATH"
export PATH
if [ $# -eq 0 ]; then
    [ -z "$login" ] || exec "${SHELL:-/bin/sh}" -l
    [ -z "$shell" ] || exec "${SHELL:-/bin/sh}"
    exit 0
fi
# /sbin/poweroff and its like are meant for this machine too.
own="${0%/*}/${1##*/}"
case "$1" in
/*) if [ -x "$own" ]; then shift; set -- "$own" "$@"; fi ;;
esac
[ -z "$behind" ] || { env "$@" & exit 0; }
exec env "$@"
"""

SSH = r"""#!/bin/sh
# Stands in for ssh where this machine shares its account with the computer: ssh goes by the account's home, and would read the computer's config.
here="${0%/*}"
PATH=$(printf '%s\n' "$PATH" | tr : '\n' | grep -vxF "$here" | paste -sd: -)
real=$(command -v ssh) || { echo "ssh: not found" >&2; exit 127; }
own="$HOME/.ssh/config"
[ "$(getent passwd "$(id -u)" | cut -d: -f6)" != "$HOME" ] && [ -f "$own" ] || exec "$real" "$@"
exec "$real" -F "$own" "$@"
"""

PIP = """#!/bin/sh
exec "$NBPROV_MACHINE/venv/bin/python3" -m pip "$@"
"""

NVIDIA_SMI = """#!/bin/sh
# Stands in for nvidia-smi: this machine's GPUs are simulated.
name="${NBPROV_SIMULATED_GPUS%:*}"
count="${NBPROV_SIMULATED_GPUS##*:}"
case "$count" in *.*) count=$((${count%.*} + 1)) ;; esac
[ "$count" -gt 0 ] || { echo "No devices were found"; exit 6; }
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
while [ "$index" -lt "$count" ]; do
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


def scripts(gpus: str) -> dict[str, str]:
    """What is in a machine's `bin`, by name."""
    found = {
        "nbprov-poweroff": POWEROFF,
        "sudo": SUDO,
        "ssh": SSH,
        **dict.fromkeys(POWER_NAMES, POWER),
    }
    return found | {"nvidia-smi": NVIDIA_SMI} if gpus else found


def server_command(server: Server, boot: Path, host: str, port: int) -> str:
    """The shell command that serves ssh, in the foreground."""
    if server.binary:
        return "exec " + shlex.join([server.binary, "-D", "-e", "-f", str(boot / "sshd_config")])
    stand_in = [
        sys.executable,
        str(Path(__file__).with_name("asyncssh_server.py")),
        "serve",
        str(boot / "sshd_config"),
        host,
        str(port),
    ]
    return "exec " + shlex.join(stand_in)


def keygen_command(key: Path) -> str:
    """The shell command that makes a host key where the start script left none."""
    stand_in = shlex.join(
        [sys.executable, str(Path(__file__).with_name("asyncssh_server.py")), "keygen", str(key)]
    )
    ours = shlex.join(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
    return f"if command -v ssh-keygen >/dev/null; then {ours}; else {stand_in}; fi"
