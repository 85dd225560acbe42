#!/bin/sh
# Holds the port against upstream at full dimensions, in one command, on a machine with a GPU:
#
#   full_scale.sh MUSIC3 PYTHON WORK REPORTS [STEP...]
#
# MUSIC3 is the program, built with the feature `cuda`; PYTHON one that imports torch, transformers and diffusers; WORK a
# folder for 29 GB of random weights and the recordings; REPORTS takes what was found. The steps, all of them by default:
#
#   checkpoint   published_random.py, unless WORK holds a finished one
#   captures     full_scale.py: upstream, each song twice
#   verify       music3 verify, capture by capture
#   cpu          the shortest song once more on the CPU, and how far upstream is from itself then
#
# The exit code is the worst of them.
#
# DIMS=tiny DEVICE=cpu BACKEND=flex STEPS=2 SONGS="short_mixed short_f32 short_bf16" goes the same way in a minute.
set -u
if [ $# -lt 4 ]; then
    sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2
    exit 2
fi
music3=$1 python=$2 work=$3 reports=$4
shift 4
here=$(cd "$(dirname "$0")" && pwd)
steps=${*:-checkpoint captures verify cpu}
songs=${SONGS:-short_mixed long_mixed short_f32 short_bf16}
device=${DEVICE:-cuda}
mkdir -p "$work" "$reports" || exit 2
worst=0

. "$here/timed.sh"

for step in $steps; do
    case $step in
    checkpoint)
        if [ -f "$work/checkpoint/modular_model_index.json" ]; then
            echo "== checkpoint: $work/checkpoint is there"
        else
            timed checkpoint 400 "$python" "$here/published_random.py" "$work/checkpoint" \
                --dims "${DIMS:-published}" --device "$device" || exit "$status"
        fi
        ;;
    captures)
        # shellcheck disable=SC2086
        timed captures 580 "$python" "$here/full_scale.py" "$work/captures" --model "$work/checkpoint" \
            --device "$device" --steps "${STEPS:-30}" --only $songs || exit "$status"
        ;;
    cpu)
        timed cpu 400 "$python" "$here/full_scale.py" "$work/captures" --model "$work/checkpoint" \
            --steps "${STEPS:-30}" --on-cpu short_mixed &&
            timed cpu_distance 60 "$python" "$here/distance.py" "$work/captures/short_mixed_replay.safetensors" \
                "$work/captures/short_mixed_cpu.safetensors"
        ;;
    verify)
        for song in $songs; do
            timed "verify_$song" 580 "$music3" verify --model "$work/checkpoint" --capture "$work/captures/$song.json" \
                --backend "${BACKEND:-cuda}" --report "$reports/verify_$song.json"
        done
        ;;
    *)
        echo "full_scale.sh: unknown step $step" >&2
        exit 2
        ;;
    esac
done
exit "$worst"
