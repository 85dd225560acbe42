"""Runs a command and says how much of the GPU's memory was taken at most while it ran.

usage: peak_memory.py COMMAND...

Memory is asked for twenty times a second; what was in use before the command began does not count. Whatever the program
keeps for later counts, and so does what the driver needs for it. Ends with the command's exit code.
"""

import subprocess
import sys
import time

import torch

PAUSE_SECONDS = 0.05


def used():
    free, total = torch.cuda.mem_get_info()
    return total - free


def main(command):
    if not command:
        sys.exit(__doc__)
    before, start = used(), time.perf_counter()
    process = subprocess.Popen(command)
    most = 0
    while process.poll() is None:
        most = max(most, used() - before)
        time.sleep(PAUSE_SECONDS)
    seconds = time.perf_counter() - start
    print(f"at most {most / 1e9:.2f} GB of the GPU's memory; {seconds:.2f} s from start to end", flush=True)
    sys.exit(process.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
