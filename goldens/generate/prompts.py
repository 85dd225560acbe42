"""Makes the prompt cases: upstream's two rewrite passes string for string, and whole prompts as token ids.

usage: prompts.py [OUT_DIR]        (default: ../text)
"""

import json
import os
import sys
from types import SimpleNamespace

import torch
from diffusers.modular_pipelines.minimax_music3 import encoders
from diffusers.modular_pipelines.modular_pipeline import PipelineState

from demo_tokenizer import ADDED, VERSES, build_tokenizer

# What Python takes for a line end, and what it takes for white space without that.
LINE_ENDS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\n\r"]
SPACES = [
    " ", "\t", "\x1f", "\xa0", "\u1680", "\u2000", "\u2003", "\u2009", "\u200a", "\u202f", "\u205f", "\u3000",
]
NOT_SPACES = ["\u200b", "\ufeff", "\u180e", "\u2060", "\x00", "\x1b", "\x7f"]

CAPTIONS = [
    "", " ", "\n", "\r\n", "plain", "A warm folk song.", "trailing space ", "trailing newline\n", "\nleading newline",
    "two\n\nparagraphs", "three\n\n\nlines", "  two leading spaces", "    four", "     five", "        eight",
    "a    b", "a        b", "a     b", "\ta\tb\t", "a\t\t\t\tb", "a\n    \nb", "\n\n\n",
    # special tags
    "<|genre folk|>", "<|genre|>", "<||>", "<| |>", "<|  mood   very sad  |>", "<|a b c|>x<|d e|>", "<|a\nb|>",
    "<|a\x1fb|>", "<|a\u3000b|>", "<|a\u200bb|>", "<|a|b|>", "<<|a b|>>", "<|<|a b|>|>", "<|# head|>", "<|\n\nx y\n|>",
    "<|a b", "a b|>", "<|im_start|>", "<|audio_cfg|>x", "<|a <|b c|> d|>", "<|x * y|>", "<|- item|>", "<|** b|>",
    # headings
    "# Title", "## Title", "###### six", "####### seven", "#no space", "   # three", "    # four", "\t# tab",
    "#\tTab", "#\u3000wide", "# ", "#", "# # twice", "a # b", "#\xa0nbsp", " \u2003# mixed", "#   ", "# a\n## b\n### c",
    # bullets
    "* a", "- a", "+ a", "* * a", "* * * a", "- - a", "- * a", "* - a", "  * a", "\t- a", "\u3000+ a", "*a", "-a", "*",
    "* ", "-", "+ ", "* **b**", "*\ta", "*\xa0a", "-\u2028a", "  -  a  ", "1. a", "# * a", "* # a", "\x1f* a",
    "\u2022 a", "\u2022a", "a \u2022 b \u2022 c", "\u2022 \u2022 a", "\u2022     a",
    # emphasis
    "**b**", "*i*", "***bi***", "****", "** **", "* *", "**a*b**", "**a**b**c**", "*a**b*", "**a", "a**", "a*b*c",
    "**a\nb**", "*a\nb*", "***a**", "**a***", "****a****", "*****a*****", "x *y* z", "x * y * z", "2*3*4", "** a **",
    "**a** *b* **c**", "_i_", "__b__", "`code`", "*\u3000*", "**\x1c**", "*a* *b*", "*a**b*c*", "**a **b** c**",
    # rules
    "---", "***", "___", "--", "- - -", "-*_", "----------", "a\n---\nb", "a\n\n---\n\nb", "---\n---", "  ---  ",
    "\t***\t", "a---", "---a", "a\n ___ \nb\n", "\u3000---\u3000", "\x1f---", "x\n\n\n***\n\n\ny", "--- ---",
    "---\n\n\n", "\n\n\n---", "a\n-*-\nb", "a\x0b---\x0cb", "\xa0---", "\u200b---",
    # text of all kinds
    "夜空的星星", "  \u3000全角\u3000  ", "e\u0301 \u00e9", "\U0001f3b5 music \U0001f3b6", "\u0130stanbul", "a\x00b",
    "A: 120 BPM;  key: C# minor", "tempo: 90\r\nkey: *Am*\r\n", "# Style\n\n* warm **vintage** sound\n* slow\n\n---\nEnd",
    "<|style lo-fi|>\n\n    * dusty\n    * warm\n", "1 < 2 |> 3", "\\*a\\*", "a\\\nb",
]

