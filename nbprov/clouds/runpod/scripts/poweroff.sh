#!/bin/sh
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
