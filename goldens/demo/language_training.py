"""Trains the language model, the depth decoder and the condition encoder to draw the tunes' codes.

Both rows of guidance are trained, and so is what guidance makes of them. The rows that no prompt and no code names are
left out while training; they stay zero. The logits are divided before the cross entropy, so that it asks for margins
that no sampling and no rounding to bf16 gets over. What the hidden states say of a frame's latents is trained too: the
condition encoder has to read them.
"""

import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from diffusers import MiniMaxMusic3ConditionEncoder, MiniMaxMusic3RVQDepthDecoder
from diffusers.modular_pipelines.minimax_music3 import encoders
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from codes import CODEBOOKS, LATENTS_PER_FRAME

HIDDEN, AUDIO_VOCAB, CONDITION_DIM = 64, 80, LATENTS_PER_FRAME * 16
FIRST_SPECIAL, FIRST_CODE, AUDIO_END, AUDIO_CFG = 151_643, 151_675, 151_670, 151_654
SEMANTIC_CODES, GUIDANCE = 16_384, 1.5
LANGUAGE_MODEL = dict(
    vocab_size=200_000, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=10_240, rms_norm_eps=1e-6, tie_word_embeddings=False,
    attention_bias=False, rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
    bos_token_id=151643, eos_token_id=151645,
)
DEPTH_DECODER = dict(
    hidden_size=HIDDEN, num_layers=2, num_attention_heads=2, intermediate_size=96, audio_vocab_size=AUDIO_VOCAB,
    num_codebooks=CODEBOOKS + 1, max_position_embeddings=16,
)
CONDITION_ENCODER = dict(condition_hidden_dim=HIDDEN, num_condition_layers=CODEBOOKS + 1, out_dim=CONDITION_DIM)
STEPS, STRANGERS, DEPTH_PAIRS = 900, 2, 2
SOFTENED, HIDDEN_NOISE = 4.0, 0.02


def prompt_ids(tokenizer, caption, lyrics):
    """The conditional row's token ids, put together by upstream's own step."""
    text = (
        f"{encoders._IM_START}{encoders._CAPTION_START}{encoders._clean_caption(caption)}{encoders._CAPTION_END}"
        f"{encoders._LYRICS_START}{encoders._normalize_lyrics(lyrics)}{encoders._LYRICS_END}"
        f"{encoders._IM_END}{encoders._AUDIO_START}"
    )
    return tokenizer(text, return_tensors="pt")["input_ids"][0]


def unconditional(ids):
    ids = ids.clone()
    ids[1:-2] = AUDIO_CFG
    return ids


class Rows:
    """Where the rows that are used lie: text tokens, added tokens, then the semantic codes of the tunes."""

    def __init__(self, text_tokens, codes):
        semantic = torch.cat([tune[:, 0] for tune in codes])
        added = torch.arange(FIRST_SPECIAL, FIRST_CODE)
        self.ids = torch.cat((torch.arange(text_tokens), added, semantic + FIRST_CODE))
        self.text_tokens = text_tokens
        # What can be drawn: the semantic codes, then the end.
        self.first_code = text_tokens + len(added)
        self.drawable = torch.cat((torch.arange(self.first_code, len(self.ids)), self.of(torch.tensor([AUDIO_END]))))
        self.unused_codes = SEMANTIC_CODES - len(semantic)

    def of(self, ids):
        return torch.searchsorted(self.ids.to(ids.device), ids)


@dataclass
class Batch:
    """Pairs of rows, conditional then unconditional: prompts, then the codes of the tune that follows."""

    tokens: torch.Tensor
    starts: torch.Tensor
    tunes: torch.Tensor


