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
# Each is a script beside this one with `main(out_dir)`, and the folder its files go to; none has dimensions to vary. The
# order matters: the whole runs use the demo checkpoint.
WHOLE = {
    "demo": "demo",
    "prompts": "text",
    "tables": "tables",
    "captures": "captures",
    "songs": "songs",
    "demo_codes": "demo",
    "ops": "ops",
    "gradients": "gradients",
}
GOLDENS = Path(__file__).resolve().parent.parent


def main():
    names = [*COMPONENTS, *WHOLE]
    parser = argparse.ArgumentParser(description="Make the case files from upstream's own classes.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(names)}; default all")
    parser.add_argument("--out", type=Path, default=GOLDENS, help="folder that takes the place of goldens/")
    parser.add_argument("--seed-offset", type=int, default=0, help="other dimensions, lengths and seeds")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in names]
    if unknown:
        parser.error(f"no such script: {', '.join(unknown)}")
    # A folder with another offset holds only what an offset changes.
    for name in args.names or (COMPONENTS if args.seed_offset else names):
        print(name)
        script = importlib.import_module(name)
        folder = args.out / WHOLE.get(name, "tiny")
        folder.mkdir(parents=True, exist_ok=True)
        if name in WHOLE:
            script.main(folder)
        else:
            script.main(folder, args.seed_offset)


if __name__ == "__main__":
    main()
