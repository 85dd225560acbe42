"""Times kernels one by one with Nsight Compute while `music3 bench` runs; prints a row for each kernel and shape.

usage: kernel_times.py [--kernels REGEX] [--count N] [--skip N] [--csv FILE] MUSIC3 BENCH OPTION ...

For instance `kernel_times.py music3 lm --context 512 --backend cuda`; weights are drawn at the published sizes unless asked for
otherwise. Launches are counted from the program's
first on, of kernels with such names where --kernels says so: the call that compiles counts like the one after it. Kernels run one at a
time under the profiler, at the clock that the device takes, so that what a launch costs and what overlaps is not seen.
"""

import argparse
import csv
import pathlib
import re
import shutil
import sys
import tempfile

from run_bench import bench, output

METRIC = "gpu__time_duration.sum"
MICROSECONDS = {"n": 1e-3, "u": 1.0, "m": 1e3, "s": 1e6}
LONGEST_NAME = 48


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", help="regular expression at the beginning of a kernel's name")
    parser.add_argument("--count", type=int, help="launches that are timed")
    parser.add_argument("--skip", type=int, default=0, help="launches before them")
    parser.add_argument("--csv", help="also keeps what the profiler said")
    parser.add_argument("program")
    parser.add_argument("bench", nargs=argparse.REMAINDER)
    return parser.parse_args()


def profiled(options, path):
    command = ["ncu", "--clock-control", "none", "--metrics", METRIC, "--csv", "--log-file", str(path)]
    command += ["--launch-skip", str(options.skip)]
    if options.kernels:
        command += ["--kernel-name", f"regex:^({options.kernels})"]
    if options.count:
        command += ["--launch-count", str(options.count)]
    output([*command, *bench(options.program, [*options.bench, "--repeat", "1", "--warmup", "0"])])


def launches(path):
    """The profiler's rows: name, grid, block and microseconds of each launch."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith('"')]
    for row in csv.DictReader(lines):
        if row["Metric Name"] == METRIC:
            time = float(row["Metric Value"].replace(",", "")) * MICROSECONDS[row["Metric Unit"][0]]
            yield row["Kernel Name"], row["Grid Size"], row["Block Size"], time


def short(name):
    """A kernel's name without the hash that CubeCL puts behind it."""
    return re.sub(r"_[0-9a-f]{8,}.*$", "", name)[:LONGEST_NAME]


def main():
    options = parsed()
    if not shutil.which("ncu"):
        sys.exit("ncu, the profiler Nsight Compute, is not on the PATH")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(options.csv or f"{folder}/times.csv")
        profiled(options, path)
        for name, grid, block, time in launches(path):
            found.setdefault((short(name), grid, block), []).append(time)
    if not found:
        sys.exit("the profiler saw no such kernel")
    print("| kernel | cubes | units | launches | median | least | all |\n|---|---|---|---|---|---|---|")
    for (name, grid, block), times in sorted(found.items(), key=lambda item: -sum(item[1])):
        median = sorted(times)[len(times) // 2]
        cells = [name, grid, block, len(times), f"{median:.1f} µs", f"{min(times):.1f} µs", f"{sum(times):.0f} µs"]
        print("| " + " | ".join(str(cell) for cell in cells) + " |")
    print(f"\n{sum(map(len, found.values()))} launches, {sum(map(sum, found.values())) / 1e3:.2f} ms in all")


if __name__ == "__main__":
    main()
