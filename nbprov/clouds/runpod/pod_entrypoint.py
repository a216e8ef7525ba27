"""The first process of a pod: it makes the home lasting, runs the start script, serves ssh, and leaves the pod a way to end itself.

What a pod is told
------------------
`entrypoint` and `cmd` are replaced by `COMMAND` (as JSON in `args`, which RunPod documents beside them), so any image with a shell will do.
The start script holds the cluster's host key. It is a RunPod **secret** (`/v2/account/secrets`, never given out again by the API) that the
environment names as `{{ RUNPOD_SECRET_… }}`: neither the console nor who may list pods can read it. Where the key may not make secrets
it stands in the environment itself, readable by whoever may list the account's pods, as EC2 user data is. RunPod itself runs the
container and could read either; the keys serve one cluster only.

What a stop keeps
-----------------
RunPod wipes a container's disk when a pod stops and keeps its volume (docs.runpod.io, Manage Pods). So root's home lies on the volume.

How a pod ends itself
---------------------
RunPod gives each pod `RUNPOD_POD_ID` and `RUNPOD_API_KEY`, a key "limited in scope to only the pod" (docs.runpod.io, Pod environment
variables), and documents `runpodctl stop pod $RUNPOD_POD_ID` and `runpodctl remove pod` inside a pod, whose runpodctl is "installed with a
Pod-scoped API key" (docs.runpod.io, runpodctl). `POWEROFF` asks REST v2 with that key, then GraphQL (until it is retired), then runpodctl.
ssh sessions do not inherit a container's environment, so the key is kept in a file that only root reads. Read in 2026-11.
"""

from __future__ import annotations

import base64
import json

VOLUME = "/workspace"
"""Where RunPod's images expect the pod's volume."""
START_VARIABLE = "NBPROV_START"
PASSED = (
    "PATH LD_LIBRARY_PATH LIBRARY_PATH CUDA_HOME CUDA_VERSION ROCM_PATH NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES CONDA_PREFIX"
    " VIRTUAL_ENV PYTHONPATH LANG LC_ALL TZ RUNPOD_POD_ID RUNPOD_DC_ID RUNPOD_GPU_COUNT RUNPOD_PUBLIC_IP NBPROV_NODE"
)
"""What ssh sessions inherit of the container's environment: the image's paths, and nothing secret."""

POWEROFF = r"""#!/bin/sh
# poweroff stop|terminate [REASON]: the pod stops or ends itself, with the key that RunPod gave to it alone.
mode=${1:-terminate}
[ $# -gt 0 ] && shift
case "$mode" in stop | terminate) ;; *) echo "usage: poweroff stop|terminate [REASON]" >&2; exit 2 ;; esac
here=${0%/*}
value() { sed -n "s/^$1=//p" "$here/pod" | head -n 1; }
pod=$(value pod)
key=$(value key)
api=$(value api)
if [ -z "$pod" ] || [ -z "$key" ]; then echo "RunPod gave this pod no key: it cannot end itself" >&2; exit 1; fi
{ echo "nbprov: $mode: $*" >/proc/1/fd/1; } 2>/dev/null
ask() {
  if command -v curl >/dev/null 2>&1; then
    answer=$(printf 'header = "Authorization: Bearer %s"\n' "$key" |
      curl -fsS -m 30 -A nbprov -K - -H 'Content-Type: application/json' -X POST -d "$2" "$api$1") || return 1
  elif command -v python3 >/dev/null 2>&1; then
    answer=$(NBPROV_POD_KEY=$key python3 -c '
import os, sys, urllib.request
head = {"Authorization": "Bearer " + os.environ["NBPROV_POD_KEY"], "Content-Type": "application/json", "User-Agent": "nbprov"}
asked = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), head, method="POST")
print(urllib.request.urlopen(asked, timeout=30).read().decode())
' "$api$1" "$2") || return 1
  else
    return 1
  fi
  case "$answer" in *'"errors"'*) echo "$answer" | cut -c 1-300 >&2; return 1 ;; esac
}
rest() { ask "/v2/pods/$pod/action" "{\"action\": \"$1\"}"; }
graphql() { ask /graphql "{\"query\": \"mutation { $1(input: {podId: \\\"$pod\\\"}) $2 }\"}"; }
tool() { command -v runpodctl >/dev/null 2>&1 && runpodctl "$1" pod "$pod"; }
if [ "$mode" = terminate ]; then
  rest terminate || graphql podTerminate "" || tool remove && exit 0
fi
rest stop || graphql podStop "{ id }" || tool stop
"""

