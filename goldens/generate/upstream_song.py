"""Times upstream's whole pipeline, for `upstream_speed.py song`."""

import contextlib
import statistics
from unittest.mock import patch

from capture import ACOUSTIC, AUTOREGRESSIVE, DTYPES, load_pipeline
from diffusers import MiniMaxMusic3ModularPipeline
from diffusers.modular_pipelines.minimax_music3 import decoders, denoise, encoders

STAGES = {
    "autoregressive": encoders.MiniMaxMusic3AutoregressiveStep,
    "flow": denoise.MiniMaxMusic3ChunkDenoiseStep,
    "vocoder": decoders.MiniMaxMusic3VocoderDecodeStep,
}


def loaded_pipeline(bench, precision):
    with bench.device:
        pipeline = load_pipeline(bench.options.model, precision)
    pipeline.to(bench.device)
    return pipeline


def drawn_pipeline(bench, precision):
    """Drawn weights; only the tokenizer and the scheduler come from the checkpoint folder."""
    first, second = DTYPES[precision]
    dtypes = dict.fromkeys(AUTOREGRESSIVE, first) | dict.fromkeys(ACOUSTIC, second)
    modules = bench.take(*dtypes.items())
    pipeline = MiniMaxMusic3ModularPipeline.from_pretrained(bench.options.model)
    pipeline.load_components(names=["tokenizer", "scheduler"])
    pipeline.update_components(**dict(zip(dtypes, modules, strict=True)))
    return pipeline


def song(bench):
    """The whole pipeline with all components in memory and torch's own settings, after one short song."""
    bench.take()
    for precision in bench.options.precisions:
        pipeline = drawn_pipeline(bench, precision) if bench.options.draw else loaded_pipeline(bench, precision)

        def run(seconds):
            return pipeline(
                prompt=bench.options.prompt,
                lyrics=bench.options.lyrics,
                audio_duration=seconds,
                num_inference_steps=bench.options.steps,
                generator=bench.generator(),
                output_type="np",
            )

        run(min(2.0, bench.options.seconds))
        bench.forget_peak()
        stages, states, times = {}, [], []
        with contextlib.ExitStack() as stack:
            for stage, block in STAGES.items():
                stack.enter_context(patch.object(block, "__call__", timed_stage(bench, stages, stage, block.__call__)))
            for _ in range(bench.options.songs):
                times.append(bench.seconds(lambda: states.append(run(bench.options.seconds))))
        audio_seconds = states[-1].get("audios").shape[-1] / pipeline.sampling_rate
        about = {
            "products": "torch's defaults",
            "weights": "drawn" if bench.options.draw else "loaded",
            "frames": states[-1].get("frame_hiddens").shape[1],
            "steps": bench.options.steps,
            "audio_seconds": round(audio_seconds, 3),
            "rtf": round(statistics.median(times) / audio_seconds, 4),
            "stage_seconds": {stage: round(statistics.median(found), 4) for stage, found in stages.items()},
        }
        bench.report("song", precision, times, **about)
        del pipeline, states, run


def timed_stage(bench, stages, stage, original):
    def call(*arguments, **named):
        results = []
        seconds = bench.seconds(lambda: results.append(original(*arguments, **named)))
        stages.setdefault(stage, []).append(seconds)
        return results[0]

    return call
