"""The start script (user data) of a machine: its host key, who may log in, and the boot guard."""

from __future__ import annotations

import shlex

from nbprov.model.clock import Seconds

from .keys import ClusterKeys

BOOT_GUARD_SECONDS: Seconds = 30 * 60.0
"""How long a machine may live without an agent: beyond the longest boot allowed plus its ssh and agent phases, so only a lost one is ended."""
USER_DATA_LIMIT = 4096
"""Bytes of the filled script: the smallest user-data limit among clouds, with which the adapters need no second way in."""

_TEMPLATE = r"""#!/bin/sh
# nbprov: host key, login key, boot guard.
set -u
umask 077
if [ -z "${HOME:-}" ]; then HOME=$(getent passwd "$(id -u)" | cut -d: -f6); fi
HOME=${HOME:-/root}; export HOME
host_key=${NBPROV_HOST_KEY:-/etc/ssh/ssh_host_ed25519_key}
logins=${NBPROV_AUTHORIZED_KEYS:-$HOME/.ssh/authorized_keys}
folder=$HOME/.nbprov
mkdir -p "$(dirname "$host_key")" "$(dirname "$logins")" "$folder"
cat >"$host_key.new" <<'NBPROV_END'
@@host_key@@
NBPROV_END
printf '%s\n' '@@host_public@@' >"$host_key.pub.new"
chmod 644 "$host_key.pub.new"
mv -f "$host_key.new" "$host_key" && mv -f "$host_key.pub.new" "$host_key.pub"
touch "$logins" && chmod 600 "$logins"
login='@@authorized_key@@'
if ! grep -qxF "$login" "$logins"; then
  if [ -s "$logins" ] && [ -n "$(tail -c1 "$logins")" ]; then echo >>"$logins"; fi
  printf '%s\n' "$login" >>"$logins"
fi
if [ -z "${NBPROV_HOST_KEY:-}" ]; then
  if [ -d /run/systemd/system ]; then
    for unit in ssh sshd; do
      if systemctl is-active --quiet "$unit"; then systemctl restart "$unit"; fi
    done
  elif [ -s /run/sshd.pid ]; then
    kill -HUP "$(cat /run/sshd.pid)"
  fi
fi
rm -f "$folder/agent.started"
{ cat /proc/sys/kernel/random/uuid || echo "$(date +%s).$$"; } >"$folder/boot.id" 2>/dev/null
own=$(command -v setsid || true)
$own sh -c GUARD nbprov-boot-guard "$folder/agent.started" </dev/null >/dev/null 2>&1 &
exit 0
"""

# Repeats: a poweroff that failed once (no sudo yet, a busy init) must not leave the machine on the bill.
_GUARD = 'sleep SECONDS; while [ ! -e "$1" ]; do POWEROFF\nsleep 60; done'


def boot_template(
    poweroff: str = "sudo -n poweroff",
    *,
    mode: str = "terminate",
    guard_seconds: Seconds = BOOT_GUARD_SECONDS,
) -> str:
    """The start script as a template with `@@host_key@@`, `@@host_public@@` and `@@authorized_key@@`; it holds no key and may be stored.

    Parameters
    ----------
    poweroff
        `Capabilities.poweroff` of the cloud: a shell command in which `{mode}` and `{reason}` are replaced.
    mode
        `terminate` or `stop`: what the boot guard asks for.
    guard_seconds
        Seconds without an agent after which the machine ends itself.

    Notes
    -----
    The script may run at every boot. It writes the host key to `$NBPROV_HOST_KEY` and the login key to
    `$NBPROV_AUTHORIZED_KEYS` where these are set, else to the system's places; only in the latter case a running sshd
    is made to read its key again.
    """
    if mode not in ("terminate", "stop"):
        raise ValueError(f"mode is terminate or stop, not {mode!r}")
    command = poweroff.replace("{mode}", mode).replace("{reason}", shlex.quote("no agent was started in time"))
    guard = _GUARD.replace("SECONDS", f"{max(1, round(guard_seconds))}").replace("POWEROFF", command)
    return _TEMPLATE.replace("GUARD", shlex.quote(guard), 1)


def fills(keys: ClusterKeys) -> dict[str, str]:
    """What fills the template's markers. Holds a private key: never stored, never logged."""
    return {
        "host_key": keys.host_private.rstrip("\n"),
        "host_public": keys.host_public,
        "authorized_key": keys.client_public,
    }