COMMAND = r"""# nbprov: begins a pod, at every start
set -u
# A machine that brings an ssh server of its own says where that one's host key goes.
own=${NBPROV_HOST_KEY:-}
HOME=${HOME:-/root}
if [ -z "$own" ] && [ "$(id -u)" = 0 ] && [ -d @@volume@@ ]; then
  home=@@volume@@/.home
  if [ ! -d "$home" ]; then
    mkdir -p "$home"
    for file in .bashrc .profile; do [ ! -e "/root/$file" ] || cp -p "/root/$file" "$home/"; done
  fi
  chmod 700 "$home"
  sed -i "s#^root:\([^:]*:[^:]*:[^:]*:[^:]*\):[^:]*:#root:\1:$home:#" /etc/passwd
  HOME=$home
fi
export HOME
folder=$HOME/.nbprov
mkdir -p "$folder"
chmod 700 "$folder"
(
  umask 077
  printf 'pod=%s\nkey=%s\napi=%s\n' "${RUNPOD_POD_ID:-}" "${RUNPOD_API_KEY:-}" "${NBPROV_API:-@@api@@}" >"$folder/pod"
  printf %s @@poweroff@@ | base64 -d >"$folder/poweroff"
  printf %s "${NBPROV_START:-}" | base64 -d >"$folder/pod.start" 2>/dev/null || echo "nbprov: the start script cannot be read" >&2
)
if [ -z "$own" ] && ! command -v sshd >/dev/null 2>&1 && [ ! -x /usr/sbin/sshd ]; then
  echo "nbprov: this image has no ssh server: installing one"
  if command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends openssh-server
  elif command -v apk >/dev/null 2>&1; then
    apk add --no-cache openssh
  elif command -v dnf >/dev/null 2>&1; then
    dnf install -y -q openssh-server
  elif command -v yum >/dev/null 2>&1; then
    yum install -y -q openssh-server
  fi
fi
if [ -s "$folder/pod.start" ]; then
  shell=$(sed -n '1s/^#! *//p' "$folder/pod.start")
  ${shell:-/bin/sh} "$folder/pod.start" </dev/null || echo "nbprov: the start script ended with status $?" >&2
fi
rm -f "$folder/pod.start"
if [ -n "${PUBLIC_KEY:-}" ]; then
  logins=${NBPROV_AUTHORIZED_KEYS:-$HOME/.ssh/authorized_keys}
  (
    umask 077
    mkdir -p "$(dirname "$logins")"
    grep -qxF "$PUBLIC_KEY" "$logins" 2>/dev/null || printf '%s\n' "$PUBLIC_KEY" >>"$logins"
  )
fi
if [ -n "${NBPROV_LOGIN:-}" ] && [ "$NBPROV_LOGIN" != "$(id -un)" ] && [ "$(id -u)" = 0 ]; then
  other=$(sed -n "s#^$NBPROV_LOGIN:[^:]*:[^:]*:[^:]*:[^:]*:\([^:]*\):.*#\1#p" /etc/passwd)
  if [ -z "$own" ] && [ -n "$other" ] && mkdir -p "$other/.nbprov"; then
    cp -p "$folder/pod" "$folder/poweroff" "$other/.nbprov/"
    chown -R "$NBPROV_LOGIN" "$other/.nbprov"
  fi
fi
[ -z "$own" ] || exit 0
unset NBPROV_START RUNPOD_API_KEY
if ! { [ -s /run/sshd.pid ] && kill -0 "$(cat /run/sshd.pid)" 2>/dev/null; }; then
  server=$(command -v sshd || echo /usr/sbin/sshd)
  mkdir -p /run/sshd
  passed=
  for name in @@passed@@; do
    eval "value=\${$name:-}"
    case "$value" in "" | *[!A-Za-z0-9_./:,+=@%-]*) ;; *) passed="$passed $name=$value" ;; esac
  done
  set -- -p "${NBPROV_SSH_PORT:-22}" -h /etc/ssh/ssh_host_ed25519_key -o PidFile=/run/sshd.pid -o MaxSessions=64 \
    -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o PermitRootLogin=prohibit-password
  # Older servers (before 7.8) cannot hand an environment on.
  if [ -n "$passed" ] && "$server" -t "$@" -o "SetEnv$passed" 2>/dev/null; then set -- "$@" -o "SetEnv$passed"; fi
  "$server" "$@" || echo "nbprov: the ssh server did not start" >&2
fi
while :; do
  sleep 3600 &
  wait $!
done
"""


def command(api: str) -> str:
    """The text of a pod's first process; nothing in it is secret."""
    text = (
        COMMAND.replace("@@volume@@", VOLUME).replace("@@passed@@", PASSED).replace("@@api@@", api)
    )
    return text.replace("@@poweroff@@", base64.b64encode(POWEROFF.encode()).decode())


def arguments(api: str) -> str:
    """`args` of a pod: an entry point and a command in the JSON form that RunPod documents.

    Examples
    --------
    >>> sorted(json.loads(arguments("https://api.runpod.io")))
    ['cmd', 'entrypoint']
    """
    return json.dumps({"entrypoint": ["/bin/sh", "-c"], "cmd": [command(api)]})


def packed(script: str) -> str:
    """The start script as the environment carries it: no quote, no line break, nothing that a template could take for its own."""
    return base64.b64encode(script.encode()).decode()


def poweroff_command() -> str:
    """`Capabilities.poweroff`: `{mode}` and `{reason}` are filled in by whoever runs it.

    Examples
    --------
    >>> poweroff_command().format(mode="stop", reason="'idle for 60 min'")
    'sh "$HOME/.nbprov/poweroff" stop \\'idle for 60 min\\''
    """
    return 'sh "$HOME/.nbprov/poweroff" {mode} {reason}'
