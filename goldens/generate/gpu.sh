#!/bin/sh
# Repeats what docs/gpu.md says of a machine with a GPU, in one command:
#
#   gpu.sh MUSIC3 PYTHON WORK REPORTS [STEP...]
#
# MUSIC3 is the program, built with the feature `cuda`; PYTHON one that imports torch, transformers and diffusers; WORK a
# folder for 29 GB of random weights and the recordings; REPORTS takes what was printed. The steps, all of them by default:
#
#   check        music3 check: every recorded case
#   dit          the transformer at 86 latents, loops of 1 and of 3 forwards, on the CPU and on the GPU
#   reference    the demo's codes with the kernels and without
#   bench        music3 bench: every part, at the shapes of the table of speeds
#   upstream     upstream_speed.py: the same of upstream
#   full_scale   full_scale.sh: whole runs at the published sizes, beside upstream
#   songs_bf16, songs_mixed
#                music3 bench song: SHORT (10) s three times, LONG (60) s once, with the GPU's memory
#   upstream_songs_bf16, upstream_songs_mixed
#                upstream_speed.py: the same of upstream
#   staged       music3 generate: a song of 60 s from the files, with the GPU's memory
#   context      speed_curves.py: a step by context
#   lengths      speed_curves.py: songs by length
#   kernels      kernel_times.py: every kernel of the autoregressive half by itself, with Nsight Compute
#   memory       too_little_memory.py: errors where the GPU's memory does not suffice
#
# Every command has a time limit of its own. The exit code is the worst of them.
#
# DIMS=tiny DEVICE=cpu BACKEND=flex REPEAT=2 SHORT=1 LONG=2 CASES=goldens/tiny tries it without a GPU, all but the last two steps;
# full_scale.sh says what it takes.
set -u
if [ $# -lt 4 ]; then
    sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" >&2
    exit 2
fi
music3=$1 python=$2 work=$3 reports=$4
shift 4
here=$(cd "$(dirname "$0")" && pwd)
# Two steps need a GPU whatever the dimensions.
needs_gpu="memory kernels"
[ "${DEVICE:-cuda}" = cuda ] || needs_gpu=
steps=${*:-check reference dit bench upstream full_scale songs_bf16 upstream_songs_bf16 songs_mixed upstream_songs_mixed staged
    context lengths $needs_gpu}
backend=${BACKEND:-cuda} repeat=${REPEAT:-20} dims=${DIMS:-published}
# The port's smallest dimensions have another name.
if [ "$dims" = tiny ]; then random=demo; else random=$dims; fi
mkdir -p "$work" "$reports" || exit 2
worst=0
# Where there is no GPU there is no memory of it to watch.
watch="$python $here/peak_memory.py"
[ "${DEVICE:-cuda}" = cuda ] || watch=
. "$here/timed.sh"

# bench NAME PART ARGUMENTS...
bench() {
    bench_name=$1
    shift
    timed "bench_$bench_name" 300 "$music3" bench "$@" --random "$random" --backend "$backend" --repeat "$repeat"
}

# song SECONDS REPEAT PRECISION MATMUL
song() {
    timed "song_$1_$3_$4" 400 $watch "$music3" bench song --seconds "$1" --repeat "$2" --warmup 0 --random "$random" \
        --backend "$backend" --precision "$3" --matmul "$4"
}

# songs PRECISION MATMUL
songs() {
    song "${SHORT:-10}" 3 "$1" "$2"
    song "${LONG:-60}" 0 "$1" "$2"
}

# upstream_song SECONDS SONGS PRECISION
upstream_song() {
    timed "upstream_song_$1_$3" 500 "$python" "$here/upstream_speed.py" song --model "$work/checkpoint" --seconds "$1" \
        --songs "$2" --precisions "$3" --dims "$dims" --device "${DEVICE:-cuda}"
}

# kernels NAME KERNELS COUNT BENCH...
kernels() {
    kernels_name=$1 kernels_of=$2 kernels_count=$3
    shift 3
    timed "kernels_$kernels_name" 200 "$python" "$here/kernel_times.py" --kernels "$kernels_of" --count "$kernels_count" \
        "$music3" "$@" --random "$random" --backend "$backend"
}

# staged PRECISION MATMUL
staged() {
    timed "staged_$1_$2" 400 $watch "$music3" generate --model "$work/checkpoint" --max-seconds "${LONG:-60}" \
        --caption "A gentle folk song with acoustic guitar, soft drums and a warm female voice" \
        --lyrics "[verse]
Rain on the window, tea going cold" --backend "$backend" --precision "$1" --matmul "$2" --output "$work/staged.wav"
}

for step in $steps; do
    case $step in
    check)
        timed check 500 "$music3" check "${CASES:-$here/..}" --backend "$backend"
        ;;
    dit)
        timed dit 500 "$python" "$here/dit_table.py" "$music3" --random "$random" --backends flex "$backend"
        ;;
    bench)
        bench lm_512 lm --context 512
        bench lm_2000 lm --context 2000
        bench prefill lm --prefill 512
        bench depth depth
        bench condition condition
        for matmul in strict split tf32; do
            bench "dit_$matmul" dit --latents 688 --rows 2 --matmul "$matmul"
        done
        bench dit_bf16 dit --latents 688 --rows 2 --precision bf16
        bench dit_86 dit --latents 86 --rows 1
        bench vocoder vocoder --latents 344
        ;;
    upstream)
        timed upstream 580 "$python" "$here/upstream_speed.py" depth dit vocoder lm prefill frame --repeat "$repeat" \
            --dims "$dims" --device "${DEVICE:-cuda}"
        ;;
    reference)
        for tune in twinkle ode-to-joy frere-jacques mary random; do
            timed "reference_$tune" 100 "$python" "$here/same_codes.py" "$music3" "$work" --demo "$tune" --backend "$backend"
        done
        ;;
    songs_bf16)
        songs bf16 strict
        ;;
    songs_mixed)
        for matmul in strict split tf32; do
            songs mixed "$matmul"
        done
        ;;
    upstream_songs_bf16 | upstream_songs_mixed)
        upstream_song "${SHORT:-10}" 3 "${step##*_}"
        upstream_song "${LONG:-60}" 1 "${step##*_}"
        ;;
    staged)
        for mode in "bf16 strict" "mixed strict" "mixed tf32"; do
            staged $mode
        done
        ;;
    memory)
        timed memory 200 "$python" "$here/too_little_memory.py" "$music3" "$work/checkpoint"
        ;;
    context)
        timed context 200 "$python" "$here/speed_curves.py" context "$music3" "$reports/context.svg" --random "$random" \
            --backend "$backend"
        ;;
    lengths)
        timed lengths 500 "$python" "$here/speed_curves.py" songs "$music3" "$reports/songs.svg" --random "$random" \
            --backend "$backend" --precision bf16
        ;;
    kernels)
        step_kernels="normed_|attend|join_parts|linear_added|draw"
        kernels lm_512 "$step_kernels" 400 lm --context 512
        kernels lm_2000 "$step_kernels" 400 lm --context 2000
        kernels depth "$step_kernels|normalise" 400 depth
        kernels prefill "normalise|store_heads|softmax|join|nvjet|sm[0-9]|gemm|cutlass" 500 lm --prefill 512
        ;;
    full_scale)
        "$here/full_scale.sh" "$music3" "$python" "$work" "$reports"
        status=$?
        [ "$status" -le "$worst" ] || worst=$status
        ;;
    *)
        echo "gpu.sh: unknown step $step" >&2
        exit 2
        ;;
    esac
done
exit "$worst"
