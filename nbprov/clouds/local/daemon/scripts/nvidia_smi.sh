#!/bin/sh
# Stands in for nvidia-smi: this machine's GPUs are simulated.
name="${NBPROV_SIMULATED_GPUS%:*}"
count="${NBPROV_SIMULATED_GPUS##*:}"
case "$count" in *.*) count=$((${count%.*} + 1)) ;; esac
[ "$count" -gt 0 ] || { echo "No devices were found"; exit 6; }
memory="${NBPROV_SIMULATED_GPU_MEMORY:-0}"
fields="" units=" MiB" percent=" %" header=1 list=0
for argument in "$@"; do
    case "$argument" in
    -L | --list-gpus) list=1 ;;
    --query-gpu=*) fields="${argument#*=}" ;;
    --format=*) case "$argument" in *noheader*) header=0 ;; esac
        case "$argument" in *nounits*) units="" percent="" ;; esac ;;
    esac
done
value() {
    case "$2" in
    index) printf %s "$1" ;;
    name | gpu_name) printf '%s (simulated)' "$name" ;;
    uuid | gpu_uuid) printf 'GPU-simulated-%s-%s' "$NBPROV_INSTANCE" "$1" ;;
    memory.total | memory.free) printf '%s%s' "$memory" "$units" ;;
    memory.used) printf '0%s' "$units" ;;
    utilization.*) printf '0%s' "$percent" ;;
    driver_version) printf simulated ;;
    count) printf %s "$count" ;;
    *) printf '[N/A]' ;;
    esac
}
if [ -n "$fields" ] && [ "$header" = 1 ]; then echo "$fields" | sed 's/,/, /g'; fi
index=0
while [ "$index" -lt "$count" ]; do
    if [ -n "$fields" ]; then
        row=""
        for field in $(echo "$fields" | tr ',' ' '); do row="$row${row:+, }$(value "$index" "$field")"; done
        echo "$row"
    elif [ "$list" = 1 ]; then
        echo "GPU $index: $name (simulated) (UUID: GPU-simulated-$NBPROV_INSTANCE-$index)"
    else
        echo "GPU $index: $name (simulated), $memory MiB, 0 % used"
    fi
    index=$((index + 1))
done
