#!/bin/sh
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
