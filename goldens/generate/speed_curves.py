"""Times `music3 bench` over context or song lengths; writes a table and a drawing of it.

usage: speed_curves.py context MUSIC3 OUT.svg [BENCH OPTION ...]
       speed_curves.py songs MUSIC3 OUT.svg [BENCH OPTION ...]

`context`: a step of the language model with both rows, from 512 to 10 240 positions.
`songs`: whole songs with every stage, beside what their frames would take at the longest song's rate.

Bench options are passed on, `--backend cuda` or `--precision bf16` for instance; weights are drawn at the published sizes unless
asked for otherwise. The table goes to standard output.
"""

import sys

from run_bench import report

CONTEXTS = [512, 1024, 2000, 4096, 6144, 8192, 10240]
SONG_SECONDS = [5, 10, 20, 60, 180]
WIDTH, HEIGHT, MARGIN = 640, 360, 56


def ticks(largest):
    """Round numbers up to the largest value, four to nine of them."""
    step = 10.0 ** len(str(int(largest)))
    while largest / step < 4:
        step /= 2 if str(step)[0] in "12" else 2.5
    return [step * index for index in range(int(largest / step) + 2)]


def draw(path, points, title, names):
    """A line through points, from zero on both axes."""
    across, up = ticks(max(x for x, _ in points)), ticks(max(y for _, y in points))

    def place(x, y):
        return (
            MARGIN + x / across[-1] * (WIDTH - 2 * MARGIN),
            HEIGHT - MARGIN - y / up[-1] * (HEIGHT - 2 * MARGIN),
        )

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="24" text-anchor="middle" font-size="14">{title}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">{names[0]}</text>',
        f'<text x="16" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2})">{names[1]}</text>',
    ]
    for x in across:
        left, bottom = place(x, 0)
        lines.append(f'<text x="{left:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{x:g}</text>')
    for y in up:
        left, bottom = place(0, y)
        right, _ = place(across[-1], y)
        lines.append(f'<path d="M{left:.1f} {bottom:.1f}H{right:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{left - 6:.1f}" y="{bottom + 4:.1f}" text-anchor="end">{y:g}</text>')
    placed = [place(x, y) for x, y in points]
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
    lines.append(f'<path d="M{way}" fill="none" stroke="#1f5fa8" stroke-width="2"/>')
    lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#1f5fa8"/>' for x, y in placed]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "</svg>", ""]))


def context(program, path, options):
    print("| context | median of 20 | bytes read | share of a copy's rate |\n|---|---|---|---|", flush=True)
    points = []
    for length in CONTEXTS:
        said = report(program, ["lm", "--context", str(length), "--repeat", "20", *options])
        median = said["timings"]["per_call_seconds"]["median"]
        read = said["cost"]["weight_bytes"] + said["cost"]["state_bytes"]
        share = read / median / said["copy_ceiling"]["bytes_per_second"]
        print(f"| {length} | {median * 1e3:.2f} ms | {read / 1e9:.1f} GB | {share:.0%} |", flush=True)
        points.append((length, median * 1e3))
    draw(path, points, "A step of the language model", ("positions before it", "ms"))


def songs(program, path, options):
    print("| song | frames | prompt and frames | flow | vocoder | whole | real-time factor |", flush=True)
    print("|---|---|---|---|---|---|---|", flush=True)
    points = []
    for seconds in SONG_SECONDS:
        said = report(program, ["song", "--seconds", str(seconds), "--repeat", "0", "--warmup", "0", *options])
        song, whole = said["song"], said["timings"]["per_call_seconds"]["median"]
        stages = {stage["stage"]: stage["seconds"] for stage in song["stages"]}
        shown = " | ".join(f"{stages[name]:.2f} s" for name in ("autoregressive", "flow", "vocoder"))
        factor = whole / song["audio_seconds"]
        print(f"| {seconds} s | {song['frames']} | {shown} | {whole:.2f} s | {factor:.2f} |", flush=True)
        points.append((seconds, whole))
    draw(path, points, "Whole songs", ("seconds of music", "seconds of work"))


def main(arguments):
    if len(arguments) < 3 or arguments[0] not in ("context", "songs"):
        sys.exit(__doc__)
    {"context": context, "songs": songs}[arguments[0]](arguments[1], arguments[2], arguments[3:])


if __name__ == "__main__":
    main(sys.argv[1:])
