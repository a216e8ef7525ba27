#!/bin/sh
exec "$NBPROV_MACHINE/venv/bin/python3" -m pip "$@"