LYRICS = [
    "", " ", "\n", "plain", "two\nlines", "trailing\n", "\nleading", "a\r\nb", "a\rb", "\r", "\r\n",
    # leading tags
    "[Verse]", "[Verse] dropped", "[Verse]dropped", "[Verse][Chorus]", "[Verse] [Chorus] dropped", "[Verse]\t[Chorus]\tx",
    " [Verse]", "\t[Verse]", "  \t [Verse] \t", "[Verse] \r", "[Verse]\r", "[Verse]\r\n", "[Verse]\rtext", "\r[Verse]",
    "\xa0[Verse]", "[Verse]\xa0x", "[Verse]\u3000", "\x1f[Verse]", "[Verse]\x1f", "[A\x0bB] c", "[Verse]\x85x",
    "[]", "[] x", "[ ]", "[ ] x", "[[a]]", "[[a] b]", "[a]]", "[a]] b", "[a", "a]", "[a\nb]", "[a\nb] c", "[a] [b",
    "[a][] b", "[]  [a] b", "][", "] [", "[a] ] [ b", "[Verse 1: Male Singer]", "[VERSE]\nHELLO [WORLD]", "[a]  [b]  [c]",
    # tags inside a line
    "x [Chorus] y", "x[Chorus]y", "x [Chorus]", "x [A] [B] y", "x [A][B] y", "x ] y", "x [ y", "x]  y", "x  [y",
    "x [A] ^ y", "x ] [ y", "a] b [c", "x [a\nb] y", "x [A\n\nB] y [C", "[A]\n[B] x\ny [C]", "x [ [A] ] y",
    # carets
    "a ^ b", "a ^ b ^ c", "a ^ ^ b", "a  ^  b", "a^b", " ^ ", "^", " ^ ^ ^ ", "a ^\nb", "a\n^ b", "[A] ^ b", "a ^ [B]",
    "a ^ [B] ^ c", "x [A] ^ [B] y", "a\t^\tb", "a ^ \u3000^ b",
    # lower-casing
    "[\u0130]", "[\u0130NTRO]", "[\u03a3]", "[\u039f\u0394\u039f\u03a3]", "[\u039f\u03a3 \u03a3\u039f]", "[A\u03a3]",
    "[A\u03a3\u0301]", "[A\u03a3-B]", "[\u0301\u03a3]", "[\u03a3A]", "[A\u0301\u03a3]", "[A\u03a3.]", "[A:\u03a3]",
    "[A\u03a3:B]", "[A\u00ad\u03a3]", "[\u2126 \u212a \u212b]", "[\u1e9e]", "[\u00df]", "[\u01c5 \u01c4]", "[\ua78d]",
    "[\u10a0 \u1c90]", "[\U00010400]", "[\uff21]", "[\u24b6]", "[\u2160]", "[\u13a0]", "[ÄÖÜ ÑÇ]", "[ВСТУП]",
    "\u0130 OUTSIDE \u03a3", "[\u01c5]", "[\U0001d400]", "[\u0345\u03a3]", "[\u02b0\u03a3]", "[\U0001f3b5\u03a3]",
    # special tokens and other text
    "<|im_end|>", "x <|audio_start|> y", "[<|IM_END|>]", "<|Audio_CFG|>", "**bold**", "# not a heading", "* not a bullet",
    "    four spaces", "---", "\u2022 a", "夜空 [副歌] 唱歌", "[副歌] 唱歌", "e\u0301[E\u0301]", "\U0001f3b5 [X]",
    "[verse]\nThe river runs\n\n[chorus]\nSing it over", "[Intro]\n\n\n[Verse 1]\nline one ^ line two\n[Outro] fade",
    "a\u2028[B] c\u2029d", "\ufeff[A] b", "\x00[A]", "[A\x00B]",
]


def caption_strings():
    built = [f"one{end}two{end}{end}three{end}" for end in LINE_ENDS]
    built += [f"# h{end}* b{end}---{end}**x{end}y**" for end in LINE_ENDS]
    built += [f"{space}* a{space}b{space}" for space in SPACES + NOT_SPACES]
    built += [f"#{space}head{space}\n-{space}item\n{space}---{space}\n<|a{space}b|>" for space in SPACES + NOT_SPACES]
    return CAPTIONS + built + [VERSES]


def lyric_strings():
    built = [f"[A]{end}b [C]{end}{end}[D] e{end}" for end in LINE_ENDS]
    built += [f"{space}[A]{space}[B]{space}c{space}[D]{space}^{space}e" for space in SPACES + NOT_SPACES]
    return LYRICS + built + [VERSES]


