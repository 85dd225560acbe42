"""The codes of the tunes: what the language model has to draw, one semantic code and seven residual codes a frame.

A semantic code says which moment of which tune a frame is. The residual codes quantise what the frame sounds like, each
the remainder that those before it left, as a codec's residual codes do.
"""

from dataclasses import dataclass

import torch

from tunes import TUNES

CODEBOOKS, CODES_PER_BOOK, STEPS_PER_TUNE = 7, 32, 256
LATENTS_PER_FRAME = 4


def frame_of_latent(frames, latents):
    """Which frame upstream's nearest resampling gives to each latent."""
    numbers = torch.arange(frames, dtype=torch.float32).view(1, 1, -1)
    return torch.nn.functional.interpolate(numbers, size=latents, mode="nearest").view(-1).long()


@dataclass
class FrameLatents:
    """The latents of a tune's frames: three or four each, side by side in `values` [frames, 4 * channels]; `present`
    is 0 where there is no fourth. `frame` and `place` say where each latent went.
    """

    values: torch.Tensor
    present: torch.Tensor
    frame: torch.Tensor
    place: torch.Tensor


def by_frame(latents, frames):
    """Sorts latents [channels, n] into frames."""
    channels, count = latents.shape
    frame = frame_of_latent(frames, count)
    first = torch.searchsorted(frame, torch.arange(frames))
    place = torch.arange(count) - first[frame]
    values, present = torch.zeros(frames, LATENTS_PER_FRAME, channels), torch.zeros(frames, LATENTS_PER_FRAME, channels)
    values[frame, place], present[frame, place] = latents.T, 1.0
    return FrameLatents(values.flatten(1), present.flatten(1), frame, place)


def nearest(points, centres):
    return torch.cdist(points, centres).argmin(dim=1)


def centres_of(points, generator):
    """k-means from points drawn at random; a centre that loses all its points stays where it is."""
    centres = points[torch.randperm(len(points), generator=generator)[:CODES_PER_BOOK]].clone()
    for _ in range(20):
        owner = nearest(points, centres)
        for index in range(CODES_PER_BOOK):
            if (owner == index).any():
                centres[index] = points[owner == index].mean(dim=0)
    return centres


def residual_codes(points):
    """Seven codes for every point [points, values]."""
    generator = torch.Generator().manual_seed(1)
    codes, rest = [], points
    for _ in range(CODEBOOKS):
        centres = centres_of(rest, generator)
        codes.append(nearest(rest, centres))
        rest = rest - centres[codes[-1]]
    return torch.stack(codes, dim=1)


def codes_of(frames):
    """The codes [steps, 8] of each tune, from its frames' latents: a step that is no frame, then the frames."""
    residual = residual_codes(torch.cat([frame.values for frame in frames])).split([len(f.values) for f in frames])
    tunes = []
    for index, codes in enumerate(residual):
        codes = torch.cat((codes[:1], codes))
        semantic = STEPS_PER_TUNE * index + torch.arange(len(codes))
        tunes.append(torch.cat((semantic[:, None], codes), dim=1))
    assert len(tunes) == len(TUNES)
    return tunes
