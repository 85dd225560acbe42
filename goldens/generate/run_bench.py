"""Runs `music3 bench` for the scripts that make tables of what it says. Not to be called by itself."""

import json
import subprocess
import sys


def bench(program, arguments):
    """The command; weights are drawn at the published sizes unless the arguments say otherwise."""
    weights = [] if {"--random", "--model", "--demo"} & set(arguments) else ["--random", "published"]
    return [program, "bench", *arguments, *weights]


def output(command):
    """What a command prints; one that fails ends this program with what it said."""
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)}: {(run.stderr or run.stdout).strip() or 'failed without a word'}")
    return run.stdout


def report(program, arguments):
    """What `music3 bench` says of one thing."""
    return json.loads(output([*bench(program, arguments), "--json"]))
