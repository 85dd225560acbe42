"""Shows what `music3 generate` says when the GPU's memory does not suffice, before a run and in the middle of one.

usage: too_little_memory.py MUSIC3 MODEL

Memory is taken by this program: once before MUSIC3 starts, once when it has loaded some gigabytes. Both runs must end with an
error in a sentence, and leave no song behind; afterwards, with the memory given back, a short song must
succeed. Exit code 1 if one of them does otherwise.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from peak_memory import used

LEFT_BEFORE = 9_000_000_000
LEFT_DURING = 1_000_000_000
LOADED = 4_000_000_000
LIMIT_SECONDS = 60


def take_all_but(left):
    """Takes the GPU's memory; what is returned holds it."""
    free, _ = torch.cuda.mem_get_info()
    return torch.empty(max(0, free - left), dtype=torch.uint8, device="cuda")


def song(program, model, folder, seconds):
    command = [program, "generate", "--model", model, "--backend", "cuda", "--max-seconds", str(seconds)]
    command += ["--output", str(folder / "song.wav")]
    command += ["--caption", "a calm song", "--lyrics", "la", "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process, folder, wanted):
    """Whether a run ended as it must."""
    try:
        said = process.communicate(timeout=LIMIT_SECONDS)[0].strip()
    except subprocess.TimeoutExpired:
        said = f"no end within {LIMIT_SECONDS} s"
    left = sorted(path.name for path in folder.iterdir())
    print(said or "(nothing)", f"exit {process.returncode}, files: {', '.join(left) or 'none'}", sep="\n", flush=True)
    in_a_sentence = len(said.splitlines()) == 1 and said.startswith("music3: ") and "internal error" not in said
    return process.returncode == 1 and in_a_sentence and not left if wanted == "refused" else process.returncode == 0


def before_a_run(program, model, folder):
    held = take_all_but(LEFT_BEFORE)
    print(f"before: {torch.cuda.mem_get_info()[0] / 1e9:.1f} GB are free", flush=True)
    process = song(program, model, folder, 5)
    fine = ended(process, folder, "refused")
    del held
    return fine


def during_a_run(program, model, folder):
    before, start = used(), time.perf_counter()
    process = song(program, model, folder, 5)
    try:
        while used() < before + LOADED and process.poll() is None and time.perf_counter() - start < LIMIT_SECONDS:
            time.sleep(0.002)
        held = take_all_but(LEFT_DURING)
        print(f"\nduring: {torch.cuda.mem_get_info()[0] / 1e9:.1f} GB are free", flush=True)
        fine = ended(process, folder, "refused")
        del held
    finally:
        process.kill()
        process.wait()
    return fine


def main(program, model):
    fine = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for run in (before_a_run, during_a_run):
            fine.append(run(program, model, folder))
            torch.cuda.empty_cache()
        print("\nafterwards", flush=True)
        fine.append(ended(song(program, model, folder, 2), folder, "made"))
    print("\n" + ("as it must be" if all(fine) else "NOT as it must be"))
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
