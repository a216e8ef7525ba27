"""The start script (user data) of a machine.

It installs the host key and the login key, and starts the boot guard. That one starts the agent
again after a reboot and whenever it ends, and ends a machine on which none runs for long. An agent
that has no guards reads from `poweroff.json` how this machine ends.
"""

from __future__ import annotations

import json
import re
import shlex

from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.remote.ssh.keys import ClusterKeys

BOOT_GUARD_SECONDS: Seconds = 30 * 60.0
"""How long a machine may live without an agent.

This is longer than the longest boot with its ssh and agent phases, so only a lost machine is ended.
"""
USER_DATA_LIMIT = 4096
"""Bytes of the filled script: the smallest user-data limit among the clouds."""
PER_BOOT = "/var/lib/cloud/scripts/per-boot"
"""Where cloud-init runs what it finds at every boot; it runs user data itself once an instance."""

_LOGIN = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")

_TEMPLATE = r"""#!/bin/sh
# nbprov: host key, login key, boot guard.
set -u
umask 077
host_key=${NBPROV_HOST_KEY:-/etc/ssh/ssh_host_ed25519_key}
mkdir -p "$(dirname "$host_key")"
cat >"$host_key.new" <<'NBPROV_END'
@@host_key@@
NBPROV_END
printf '%s\n' '@@host_public@@' >"$host_key.pub.new"
chmod 644 "$host_key.pub.new"
mv -f "$host_key.new" "$host_key" && mv -f "$host_key.pub.new" "$host_key.pub"
ACCOUNT
mine='umask 077
key="@@authorized_key@@"
logins=${NBPROV_AUTHORIZED_KEYS:-$HOME/.ssh/authorized_keys}
mkdir -p "$(dirname "$logins")" "$HOME/.nbprov"
touch "$logins" && chmod 600 "$logins"
if ! grep -qxF "$key" "$logins"; then
  if [ -n "$(tail -c1 "$logins")" ]; then echo >>"$logins"; fi
  echo "$key" >>"$logins"
fi'
again=$(cat <<'NBPROV_END'
AGAIN
NBPROV_END
)
KEEP
APT
eval "$again"
if [ -z "${NBPROV_HOST_KEY:-}" ]; then
  if command -v restorecon >/dev/null; then
    restorecon -R "$host_key" "$host_key.pub" "${folder%/*}/.ssh"
  fi
  if [ -d /run/systemd/system ]; then
    for unit in ssh sshd; do
      if systemctl is-active --quiet "$unit"; then systemctl restart "$unit"; fi
    done
  elif [ -s /run/sshd.pid ] && grep -qx sshd "/proc/$(cat /run/sshd.pid)/comm"; then
    kill -HUP "$(cat /run/sshd.pid)"
  fi
fi
exit 0
"""

# What runs at every boot, in the script itself or from cloud-init's folder; it holds no key. `as`
# runs a text as the login user: what root wrote below that home could be redirected by a link.
_AGAIN = r"""if [ -z "${HOME:-}" ]; then HOME=$(getent passwd "$(id -u)" | cut -d: -f6); fi
HOME=${HOME:-/root}; export HOME
folder=$HOME/.nbprov
as() { sh -c "$1"; }
run='sh "$1/start"'
WHO
as "${mine:-}"
as 'cd "$HOME/.nbprov" || exit; umask 077
{ cat /proc/sys/kernel/random/uuid || echo "$(date +%s).$$"; } >boot.id 2>/dev/null
[ -s poweroff.json ] || printf %s OFF_FILE >poweroff.json'
own=$(command -v setsid || true)
$own sh -c GUARD nbprov-boot-guard "$folder" "$run" </dev/null >/dev/null 2>&1 &"""

_OTHER = '[ -z "${NBPROV_HOST_KEY:-}" ] && [ "$(id -u)" = 0 ]'

_WHO = f"""if {_OTHER}; then
  folder=~LOGIN/.nbprov
  as() {{ su -s /bin/sh LOGIN -c "$1"; }}
  run='su -s /bin/sh LOGIN -c "exec sh ~/.nbprov/start"'
fi"""

_WHO_ROOT = f"if {_OTHER}; then HOME=~root; folder=~root/.nbprov; fi"

# The password `*` matches nothing and, unlike `!`, does not lock the account: sshd without PAM
# refuses locked ones.
_ACCOUNT = rf"""if {_OTHER}; then
  if ! id LOGIN >/dev/null 2>&1; then
    shell=$(command -v bash || echo /bin/sh)
    useradd -m -s "$shell" -p '*' LOGIN ||
      useradd -N -m -s "$shell" -p '*' LOGIN || adduser -D LOGIN
  fi
  sudoers=/etc/sudoers.d/90-nbprov
  if [ -d /etc/sudoers.d ]; then
    echo 'LOGIN ALL=(ALL) NOPASSWD:ALL' >$sudoers && chmod 440 $sudoers
  fi
fi"""

