#!/bin/sh
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
printf '%s\n%s\n' "$mode" "${*:-${NBPROV_REASON:-}}" > "$draft" && mv -f "$draft" "$machine/poweroff"
