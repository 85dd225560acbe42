"""Times upstream's own classes with random weights at the published dimensions, to stand beside `music3 bench`.

usage: upstream_speed.py [ROW ...] [--repeat N] [--device cuda|cpu] [--dims published|tiny] [--json OUT]
       upstream_speed.py song --model DIR [--draw] --seconds 10                               (see --help)

Every call is waited for, after three (`--warm-up`) that are not counted. The language model's steps and whole frames are timed inside
upstream's own loop, between one draw of a semantic code and the next. Weights are drawn on the device.
"""

import argparse
import contextlib
import json
import time
from types import SimpleNamespace
from unittest.mock import patch

import torch
from diffusers.modular_pipelines.minimax_music3 import encoders
from diffusers.modular_pipelines.modular_pipeline import PipelineState
from upstream_bench import ARITHMETIC, BF16, F32, WARM_UP, Bench, describe

GUIDANCE_ROWS = 2
CAPTION = "A gentle folk song with acoustic guitar, soft drums and a warm female voice"
LYRICS = "[verse]\nRain on the window, tea going cold\n[chorus]\nStay for a little, the night is not old"
PROMPT_TOKENS, CONTEXTS, FRAMES = 512, (512, 2000), 50
# dtype, products, latents, then rows per forward and forwards. Guidance runs the transformer once per row: (1, 2).
# (2, 1) is what both rows in one forward take.
PAIR = ((1, 2), (2, 1))
DIT_FORMS = [
    (F32, "strict", 688, PAIR),
    (F32, "strict", 86, ((1, 1),)),
    (F32, "tf32", 688, PAIR),
    (BF16, "strict", 688, PAIR),
]
# One row of each on a CPU, where a song takes hours: 87 and 345 tokens, as the time is a token too.
CPU_DIT_FORMS = [(F32, "strict", latents, ((1, 1),)) for latents in (86, 344)]


def run_loop(bench, depth_decoder, prompt_tokens, frames, patches):
    """Upstream's autoregressive step over random ids, for `frames` frames and the one that it does not emit."""
    language_model = bench.parts["language_model", BF16]
    components = SimpleNamespace(language_model=language_model, rvq_depth_decoder=depth_decoder, frame_rate=1.0)
    state = PipelineState()
    vocab_size = bench.configs["language_model"]["vocab_size"]
    state.set("text_ids", torch.randint(vocab_size, (GUIDANCE_ROWS, prompt_tokens), device=bench.device))
    state.set("audio_duration", float(frames))
    state.set("generator", bench.generator())
    with contextlib.ExitStack() as stack:
        for name, replacement in patches.items():
            stack.enter_context(patch.object(encoders, name, replacement))
        encoders.MiniMaxMusic3AutoregressiveStep()(components, state)
    made = state.get("frame_hiddens").shape[1]
    if made != frames:
        raise ValueError(f"the loop made {made} frames, expected {frames}")


class StepClock:
    """Takes the depth decoder's place in the loop: ends a step's time, puts the cache back, begins the next."""

    def __init__(self, bench, context):
        self.bench = bench
        self.context = context
        self.seconds = []
        self.start = None
        self.filled = None
        self.caches = []

    def depth_codes(self, language_model, _depth_decoder, last_hidden, semantic_code, _generator):
        self.bench.wait()
        if self.start is not None:
            self.seconds.append(time.perf_counter() - self.start)
        cache = self.caches[-1]
        if self.filled is None:
            self.filled = [(layer.keys, layer.values) for layer in cache.layers]
        # A step concatenates into new tensors, so those of the prompt are still as they were.
        for layer, (keys, values) in zip(cache.layers, self.filled, strict=True):
            layer.keys, layer.values = keys, values
        assert cache.get_seq_length() == self.context
        self.bench.wait()
        self.start = time.perf_counter()
        return semantic_code[:, None], last_hidden[:1, :0]

    def keep_cache(self, _module, _inputs, output):
        self.caches = [output.past_key_values]


def lm(bench):
    (language_model,) = bench.take(("language_model", BF16))
    hidden_size = language_model.config.hidden_size
    for context in CONTEXTS:
        feedback = bench.normal(GUIDANCE_ROWS, 1, hidden_size, dtype=BF16)
        clock = StepClock(bench, context)
        hook = language_model.model.register_forward_hook(clock.keep_cache)
        patches = {"_generate_depth_codes": clock.depth_codes, "_embed_audio_frame": lambda *_: feedback}
        bench.forget_peak()
        run_loop(bench, SimpleNamespace(), context, bench.options.warm_up + bench.options.repeat, patches)
        hook.remove()
        attention = language_model.config._attn_implementation
        bench.report("lm", BF16, clock.seconds[bench.options.warm_up :], rows=GUIDANCE_ROWS, context=context, attention=attention)


def prefill(bench):
    (language_model,) = bench.take(("language_model", BF16))
    embeds = bench.normal(GUIDANCE_ROWS, PROMPT_TOKENS, language_model.config.hidden_size, dtype=BF16)
    call = lambda: language_model.model(inputs_embeds=embeds, use_cache=True).last_hidden_state
    bench.measure("prefill", BF16, call, rows=GUIDANCE_ROWS, tokens=PROMPT_TOKENS)


