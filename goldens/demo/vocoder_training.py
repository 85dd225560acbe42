"""Trains upstream's vocoder to make the tunes' samples from their latents."""

import time
import warnings

import torch
import torch.nn.functional as F
from diffusers import MiniMaxMusic3Vocoder

from tunes import HOP

VOCODER = dict(latent_channels=16, decoder_input_dim=24, decoder_hidden_dim=64, upsampling_ratios=(8, 8, 4, 2))
STEPS, BATCH, CROP, EDGE = 1200, 8, 32, 5
LATENT_NOISE = 0.03
WINDOWS = (256, 1024)


def new_vocoder():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return MiniMaxMusic3Vocoder(**VOCODER)


def crops(tunes, generator):
    """Crops of latents and samples, and the samples that count: a crop's own edges do not, a tune's do."""
    latents, samples, counts = [], [], []
    for _ in range(BATCH):
        wave, latent = tunes[int(torch.randint(len(tunes), (), generator=generator))]
        last = latent.shape[1] - CROP
        start = min(max(int(torch.randint(-EDGE, last + EDGE + 1, (), generator=generator)), 0), last)
        latents.append(latent[:, start : start + CROP])
        samples.append(wave[:, start * HOP : (start + CROP) * HOP])
        count = torch.zeros(CROP)
        count[0 if start == 0 else EDGE : CROP if start == last else CROP - EDGE] = 1.0
        counts.append(count.repeat_interleave(HOP))
    return torch.stack(latents), torch.stack(samples), torch.stack(counts)


def magnitude(samples, window):
    shape = torch.hann_window(window, device=samples.device)
    return torch.stft(samples, window, window // 4, window=shape, center=False, return_complex=True).abs()


def distance(made, wanted):
    """How far samples are from those wanted: their difference, and that of their spectra on a logarithmic scale."""
    made, wanted = made.flatten(0, 1), wanted.flatten(0, 1)
    loss = 10.0 * F.l1_loss(made, wanted) + 100.0 * F.mse_loss(made, wanted)
    for window in WINDOWS:
        ours, theirs = magnitude(made, window), magnitude(wanted, window)
        loss = loss + 0.5 * F.l1_loss(torch.log(ours + 0.02), torch.log(theirs + 0.02))
    return loss


def train_vocoder(tunes, device, scale, progress):
    """The trained vocoder; `tunes` holds samples [2, n] and latents [16, n / 512] of each tune."""
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(3)
    model = new_vocoder().to(device).train()
    steps = round(STEPS * scale)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.8, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps, pct_start=0.05)
    started = time.time()
    for step in range(1, steps + 1):
        latents, samples, counts = crops(tunes, generator)
        latents = latents + LATENT_NOISE * torch.randn(latents.shape, generator=generator)
        latents, samples, counts = (value.to(device) for value in (latents, samples, counts))
        made = model(latents)
        # What does not count is replaced by what is wanted: no loss, and no step in the waveform.
        counts = counts[:, None]
        loss = distance(made * counts + samples * (1 - counts), samples)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % progress == 0 or step == steps:
            error = ((made - samples) * counts).pow(2).sum() / (samples * counts).pow(2).sum()
            print(f"vocoder {step}/{steps}: loss {loss:.4f}, error {10 * torch.log10(error):.1f} dB, {time.time() - started:.0f} s", flush=True)
    return model.eval()
