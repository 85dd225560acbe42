"""Makes the committed captures: whole runs of upstream on the demo checkpoint.

usage: captures.py [OUT_DIR]        (default: ../captures; reads ../demo/demo-checkpoint.tar.gz)

A bf16 run is recorded three times: as upstream runs it; the same draws and noise under torch's MATH attention (the
`..._replay` file, no case of its own); and a run of its own under MATH, whose draws can be reproduced.
"""

import os
import sys
import tarfile
import tempfile
from dataclasses import dataclass, replace

from capture import Kept, Request, compute_exactly, describe, load_pipeline, run, scale_rows, write

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHIVE = os.path.join(HERE, "..", "demo", "demo-checkpoint.tar.gz")
AUDIO_END = "151670"

FOLK = "# Folk\n\n* warm **acoustic** guitar\n* soft female vocals, slow"
FOLK_LYRICS = (
    "[Verse]\nThe river runs below the hill\nthe morning light is cold and still\n"
    "[Chorus]\nSing it over ^ sing it under"
)
DANCE = "Fast electronic dance track, 128 BPM, heavy bass."
DANCE_LYRICS = "[intro]\n[drop]\nHey now, hey now\nthe night is long"
CHINESE = "夜空下的慢歌, piano and strings"
CHINESE_LYRICS = "[副歌]\n夜空的星星在唱歌\n我的心里有一首歌"

# Left out where a file would be large: a window's waveform equals the song's but for the crop.
LARGE = ("waveform", "condition_raw")
LONG = (*LARGE, "depth_guided", "guided", "lm_last_hidden", "velocity")


@dataclass
class Plan:
    """One committed capture: its stem, the request, what the file leaves out, and whether MATH also runs freely."""

    stem: str
    request: Request
    omit: tuple = ()
    logits_steps: int = 0
    own_math: bool = True


def folk(duration, steps, seed, dtype):
    return Request(FOLK, FOLK_LYRICS, duration, steps, seed, dtype)


def dance(duration, steps, seed, dtype):
    return Request(DANCE, DANCE_LYRICS, duration, steps, seed, dtype)


def chinese(duration, steps, seed, dtype):
    return Request(CHINESE, CHINESE_LYRICS, duration, steps, seed, dtype)


PLANS = [
    Plan("one_frame_f32", folk(0.04, 5, 1, "f32"), logits_steps=1),
    Plan("one_frame_mixed", folk(0.04, 5, 2, "mixed"), logits_steps=1),
    Plan("one_frame_bf16", dance(0.04, 4, 3, "bf16")),
    Plan("one_window_f32", dance(1.28, 3, 4, "f32"), LARGE),
    Plan("one_window_mixed", chinese(0.4, 3, 5, "mixed"), LARGE),
    # Two steps: in bf16 a few single roundings spread to most values within three, whoever computes them.
    Plan("one_window_bf16", folk(0.32, 2, 6, "bf16"), LARGE),
    Plan("three_windows_f32", folk(12.04, 2, 7, "f32"), LONG),
    Plan("two_windows_bf16", dance(8.05, 2, 8, "bf16"), (*LONG, "audios"), own_math=False),
]
# These two end by the end token: its row of the head is scaled so that it wins once the hidden state allows it.
ENDED = [
    Plan("ended_f32", replace(folk(3.0, 2, 9, "f32"), lm_head_row_scale={AUDIO_END: 4.0}), LARGE),
    Plan("ended_mixed", replace(dance(3.0, 2, 10, "mixed"), lm_head_row_scale={AUDIO_END: 4.0}), LARGE),
]
REFUSED = [
    Plan("ended_at_once", replace(folk(1.0, 2, 11, "f32"), lm_head_row_scale={AUDIO_END: -256.0})),
    Plan("ended_before_a_frame", replace(folk(1.0, 2, 16, "f32"), lm_head_row_scale={AUDIO_END: 256.0})),
    Plan("blank_lyrics", replace(folk(1.0, 2, 12, "f32"), lyrics=" \u3000\n")),
    Plan("too_short", folk(0.039, 2, 13, "f32")),
]


class Maker:
    """Runs plans on the unpacked demo checkpoint and writes their files."""

    def __init__(self, model, checkpoint, out_dir):
        self.model, self.checkpoint, self.out_dir = model, checkpoint, out_dir

    def record(self, request, recorded=None, logits_steps=0):
        pipeline = load_pipeline(self.model, request.dtype)
        scale_rows(pipeline, request.lm_head_row_scale)
        return run(pipeline, request, recorded, Kept(logits_steps))

    def write(self, stem, head, about, tensors, omit=()):
        write(os.path.join(self.out_dir, stem), head | about, tensors, omit)
        frames = "refused" if tensors is None else f"{len(tensors['codes']) - 1} frames"
        print(f"{stem}: {frames}")

    def case_head(self):
        return {"component": "pipeline", "checkpoint": self.checkpoint}

    def make(self, plan):
        request = plan.request
        tensors = self.record(request, logits_steps=plan.logits_steps)
        if request.dtype == "f32":
            self.write(plan.stem, self.case_head(), describe(request, tensors), tensors, plan.omit)
            return
        twin = f"{plan.stem}_replay"
        about = describe(request, tensors) | {"math": twin}
        self.write(plan.stem, self.case_head(), about, tensors, plan.omit)
        under_math = replace(request, attention="math")
        replayed = self.record(under_math, tensors, plan.logits_steps)
        about = describe(under_math, replayed)
        self.write(twin, {"replay_of": plan.stem}, about, replayed, plan.omit)
        if not plan.own_math:
            return
        own = self.record(under_math, logits_steps=plan.logits_steps)
        self.write(f"{plan.stem}_math", self.case_head(), describe(under_math, own), own, plan.omit)

    def make_refused(self, plan):
        try:
            self.record(plan.request)
        except ValueError as refusal:
            about = describe(plan.request, None) | {"error": str(refusal)}
            self.write(plan.stem, self.case_head(), about, None)
            return
        raise AssertionError(f"{plan.stem}: upstream did not refuse")


def main(out_dir):
    compute_exactly("cpu")
    os.makedirs(out_dir, exist_ok=True)
    with tempfile.TemporaryDirectory() as model:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(model, filter="data")
        maker = Maker(model, "../demo/demo-checkpoint.tar.gz", out_dir)
        for plan in PLANS + ENDED:
            maker.make(plan)
        for plan in REFUSED:
            maker.make_refused(plan)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "captures"))
