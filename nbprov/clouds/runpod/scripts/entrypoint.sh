# nbprov: begins a pod, at every start
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
