"""Builds the demo checkpoint's tokenizer: byte-level pairs learnt from the verses below, under Qwen2's own rules.

Published checkpoints keep 32 added tokens at 151643 .. 151674; so does this one, and nothing lies between its few
hundred text tokens and those.
"""

import json

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

TEXT_TOKENS = 512
FIRST_ADDED = 151643
ADDED = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|audio_cfg|> <|image_pad|> <|video_pad|> "
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think> <|audio_start|> <|audio_end|> <|caption_start|> "
    "<|caption_end|> <|lyrics_start|> <|lyrics_end|>"
).split()

VERSES = """
A warm acoustic folk song with soft female vocals, fingerpicked guitar and slow brushed drums.
A fast electronic dance track, 128 BPM, bright synthesizer leads, a heavy bass line and a male rap verse.
An orchestral ballad in a minor key: strings, piano, a choir in the chorus, recorded in a large hall.
Lo-fi hip hop with dusty vinyl noise, mellow electric piano, jazz chords and no vocals at all.
[start]
[intro]
[verse]
The river runs below the hill, the morning light is cold and still,
and every boat that leaves the shore will carry what we were before.
I walked along the winding road, I took my song, I took my load,
the wind was singing in the wheat, the summer dust was on my feet.
[pre-chorus]
Oh, don't you know, the night is long, so lend me just another song.
[chorus]
Sing it over, sing it under, sing it louder than the thunder,
sing it till the stars are falling, sing until the day is calling.
We'll be dancing in the rain, we'll be coming home again,
you're the fire, I'm the flame, nothing ever stays the same.
[verse]
The city lights are burning low, there's nowhere left for us to go,
the radio is playing soft the tune we learned and then forgot.
I've been waiting by the window, I've been counting every shadow,
it's the echo of your laughter that I always follow after.
[bridge]
Hold on, hold on, the dawn is near, let go of every doubt and fear.
[instrumental]
[guitar solo]
[chorus]
Sing it over, sing it under, sing it louder than the thunder.
[outro]
La la la, na na na, ooh, the river runs, the river runs.
La lluvia cae sobre el mar, y la canción vuelve a empezar; für dich, für mich, die Nacht ist nicht so still.
Ô nuit d'été, la mer est belle, l'étoile brille et nous appelle.
夜空的星星在唱歌 我的心里有一首歌 月亮代表我的心 夜空的星星在唱歌
"""


def learnt_pairs():
    """The text tokens (token to id) and the merges that make them, learnt with Qwen2's normaliser and splitting."""
    rules = Qwen2Tokenizer()._tokenizer
    learner = Tokenizer(models.BPE())
    learner.normalizer, learner.pre_tokenizer = rules.normalizer, rules.pre_tokenizer
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=TEXT_TOKENS, initial_alphabet=alphabet, show_progress=False)
    learner.train_from_iterator([VERSES], trainer)
    model = json.loads(learner.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def build_tokenizer():
    """The tokenizer, and how many text tokens it has."""
    vocab, merges = learnt_pairs()
    text_tokens = len(vocab)
    # An added token that the model's own table does not hold would be numbered after the last text token.
    vocab |= {token: FIRST_ADDED + index for index, token in enumerate(ADDED)}
    tokenizer = Qwen2Tokenizer(vocab=vocab, merges=merges, model_max_length=131072)
    special = [token for token in ADDED if token.startswith("<|")]
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=token in special) for token in ADDED])
    for index, token in enumerate(ADDED):
        found = tokenizer.convert_tokens_to_ids(token)
        if found != FIRST_ADDED + index:
            raise ValueError(f"added token {token} got id {found}, expected {FIRST_ADDED + index}")
    return tokenizer, text_tokens
