"""Makes the table cases: windows, the nearest-frame index, and frames for a duration.

usage: tables.py [OUT_DIR]        (default: ../tables)

Each answer comes out of upstream's own block or class, run on stand-in values that make the answer visible.
"""

import json
import math
import os
import sys
from types import SimpleNamespace

import torch
from diffusers import MiniMaxMusic3Blocks, MiniMaxMusic3ConditionEncoder
from diffusers.modular_pipelines.minimax_music3 import encoders
from diffusers.modular_pipelines.minimax_music3.before_denoise import _CHUNK_FRAMES, MiniMaxMusic3PrepareChunksStep
from diffusers.modular_pipelines.modular_pipeline import PipelineState

WINDOW_FRAMES = [
    *range(1, 41), 63, 64, 65, 99, 100, 101, 128, 150, 172, 198, 199, 200, 201, 202, 203, 210, 250, 298, 299, 300, 301,
    302, 333, 399, 400, 401, 402, 450, 499, 500, 501, 1000, 1001, 1500, 2222, 4567, 8999, 9000,
]
INDEX_FRAMES = [*range(1, 201), 201, 256, 300, 999]
DURATIONS = [
    0.001, 0.0399, 0.04, 0.040000001, 0.0799, 0.08, 0.1, 0.12, 0.16, 0.2, 0.24, 0.28, 0.29, 0.32, 0.36, 0.4, 0.44, 0.48,
    0.5, 0.52, 0.56, 0.57, 0.58, 0.6, 0.64, 0.68, 0.72, 0.76, 0.8, 0.84, 0.88, 0.92, 0.96, 1.0, 1.04, 1.08, 1.1, 1.12,
    1.16, 1.2, 1.24, 1.28, 1.96, 2.0, 2.01, 2.28, 2.32, 2.36, 3.3, 4.56, 4.64, 5.0, 7.77, 8.0, 8.04, 9.12, 9.28, 10.0,
    12.04, 16.08, 20.0, 29.96, 30.0, 33.333333, 59.99, 60.0, 64.04, 99.96, 100.0, 120.0, 128.12, 180.0, 240.5, 256.04,
    359.0, 359.9, 359.959, 359.96, 359.99, 359.9999999, 360.0, 360.0001, 360.04, 361.0, 400.0, 3600.0, 1e9, 1e300,
    0.0, -0.0, -0.04, -1.0, -1e9, 1e-300, 5e-324, math.inf, -math.inf, math.nan,
]


def condition_encoder():
    """Upstream's condition encoder as an identity over one channel: the output names the frame that it came from."""
    encoder = MiniMaxMusic3ConditionEncoder(condition_hidden_dim=1, num_condition_layers=1, out_dim=1)
    encoder.proj.weight.data.copy_(torch.tensor([[[0.0, 1.0, 0.0]]]))
    encoder.proj.bias.data.zero_()
    return encoder.eval()


@torch.no_grad()
def source_frames(encoder, frames):
    """For each latent of `frames` frames, the frame that it is taken from."""
    numbered = torch.arange(frames, dtype=torch.float32).reshape(1, frames, 1)
    return [int(value) for value in encoder(numbered).flatten()]


def windows(pipeline, encoder, frames):
    """Upstream's window starts, how many frames each window has, and how many latents that gives."""
    state = PipelineState()
    state.set("frame_hiddens", torch.zeros(1, frames, 1))
    _, state = MiniMaxMusic3PrepareChunksStep()(pipeline, state)
    starts = state.get("chunk_starts")
    lengths = [min(start + _CHUNK_FRAMES, frames) - start for start in starts]
    latents = [len(source_frames(encoder, length)) for length in lengths]
    return {"chunk_starts": starts, "window_frames": lengths, "latent_lengths": latents}


class LoopReached(Exception):
    """Carries how often upstream's frame loop would run."""


def frames_for(pipeline, duration):
    """How many frames upstream asks of the language model for a duration; 0 where it refuses."""

    def first_range(stop):
        raise LoopReached(stop)

    state = PipelineState()
    state.set("text_ids", torch.zeros(2, 4, dtype=torch.long))
    state.set("audio_duration", duration)
    encoders.range = first_range
    try:
        encoders.MiniMaxMusic3AutoregressiveStep()(pipeline, state)
    except LoopReached as reached:
        # The loop runs once more than there are frames.
        return reached.args[0] - 1
    except (ValueError, OverflowError):
        return 0
    finally:
        del encoders.range
    raise AssertionError("upstream's frame loop was not reached and did not refuse")


def stand_in_pipeline():
    """Upstream's pipeline with a language model that is just good enough to reach the frame loop."""
    pipeline = MiniMaxMusic3Blocks().init_pipeline()
    output = SimpleNamespace(past_key_values=None, last_hidden_state=torch.zeros(2, 4, 1))

    def model(**_inputs):
        return output

    model.embed_tokens = lambda ids: torch.zeros(*ids.shape, 1)
    language_model = SimpleNamespace(model=model, config=SimpleNamespace(vocab_size=200_000))
    parts = {"language_model": language_model, "rvq_depth_decoder": SimpleNamespace()}
    # The step reads these two, and the frame rate, which is upstream's own property of the pipeline.
    return SimpleNamespace(frame_rate=pipeline.frame_rate, **parts), pipeline


def write(out_dir, component, content):
    os.makedirs(out_dir, exist_ok=True)
    rows = [f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in content["rows"].items()]
    text = f'{{\n  "component": "{component}",\n  "{content["name"]}": {{\n' + ",\n".join(rows) + "\n  }\n}\n"
    with open(os.path.join(out_dir, f"{component}.json"), "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{component}: {len(rows)} rows")


def main(out_dir):
    stand_in, pipeline = stand_in_pipeline()
    encoder = condition_encoder()
    table = {str(frames): windows(pipeline, encoder, frames) for frames in WINDOW_FRAMES}
    write(out_dir, "windows", {"name": "table", "rows": table})
    table = {str(frames): source_frames(encoder, frames) for frames in INDEX_FRAMES}
    write(out_dir, "nearest_index", {"name": "table", "rows": table})
    table = {repr(duration): frames_for(stand_in, duration) for duration in DURATIONS}
    write(out_dir, "durations", {"name": "frames_for_duration", "rows": table})


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tables"))
