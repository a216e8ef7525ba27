#!/bin/sh
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