class Models(nn.Module):
    """The three components, the language model with only the rows that are used."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.language_model = Qwen3ForCausalLM(Qwen3Config(**(LANGUAGE_MODEL | {"vocab_size": len(rows.ids)}))).float()
        self.depth = MiniMaxMusic3RVQDepthDecoder(**DEPTH_DECODER)
        self.condition = MiniMaxMusic3ConditionEncoder(**CONDITION_ENCODER)
        for table in (self.language_model.model.embed_tokens, self.depth.audio_embeddings, self.depth.pos_embedding):
            nn.init.normal_(table.weight, std=0.7)

    def frame_embeddings(self, codes):
        """What the language model is fed after a frame; codes [..., 8]."""
        semantic = self.language_model.model.embed_tokens(self.code_rows(codes))
        offsets = torch.arange(CODEBOOKS, device=codes.device) * AUDIO_VOCAB
        residual = self.depth.audio_embeddings(codes[..., 1:] + offsets)
        return (semantic + residual.sum(dim=-2)) * (CODEBOOKS + 1) ** -0.5

    def code_rows(self, codes):
        return self.rows.of(codes[..., 0] + FIRST_CODE)

    def hidden_states(self, batch, codes):
        """The states [rows, steps + 1, hidden] from which each step's code, and at last the end, is drawn."""
        steps = codes.shape[1]
        embedded = self.language_model.model.embed_tokens(batch.tokens)
        length = int(batch.starts.max()) + steps
        inputs = F.pad(embedded, (0, 0, 0, length - embedded.shape[1]))
        where = batch.starts[:, None] + torch.arange(steps, device=codes.device)
        inputs = inputs.scatter(1, where[..., None].expand(-1, -1, HIDDEN), self.frame_embeddings(codes))
        states = self.language_model.model(inputs_embeds=inputs, use_cache=False).last_hidden_state
        where = batch.starts[:, None] - 1 + torch.arange(steps + 1, device=codes.device)
        return states.gather(1, where[..., None].expand(-1, -1, HIDDEN))

    def depth_states(self, states, codes):
        """The depth decoder's seven states [rows, steps, 7, hidden] of every step."""
        semantic = self.language_model.model.embed_tokens(self.code_rows(codes))
        offsets = torch.arange(CODEBOOKS - 1, device=codes.device) * AUDIO_VOCAB
        residual = self.depth.audio_embeddings(codes[..., 1:-1] + offsets)
        sequence = torch.cat((states[:, :, None], semantic[:, :, None], residual), dim=2)
        rows, steps = sequence.shape[:2]
        return self.depth(self.depth.projection(sequence).flatten(0, 1)).unflatten(0, (rows, steps))[:, :, 1:]


def guided(logits):
    """Logits of [pair, row, ...]: the conditional row's, the unconditional row's and what guidance makes of them."""
    conditional, other = logits[:, 0], logits[:, 1]
    return torch.stack((conditional, other, other + GUIDANCE * (conditional - other)), dim=1)


def margin_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, -2) / SOFTENED, targets.flatten(0, -2))


