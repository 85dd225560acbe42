"""Trains upstream's flow-matching transformer to make the tunes' latents from their conditions.

What the pipeline integrates is the guided velocity, so that is what is trained: the conditional and the unconditional
row together, as guidance combines them. The unconditional row alone is held to the mean of all that the noise could
become, as usual.
"""

import time

import torch
import torch.nn.functional as F
from diffusers import MiniMaxMusic3Transformer1DModel

from language_training import CONDITION_DIM

TRANSFORMER = dict(
    in_channels=16, condition_dim=CONDITION_DIM, num_layers=3, num_attention_heads=4, attention_head_dim=24,
    ff_inner_dim=128, rotary_dim=16, fourier_embedding_dim=16,
)
GUIDANCE = 1.7
STEPS, BATCH, CROP, WHOLE_SHARE = 3000, 4, 120, 0.1
CONDITION_NOISE, SHARPNESS = 0.01, 6.0


def crops(tunes, length, generator):
    """Latents [batch, channels, length] and conditions [batch, length, dim] of stretches, tune by tune in turn."""
    latents, conditions = [], []
    for index in range(BATCH):
        condition, latent = tunes[index % len(tunes)]
        start = int(torch.randint(latent.shape[1] - length + 1, (), generator=generator))
        latents.append(latent[:, start : start + length])
        variant = condition[int(torch.randint(len(condition), (), generator=generator))]
        conditions.append(variant[start : start + length])
    return torch.stack(latents), torch.stack(conditions)


def look_back(model):
    """Makes three heads of the first block begin by looking one, two and three latents back, whatever is there.

    A condition is the same for the three or four latents of a frame, and only their neighbours tell which is which. One
    channel after the first norm is held at 1 for it; queries and keys are made from that channel, turned by rotary
    embedding until they meet at the right distance. All of it goes on being trained.
    """
    block, half = model.transformer_blocks[0], TRANSFORMER["rotary_dim"] // 2
    block.norm1.weight.data[0], block.norm1.bias.data[0] = 0.0, 1.0
    frequencies = 1.0 / model.rotary_emb.theta ** (torch.arange(half) / half)
    for distance in (1, 2, 3):
        first = (distance - 1) * TRANSFORMER["attention_head_dim"]
        query, key = (layer.weight.data[first : first + 2 * half] for layer in (block.attn.to_q, block.attn.to_k))
        turned = -distance * frequencies
        query.mul_(0.1)[:, 0] = SHARPNESS * torch.cat((turned.cos(), turned.sin()))
        key.mul_(0.1)[:, 0] = SHARPNESS * torch.cat((torch.ones(half), torch.zeros(half)))


def train_transformer(tunes, device, scale, progress):
    """The trained transformer; `tunes` holds conditions [variants, n, dim] and latents [16, n] of each tune."""
    torch.manual_seed(6)
    generator = torch.Generator().manual_seed(7)
    model = MiniMaxMusic3Transformer1DModel(**TRANSFORMER)
    look_back(model)
    model.to(device).train()
    steps = round(STEPS * scale)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    whole = min(latent.shape[1] for _, latent in tunes)
    started, recent = time.time(), []
    for step in range(1, steps + 1):
        # Stretches first, because they are quick; whole tunes at the end.
        latents, conditions = crops(tunes, whole if step > steps * (1 - WHOLE_SHARE) else CROP, generator)
        conditions = conditions + CONDITION_NOISE * torch.randn(conditions.shape, generator=generator)
        noise = torch.randn(latents.shape, generator=generator)
        time_values = torch.rand(len(latents), generator=generator)
        latents, conditions, noise, time_values = (
            value.to(device) for value in (latents, conditions, noise, time_values)
        )
        now = time_values[:, None, None]
        mixed, velocity = (1 - now) * noise + now * latents, latents - noise
        both = torch.cat((conditions, torch.zeros_like(conditions)))
        made = model(torch.cat((mixed, mixed)), time_values.repeat(2), both, return_dict=False)[0]
        conditional, other = made.chunk(2)
        guided = other + GUIDANCE * (conditional - other)
        right, usual = F.mse_loss(guided, velocity), F.mse_loss(other, velocity)
        optimizer.zero_grad()
        (right + 0.2 * usual).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent.append((float(right.detach()), float(usual.detach())))
        if step % progress == 0 or step == steps:
            guided_mean, other_mean = (sum(values) / len(recent) for values in zip(*recent))
            recent = []
            print(f"transformer {step}/{steps}: guided {guided_mean:.4f}, unconditional {other_mean:.4f}, {time.time() - started:.0f} s", flush=True)
    return model.eval()
