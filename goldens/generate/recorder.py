"""Notes what passes through upstream's pipeline while it runs, and hands recorded draws and noise back in.

Upstream's loops run as they are: the functions and modules that they call are wrapped.
"""

import contextlib

import torch
from diffusers.modular_pipelines.minimax_music3 import denoise, encoders

CODES_START, CODES_END = encoders._AUDIO_CODE_OFFSET, encoders._AUDIO_CODE_OFFSET + encoders._SEMANTIC_VOCAB_SIZE


class Recorder:
    """Notes what passes through upstream's functions; with `replay`, hands that run's draws and noise back in."""

    def __init__(self, pipeline, replay, kept):
        self.pipeline = pipeline
        self.kept = kept
        self.tensors = {}
        self.draws = []
        self.steps = {"lm_last_hidden": [], "guided": [], "depth_guided": []}
        self.window = -1
        self.step = 0
        self.overlaps = []
        self.forced = replay["sampled_flat"].tolist() if replay else None
        self.noise = replay

    @contextlib.contextmanager
    def attached(self):
        """Upstream with the wrappers in place."""
        pipeline = self.pipeline
        step = denoise.MiniMaxMusic3ChunkConditionStep
        patches = [
            (encoders, "_sample_top_k", self.sample(encoders._sample_top_k)),
            (denoise, "randn_tensor", self.randn(denoise.randn_tensor)),
            (step, "__call__", self.condition_step(step.__call__)),
            (pipeline.scheduler, "step", self.scheduler_step(pipeline.scheduler.step)),
        ]
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
        hooks = [
            pipeline.language_model.lm_head.register_forward_hook(self.head_hook),
            pipeline.condition_encoder.register_forward_hook(self.condition_hook),
            pipeline.vocoder.register_forward_hook(self.vocoder_hook),
        ]
        for owner, name, patch in patches:
            setattr(owner, name, patch)
        try:
            yield self
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)
            for hook in hooks:
                hook.remove()

    def head_hook(self, _module, inputs, output):
        index = len(self.steps["lm_last_hidden"])
        self.steps["lm_last_hidden"].append(inputs[0].clone())
        if index < self.kept.logits_steps:
            end = output[:, encoders._AUDIO_END_TOKEN_ID, None]
            rows = torch.cat((end, output[:, CODES_START:CODES_END]), dim=-1)
            self.tensors[f"lm_logits_end_and_codes_{index}"] = rows

    def sample(self, original):
        def sample_top_k(logits, generator):
            if logits.shape[-1] == self.pipeline.language_model.config.vocab_size:
                kept = torch.isfinite(logits[0]).nonzero()[:, 0]
                self.steps["guided"].append((kept, logits[0, kept]))
                self.steps["depth_guided"].append([])
            else:
                self.steps["depth_guided"][-1].append(logits[0].clone())
            if self.forced is None:
                drawn = original(logits, generator)
            else:
                drawn = torch.tensor([self.forced[len(self.draws)]], device=logits.device)
            self.draws.append(int(drawn.item()))
            return drawn

        return sample_top_k

    def condition_hook(self, _module, _inputs, output):
        self.window += 1
        self.step = 0
        # Upstream splices the previous window's condition into this tensor later.
        self.tensors[f"condition_raw_{self.window}"] = output.clone()

    def condition_step(self, original):
        def call(block, components, block_state, k):
            result = original(block, components, block_state, k=k)
            self.tensors[f"condition_{k}"] = block_state.condition.clone()
            self.overlaps.append(block_state.overlap)
            return result

        return call

    def randn(self, original):
        def randn_tensor(*args, **kwargs):
            key = f"noise_{self.window}"
            if self.forced is None:
                noise = original(*args, **kwargs)
            else:
                noise = self.noise[key].to(kwargs["device"], kwargs["dtype"], copy=True)
            # Upstream overwrites the overlap of its own tensor at every step.
            self.tensors[key] = noise.clone()
            return noise

        return randn_tensor

    def scheduler_step(self, original):
        def step(velocity, *args, **kwargs):
            result = original(velocity, *args, **kwargs)
            last = self.step + 1 == len(self.pipeline.scheduler.timesteps)
            if last or self.step % self.kept.every == 0:
                self.tensors[f"velocity_{self.window}_{self.step}"] = velocity.clone()
                self.tensors[f"latents_{self.window}_{self.step}"] = result[0].clone()
            self.step += 1
            return result

        return step

    def vocoder_hook(self, _module, _inputs, output):
        count = sum(name.startswith("waveform_") for name in self.tensors)
        self.tensors[f"waveform_{count}"] = output.clone()

    def finish(self, state):
        """Every tensor of the capture, now that the run is over."""
        tensors = self.tensors
        tensors["text_ids"] = state.get("text_ids")
        tensors["frame_hiddens"] = state.get("frame_hiddens")
        tensors["audios"] = state.get("audios")
        for index, latents in enumerate(state.get("latent_chunks")):
            tensors[f"latent_chunk_{index}"] = latents
        tensors["chunk_starts"] = torch.tensor(state.get("chunk_starts"))
        tensors["overlaps"] = torch.tensor(self.overlaps)
        tensors["timesteps"] = self.pipeline.scheduler.timesteps
        tensors["sigmas"] = self.pipeline.scheduler.sigmas
        tensors["sampled_flat"] = torch.tensor(self.draws)
        tensors["lm_last_hidden"] = torch.stack(self.steps["lm_last_hidden"])
        complete = [torch.stack(rows) for rows in self.steps["depth_guided"] if rows]
        tensors["depth_guided"] = torch.stack(complete)
        per_frame = 1 + complete[0].shape[0]
        codes = tensors["sampled_flat"][: len(complete) * per_frame].reshape(-1, per_frame).clone()
        codes[:, 0] -= CODES_START
        tensors["codes"] = codes
        width = max(len(ids) for ids, _ in self.steps["guided"])
        pad = lambda values: torch.nn.functional.pad(values, (0, width - len(values)), value=-1)
        tensors["guided_ids"] = torch.stack([pad(ids) for ids, _ in self.steps["guided"]])
        tensors["guided_vals"] = torch.stack([pad(values) for _, values in self.steps["guided"]])
        tensors["probe_exponential"] = probe_exponential()
        return {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}


def probe_exponential():
    """The first exponentials of seed 0: they tell whether this torch draws them through MKL."""
    return torch.empty(8).exponential_(1, generator=torch.Generator("cpu").manual_seed(0))
