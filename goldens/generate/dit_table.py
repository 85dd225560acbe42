"""Times one forward of the transformer in loops of one call and of three, on several backends; prints a table.

usage: dit_table.py MUSIC3 [--backends flex cuda] [--latents 86] [--random published|demo] [--model DIR]

`staging` is what it takes to draw the weights where they are computed with, or with --model to bring them there. Slope and
intercept are of the line through loops of one call up to three: what a call costs, and what a loop costs once. `process` is
the whole program, from its start to its end. A row is printed as soon as it is known.
"""

import argparse
import time

import run_bench

LOOPS = (1, 3)
COLUMNS = ["backend", "R", "staging", "first call", "loop of R", "slope", "intercept", "median call", "process"]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--backends", nargs="+", default=["flex", "cuda"])
    parser.add_argument("--latents", type=int, default=86)
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--random", default="published")
    weights.add_argument("--model")
    return parser.parse_args()


def timed(options, backend, repeat):
    """What `music3 bench` says, and how long the whole process took."""
    weights = ["--model", options.model] if options.model else ["--random", options.random]
    what = ["--latents", str(options.latents), "--rows", "1", "--repeat", str(repeat), "--backend", backend]
    start = time.perf_counter()
    said = run_bench.report(options.program, ["dit", *weights, *what])
    return said, time.perf_counter() - start


def shown(seconds):
    if seconds is None:
        return "–"
    return f"{seconds:.2f} s" if abs(seconds) >= 1 else f"{1000 * seconds:.2f} ms"


def row(report, repeat, process):
    timings = report["timings"]
    line = timings["line"] or {"slope": None, "intercept": None}
    loop = max(timings["loops"], key=lambda loop: loop["calls"])
    assert loop["calls"] == repeat, f"the longest loop has {loop['calls']} calls, asked for {repeat}"
    return [
        report["backend"],
        str(repeat),
        shown(report["staging"]["seconds"]),
        shown(timings["first_call_seconds"]),
        shown(loop["seconds"]),
        shown(line["slope"]),
        shown(line["intercept"]),
        shown(timings["per_call_seconds"]["median"]),
        shown(process),
    ]


def main():
    options = parsed()
    print(f"one forward, one row, {options.latents} latents, {options.model or options.random + ' dimensions, random weights'}\n")
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    machines = {}
    for backend in options.backends:
        for repeat in LOOPS:
            report, process = timed(options, backend, repeat)
            products = ", ".join(f"{product['operands']} {product['matmul']}" for product in report["products"])
            machines[report["backend"]] = f"{report['machine']['device']}, {report['path']}, products {products}"
            print("| " + " | ".join(row(report, repeat, process)) + " |", flush=True)
    print()
    for backend, machine in machines.items():
        print(f"{backend}: {machine}")


if __name__ == "__main__":
    main()