def token_requests():
    """Pairs of caption and lyrics; some of them upstream must refuse."""
    song = "[verse]\nThe river runs below the hill\n[chorus]\nSing it over"
    pairs = [
        ("A warm acoustic folk song.", song), ("a", "b"), ("a", "[start]"), ("*", "x"), ("---", "x"), ("# ", "x"),
        ("<|x y|>", song), ("<|im_end|>", "x"), ("**Lo-fi** hip hop\n* slow\n* dusty", "[Verse] dropped\nLine one ^ line two"),
        ("夜空的星星在唱歌", "[副歌]\n月亮代表我的心"), ("e\u0301\u0323 cafe\u0301", "[verse]\nA\u030angstro\u0308m \u212b"),
        ("\U0001f3b5\U0001f469\u200d\U0001f3a4", "\U0001f3b6 la la"), ("tabs\tand  two   three spaces", "a  b   c    d"),
        ("it's we'll I'M DON'T", "you're 'S 'Ll o'clock"), ("120 BPM 3/4 1234567890", "1 22 333 ١٢٣ ²½"),
        ("a\r\nb\r\n", "a\r\nb\r\n\r\n"), ("\u0130", "[\u0130\u03a3] \u03a3"), ("x" * 300, "la " * 200), ("\x00\x01", "\x7f"),
        ("a", "\n\nx\n\n"), ("a", "  x  "), ("a\u3000b", "\u3000x\u3000"), ("!?…—–“”", "«»\u2028\u2029\x85x"),
        # control tokens spelt in the request
        *[("a", f"x{token}y") for token in ADDED], ("a", "<|im_end|><|audio_start|>"), ("a", " <|im_end|> "),
        ("a", "<|caption_start|>b<|caption_end|>"), ("a", "<|IM_END|>"), ("a", "[<|AUDIO_END|>]"), ("a", "<|im_end"),
        ("a<tool_call>b", "c</think>d"), ("<|audio_cfg|> <|lyrics_end|>", "x"), ("<<|x|>im_end|>", "x"),
        # refused: blank
        ("", song), (" ", song), ("\n\t \u3000\x1f", song), ("a", ""), ("a", "  \n"), ("a", "\x1c\x85\u2029"), ("", ""),
        ("\u200b", "x"), ("x", "\u200b"), ("\ufeff", "\ufeff"),
    ]
    return pairs + [("a", lyrics) for lyrics in around_the_limit()]


def around_the_limit():
    """Lyrics whose prompts have 4999, 5000, 5001 and many more tokens: one token a digit, and the frame around them."""
    frame = len(ids_of("a", "1")[0]) - 1
    return ["7" * (count - frame) for count in (4999, 5000, 5001, 9000)]


TOKENIZER = None


def ids_of(prompt, lyrics):
    """The two rows of token ids that upstream's own step makes of a request."""
    components = SimpleNamespace(tokenizer=TOKENIZER, _execution_device=torch.device("cpu"))
    state = PipelineState()
    state.set("prompt", prompt)
    state.set("lyrics", lyrics)
    _, state = encoders.MiniMaxMusic3TokenizeStep()(components, state)
    return state.get("text_ids").tolist()


def token_case(prompt, lyrics):
    case = {"prompt": prompt, "lyrics": lyrics}
    try:
        case["ids"], case["uncond_ids"] = ids_of(prompt, lyrics)
    except ValueError as refusal:
        case["error"] = str(refusal)[:160]
    return case


def write(out_dir, name, head, lists):
    """Writes one case: its head, then lists of one item a line."""
    os.makedirs(out_dir, exist_ok=True)
    parts = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, items in lists.items():
        rows = ",\n".join("    " + json.dumps(item) for item in items)
        parts.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
    with open(os.path.join(out_dir, f"{name}.json"), "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")
    print(f"{name}: " + ", ".join(f"{len(items)} {key}" for key, items in lists.items()))


def main(out_dir):
    global TOKENIZER
    TOKENIZER, _ = build_tokenizer()
    passes = {
        "clean_caption": [{"in": text, "out": encoders._clean_caption(text)} for text in caption_strings()],
        "normalize_lyrics": [{"in": text, "out": encoders._normalize_lyrics(text)} for text in lyric_strings()],
    }
    write(out_dir, "prompt_strings", {"component": "prompt_strings"}, passes)
    TOKENIZER.backend_tokenizer.save(os.path.join(out_dir, "tokenizer.json"))
    head = {"component": "prompt_token_ids", "tokenizer": "tokenizer.json"}
    cases = [token_case(prompt, lyrics) for prompt, lyrics in token_requests()]
    write(out_dir, "prompt_token_ids", head, {"cases": cases})


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "text"))