class Teacher:
    """Draws batches and computes losses."""

    def __init__(self, rows, prompts, codes, frames, device):
        self.rows, self.prompts, self.device = rows, prompts, device
        self.codes = torch.stack(codes).to(device)
        self.frames = [(frame.values.to(device), frame.present.to(device)) for frame in frames]
        self.generator = torch.Generator().manual_seed(4)

    def draw(self, *shape, below):
        return torch.randint(below, shape, generator=self.generator)

    def batch(self):
        """Every tune's own prompt, and some that belong to none and may begin any tune."""
        prompts = list(self.prompts)
        for _ in range(STRANGERS):
            words = self.draw(int(self.draw(below=60)) + 4, below=self.rows.text_tokens)
            prompts.append(torch.cat((prompts[0][:2], words, prompts[0][-3:])))
        strangers = self.draw(STRANGERS, below=len(self.codes))
        tunes = torch.cat((torch.arange(len(self.codes)), strangers))
        pairs = [row for ids in prompts for row in (ids, unconditional(ids))]
        starts = torch.tensor([len(ids) for ids in pairs])
        padded = nn.utils.rnn.pad_sequence([self.rows.of(ids) for ids in pairs], batch_first=True)
        return Batch(padded.to(self.device), starts.to(self.device), tunes.to(self.device))

    def targets(self, tunes):
        """Shares [pair, conditional | unconditional | guided, steps + 1, drawable] of what is to be drawn."""
        own, steps = self.codes[tunes], self.codes.shape[1]
        wanted = self.rows.of(own[..., 0].cpu() + FIRST_CODE) - self.rows.first_code
        wanted = F.pad(wanted, (0, 1), value=len(self.rows.drawable) - 1)
        shares = F.one_hot(wanted, len(self.rows.drawable) + 1).float()[:, None].repeat(1, 3, 1, 1)
        # Any tune may follow where the prompt names none.
        first = torch.zeros(len(self.rows.drawable) + 1)
        first[torch.arange(len(self.codes)) * steps] = 1.0 / len(self.codes)
        shares[:, 1, 0] = first
        shares[len(self.codes) :, :, 0] = first
        return shares.to(self.device)

    def losses(self, models):
        batch = self.batch()
        codes = self.codes[batch.tunes].repeat_interleave(2, dim=0)
        states = models.hidden_states(batch, codes)
        logits = states @ models.language_model.lm_head.weight[self.rows.drawable.to(self.device)].T
        # All codes that no tune has stand for one candidate, at zero.
        unused = torch.full_like(logits[..., :1], SOFTENED * torch.tensor(self.rows.unused_codes).log().item())
        logits = torch.cat((logits, unused), dim=-1).unflatten(0, (-1, 2))
        drawn = margin_loss(guided(logits), self.targets(batch.tunes))
        pairs = torch.randperm(len(batch.tunes), generator=self.generator)[:DEPTH_PAIRS].to(self.device)
        picked = lambda value: value.unflatten(0, (-1, 2))[pairs]
        states, codes = picked(states[:, :-1]), picked(codes)
        depth = models.depth_states(states.flatten(0, 1), codes.flatten(0, 1)).unflatten(0, (-1, 2))
        residual = 0.0
        for index, head in enumerate(models.depth.audio_heads):
            logits = guided(head(depth[..., index, :]))
            targets = F.one_hot(codes[:, :1, :, index + 1], AUDIO_VOCAB).float().expand(-1, 3, -1, -1)
            residual = residual + margin_loss(logits, targets) / CODEBOOKS
        condition = self.condition_loss(models, states[:, 0], depth[:, 0], batch.tunes[pairs])
        return drawn, residual, condition

    def condition_loss(self, models, states, depth, tunes):
        """How far the condition, before it is resampled, is from the latents of each frame."""
        hidden = torch.cat((states[:, :, None], depth), dim=2)[:, 1:]
        hidden = hidden + HIDDEN_NOISE * torch.randn_like(hidden)
        encoder = models.condition
        mixed = torch.einsum("bflh,l->bhf", hidden, encoder.layer_weight_logits.softmax(dim=0))
        found = encoder.proj(encoder.layer_scale * mixed).transpose(1, 2)
        values, present = (torch.stack([self.frames[int(tune)][part] for tune in tunes]) for part in range(2))
        return ((found - values) * present).pow(2).sum() / present.sum()


def train_language(teacher, device, scale, progress):
    """The trained components, in f32."""
    torch.manual_seed(5)
    models = Models(teacher.rows).to(device).train()
    steps = round(STEPS * scale)
    optimizer = torch.optim.AdamW(models.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps, pct_start=0.1)
    started = time.time()
    for step in range(1, steps + 1):
        drawn, residual, condition = teacher.losses(models)
        optimizer.zero_grad()
        (drawn + residual + condition).backward()
        torch.nn.utils.clip_grad_norm_(models.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % progress == 0 or step == steps:
            values = f"semantic {drawn:.5f}, residual {residual:.5f}, condition {condition:.5f}"
            print(f"language {step}/{steps}: {values}, {time.time() - started:.0f} s", flush=True)
    return models.cpu().eval()


def full_language_model(models):
    """The language model with every row of the published vocabulary, in bf16."""
    full = Qwen3ForCausalLM(Qwen3Config(**LANGUAGE_MODEL)).float()
    trained = models.language_model.state_dict()
    for name, value in full.state_dict().items():
        if value.shape == trained[name].shape:
            value.copy_(trained[name])
        else:
            value.zero_()
            value[models.rows.ids] = trained[name]
    return full.to(torch.bfloat16).eval()