def frame(bench):
    """Frames of the real loop. Upstream waits for each semantic code, so the times between them are whole frames."""
    _, depth_decoder = bench.take(("language_model", BF16), ("rvq_depth_decoder", BF16))
    marks = []
    generate = encoders._generate_depth_codes

    def marked(*arguments):
        marks.append(time.perf_counter())
        return generate(*arguments)

    bench.forget_peak()
    run_loop(bench, depth_decoder, PROMPT_TOKENS, bench.options.warm_up + FRAMES, {"_generate_depth_codes": marked})
    seconds = [end - start for start, end in zip(marks[:-1], marks[1:])][bench.options.warm_up :]
    bench.report("frame", BF16, seconds, rows=GUIDANCE_ROWS, prompt_tokens=PROMPT_TOKENS)


def depth(bench):
    embedding, depth_decoder = bench.take(("embedding", BF16), ("rvq_depth_decoder", BF16))
    last_hidden = bench.normal(GUIDANCE_ROWS, depth_decoder.config.hidden_size, dtype=BF16)
    semantic_code = torch.tensor([7, 7], device=bench.device)
    generator = bench.generator()
    call = lambda: encoders._generate_depth_codes(embedding, depth_decoder, last_hidden, semantic_code, generator)[1]
    bench.measure("depth", BF16, call, rows=GUIDANCE_ROWS, steps=depth_decoder.config.num_codebooks - 1)


def dit(bench):
    for dtype, products, latents, ways in CPU_DIT_FORMS if bench.device.type == "cpu" else DIT_FORMS:
        for rows, calls in ways:
            dit_form(bench, dtype, products, latents, rows, calls)


def dit_form(bench, dtype, products, latents, rows, calls):
    (transformer,) = bench.take(("transformer", dtype))
    noise = bench.normal(rows, transformer.config.in_channels, latents, dtype=dtype)
    condition = bench.normal(rows, latents, transformer.config.condition_dim, dtype=dtype)
    timestep = torch.full((rows,), 0.5, device=bench.device, dtype=dtype)

    def call():
        for _ in range(calls):
            output = transformer(noise, timestep, condition, return_dict=False)[0]
        return output

    about = {"products": products} if dtype == F32 else {}
    with ARITHMETIC[products]():
        bench.measure("dit", dtype, call, rows=rows * calls, forwards=calls, latents=latents, **about)


def vocoder(bench, latents=344):
    (module,) = bench.take(("vocoder", F32))
    given = bench.normal(1, module.config.latent_channels, latents, dtype=F32)
    for arithmetic, setting in ARITHMETIC.items():
        if bench.device.type == "cpu" and arithmetic != "strict":
            continue
        with setting():
            bench.measure("vocoder", F32, lambda: module(given), rows=1, latents=latents, products=arithmetic)


# In an order in which the language model is built once.
ROWS = {row.__name__: row for row in (prefill, lm, frame, depth, dit, vocoder)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = ", ".join(ROWS)
    parser.add_argument("row", nargs="*", metavar="ROW", help=f"{names} (default: these), song (needs --model)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dims", choices=("published", "tiny"), default="published")
    parser.add_argument("--repeat", type=int, default=20, metavar="N", help="timed calls (default 20)")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, metavar="N", help=f"calls before (default {WARM_UP})")
    parser.add_argument("--threads", type=int, metavar="N", help="torch's threads (default: torch's own choice)")
    parser.add_argument("--generator", choices=("cpu", "device"), default="cpu", help="where codes are drawn")
    parser.add_argument("--json", metavar="OUT", help="also write everything there")
    parser.add_argument("--model", metavar="DIR", help="song: checkpoint folder in the diffusers layout")
    parser.add_argument("--draw", action="store_true", help="song: of DIR only the tokenizer and the scheduler")
    parser.add_argument("--seconds", type=float, default=10.0, help="song: length at most")
    parser.add_argument("--steps", type=int, default=30, help="song: steps of the flow per window")
    parser.add_argument("--precisions", nargs="+", choices=("bf16", "mixed"), default=("bf16", "mixed"), help="song: which")
    parser.add_argument("--songs", type=int, default=3, metavar="N", help="song: timed runs (default 3)")
    parser.add_argument("--prompt", default=CAPTION, help="song: caption (default: the demo's)")
    parser.add_argument("--lyrics", default=LYRICS, help="song: lyrics (default: the demo's)")
    options = parser.parse_args()
    unknown = sorted(set(options.row) - {*ROWS, "song"})
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are {names} and song")
    if "song" in options.row and not options.model:
        parser.error("song needs --model DIR")
    if min(options.repeat, options.songs, options.warm_up) < 1 or (options.threads or 1) < 1:
        parser.error("--repeat, --songs, --warm-up and --threads must be at least 1")
    return options


def main():
    options = arguments()
    if options.threads:
        torch.set_num_threads(options.threads)
    bench = Bench(options)
    if bench.device.type == "cuda":
        torch.cuda.init()
    torch.manual_seed(0)
    print(json.dumps(describe(options, bench.device)), flush=True)
    for name, measure in ROWS.items():
        if name in (options.row or ROWS):
            with torch.inference_mode():
                measure(bench)
    if "song" in options.row:
        from upstream_song import song

        song(bench)


if __name__ == "__main__":
    main()
