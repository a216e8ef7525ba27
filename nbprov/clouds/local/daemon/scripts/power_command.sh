#!/bin/sh
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
