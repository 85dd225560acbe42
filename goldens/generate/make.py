"""Makes the case files: `python goldens/generate/make.py [name...] [--out DIR] [--seed-offset N]`."""

import argparse
import importlib
from pathlib import Path

# Each is a script beside this one with `main(out_dir, offset)`. Offset 0 gives the files of the repository; any other
# number gives other dimensions, lengths and seeds.
COMPONENTS = [
    "condition_encoder",
    "rvq_depth_decoder",
    "depth_loop",
    "language_model",
    "transformer_block",
    "transformer",
    "snake",
    "vocoder_block",
    "vocoder",
    "guided_logits",
    "sample_probs",
    "schedule",
    "flow",
]
# Each is a script beside this one with `main(out_dir)`; these have no dimensions to vary.
WHOLE = ["prompts", "tables", "captures"]


def main():
    parser = argparse.ArgumentParser(description="Make the case files from upstream's own classes.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(COMPONENTS + WHOLE)}; default all")
    parser.add_argument("--out", default=str(Path(__file__).resolve().parent.parent / "tiny"), help="folder to write to")
    parser.add_argument("--seed-offset", type=int, default=0, help="other dimensions, lengths and seeds")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in COMPONENTS + WHOLE]
    if unknown:
        parser.error(f"no such component: {', '.join(unknown)}")
    # A folder with another offset holds only what an offset changes.
    everything = COMPONENTS if args.seed_offset else COMPONENTS + WHOLE
    for name in args.names or everything:
        print(name)
        script = importlib.import_module(name)
        if name in WHOLE:
            script.main(args.out)
        else:
            script.main(args.out, args.seed_offset)


if __name__ == "__main__":
    main()
