"""Compiles every kernel of a run for given GPU architectures with nvcc, which needs no such GPU.

usage: kernels_compile.py LOG ARCH... [--nvcc PATH] [--include DIR]

LOG is what a run wrote with CUBECL_DEBUG_LOG=LOG and an empty kernel cache, for instance `XDG_CACHE_HOME=empty
CUBECL_DEBUG_LOG=LOG music3 check goldens/tiny --backend cuda`; ARCH is such as sm_90. Prints one line per architecture
and what failed, and ends with 1 if anything did.
"""

import argparse
import concurrent.futures
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"\[START_KERNEL_COMPILATION\](.*?)\[END_KERNEL_COMPILATION\]", re.S)
SOURCE = re.compile(r"source:\s*```\w*\n(.*?)```", re.S)


def sources(log):
    """The distinct sources in a log, by hash."""
    text = pathlib.Path(log).read_text(errors="replace")
    found = [match for block in BLOCK.findall(text) for match in SOURCE.findall(block)]
    return {hashlib.sha256(source.encode()).hexdigest()[:12]: source for source in found}


def compile_one(nvcc, include, arch, name, source, folder):
    path = pathlib.Path(folder) / f"{name}.cu"
    path.write_text(source)
    command = [nvcc, "-cubin", f"-arch={arch}", "-std=c++17", "-o", f"{path}.{arch}", str(path), *include]
    ran = subprocess.run(command, capture_output=True, text=True)
    return None if ran.returncode == 0 else f"{name}: {ran.stderr.strip().splitlines()[:3]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("log")
    parser.add_argument("arch", nargs="+")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--include", action="append", default=[])
    options = parser.parse_args()
    found = sources(options.log)
    if not found:
        sys.exit(f"{options.log}: no kernel source in it")
    include = [f"-I{folder}" for folder in options.include]
    failed = False
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        for arch in options.arch:
            jobs = [
                pool.submit(compile_one, options.nvcc, include, arch, name, source, folder)
                for name, source in found.items()
            ]
            problems = [problem for problem in (job.result() for job in jobs) if problem]
            print(f"{arch}: {len(found) - len(problems)} of {len(found)} kernels compile", flush=True)
            for problem in problems[:5]:
                print("  ", problem)
            failed |= bool(problems)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