# Automatic updates hold apt's locks for minutes after a boot, which is when `setup` runs. Until the
# next boot they do not begin, those under way are ended, and apt waits for what is left of them.
_APT = rf"""if {_OTHER} && [ -d /etc/apt/apt.conf.d ]; then
  echo 'DPkg::Lock::Timeout "900";' >/etc/apt/apt.conf.d/90nbprov
  if [ -d /run/systemd/system ]; then
    systemctl mask --runtime --now apt-daily.timer apt-daily-upgrade.timer
    systemctl stop --no-block apt-daily apt-daily-upgrade unattended-upgrades
  fi >/dev/null 2>&1
fi"""

_KEEP = rf"""boots={PER_BOOT}
if {_OTHER} && [ -d $boots ]; then
  printf '#!/bin/sh\n%s\n' "$again" >$boots/nbprov.new && chmod 700 $boots/nbprov.new &&
    mv -f $boots/nbprov.new $boots/nbprov
fi"""

# The agent's `start` file lasts until no agent is left, and succeeds if one had lived. What a clock
# that jumps says to have passed counts as a pause. The poweroff repeats, because one that failed
# (no sudo yet, a busy init) must not leave the machine on the bill.
_GUARD = """left=SECONDS
while :; do
at=$(date +%s)
if eval "$2"; then left=SECONDS at=$(date +%s); fi
sleep PAUSE
gone=$(($(date +%s) - at))
[ $gone -ge PAUSE ] && [ $gone -le 300 ] || gone=PAUSE
left=$((left - gone))
[ $left -gt 0 ] || { POWEROFF
left=60; }
done"""
_PAUSE: Seconds = 3.0
"""Between two starts of the agent."""


def boot_template(
    poweroff: str = "sudo -n poweroff",
    *,
    mode: str = "terminate",
    guard_seconds: Seconds = BOOT_GUARD_SECONDS,
    login: str = "",
) -> str:
    """Return the start script as a template that holds no key and may be stored.

    Markers: `@@host_key@@`, `@@host_public@@` and `@@authorized_key@@`.

    Parameters
    ----------
    poweroff
        `Capabilities.poweroff` of the cloud: a shell command in which `{mode}` and `{reason}` are
        replaced.
    mode
        `terminate` or `stop`: what the boot guard asks for.
    guard_seconds
        Seconds without an agent after which the machine ends itself.
    login
        Who logs in, where the script runs as root: made if missing, with passwordless sudo.
        That user writes everything below its home. Empty: whoever runs the script.

    Raises
    ------
    UsageError
        If `login` is no name that every Linux takes.

    Notes
    -----
    The script may run at every boot. It writes the host key to `$NBPROV_HOST_KEY` and the login key
    to `$NBPROV_AUTHORIZED_KEYS` where these are set, and ignores `login` then. Otherwise it writes
    to the system's places and makes a running sshd read its key again. Where the script runs once
    an instance, cloud-init's per-boot folder gets the boot guard and the agent's `start` file.

    Examples
    --------
    >>> "useradd" in boot_template(login="ubuntu"), "useradd" in boot_template()
    (True, False)
    """
    if mode not in ("terminate", "stop"):
        raise ValueError(f"mode is terminate or stop, not {mode!r}")
    if login and not _LOGIN.fullmatch(login):
        raise UsageError(
            f"{login!r} is no name to log in with",
            hint="lower-case letters, digits, -, _ and ., at most 32",
            code="remote.login",
        )
    off_file = json.dumps({"poweroff": poweroff, "mode": mode})
    # With a login the script runs as root, on images that may have no sudo.
    poweroff = poweroff.replace("sudo -n ", "") if login else poweroff
    guard = _guard(poweroff.replace("{mode}", mode), guard_seconds)
    return _assemble(guard, off_file, login)


def _assemble(guard: str, off_file: str, login: str) -> str:
    who = {"": "", "root": f"{_WHO_ROOT}\n"}.get(login, f"{_WHO}\n")
    again = _AGAIN.replace("WHO\n", who, 1).replace("GUARD", shlex.quote(guard), 1)
    inner = shlex.quote(off_file).replace("'", "'\"'\"'")  # it stands within single quotes
    again = again.replace("OFF_FILE", inner, 1)
    account = _ACCOUNT if login not in ("", "root") else ""
    parts = {
        "ACCOUNT\n": account,
        "KEEP\n": _KEEP if login else "",
        "APT\n": _APT,
        "AGAIN\n": again,
    }
    text = _TEMPLATE
    for marker, part in parts.items():
        text = text.replace(marker, f"{part}\n" if part else "", 1)
    return text.replace("LOGIN", login)


def _guard(poweroff: str, seconds: Seconds) -> str:
    command = poweroff.replace("{reason}", shlex.quote("no agent was started in time"))
    whole = max(1, round(seconds))
    text = _GUARD.replace("PAUSE", f"{min(whole, round(_PAUSE))}").replace("SECONDS", f"{whole}")
    return text.replace("POWEROFF", command)


def template_values(keys: ClusterKeys) -> dict[str, str]:
    """Return what fills the template's markers.

    It holds a private key, so it is never stored and never logged.
    """
    return {
        "host_key": keys.host_private.rstrip("\n"),
        "host_public": keys.host_public,
        "authorized_key": keys.client_public,
    }
