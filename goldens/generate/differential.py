"""Random strings and what upstream's rewriting passes make of them.

Writes, under goldens/text/differential/:
  clean_caption.jsonl.gz, normalize_lyrics.jsonl.gz   one {"in", "out"} a line
  python_lower.json.gz                                str.lower() of every character that it changes, and of capital
                                                      sigma between every pair of kinds of neighbour
Run with the python that has diffusers 0.42.1:  python goldens/generate/differential.py [--count N] [--seed S] [--out DIR]
"""

import argparse
import gzip
import json
import pathlib
import random
import unicodedata

from diffusers.modular_pipelines.minimax_music3.encoders import _clean_caption, _normalize_lyrics

HERE = pathlib.Path(__file__).resolve().parent
SPACES = [" "] * 12 + ["\t", "\x1f", "\xa0", "\u3000", "\u2003", "\u1680", "\u205f", "   ", "    ", "     "]
LINE_ENDS = ["\n"] * 12 + ["\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\n\n", "\n\r"]
# Words include what lower() treats specially: dotted I, sigma at the end of a word and not, digraphs, letters beyond
# the basic plane; and what looks like white space and is not.
WORDS = list("abcXYZ019") + [
    "pop", "Verse", "I", "\u0130", "\u03a3", "A\u03a3", "\u039f\u03a3 ", "\u03a3\u0301", "\u01c5", "\u1e9e", "\u00df",
    "\u212a", "\u0345", "\U00010400", "\u4e2d", "\u200b", "\ufeff", "\u0301", "\u180e", "\U0001f3b5",
]
CAPTION_MARKS = [
    "<|", "|>", "|", "<", ">", "<|a b|>", "<|tempo  fast now |>", "<||>", "<| |>", "<|x|y|>", "<|im_end|>", "<|a\nb|>",
    "**", "**", "*", "*", "***", "**a**", "*b*", "****", "_", "#", "##", "# ", "### ", "###### ", "####### ", "#\t",
    "- ", "* ", "+ ", "-", "+", "*\t", "---", "***", "___", "-_*", "--", "\u2022 ", "\u2022", "1. ",
]
LYRIC_MARKS = [
    "[", "]", "[]", "[ ]", "[verse]", "[VERSE 1]", "[Chorus] ", "] ", " [", "] [", "][", "[[", "]]", "[a] [b]\t[c]",
    " ^ ", "^", " ^", "^ ", " ^ ^ ", "[\u0130]", "[\u039f\u0394\u039f\u03a3]", "[\u03a3]", "[A\u03a3 B]", "<|im_end|>",
    "[<|IM_END|>]", "[a\nB", "\r", "\\1",
]


def strings(marks, count, rng):
    """Yields distinct strings of 0 to 24 pieces; a third lean to line structure, a third to marks."""
    seen = set()
    while len(seen) < count:
        weights = rng.choice([(4, 3, 2, 4), (2, 2, 4, 4), (1, 1, 1, 9), (6, 4, 1, 3)])
        pools = rng.choices([WORDS, SPACES, LINE_ENDS, marks], weights, k=rng.randrange(0, 25))
        text = "".join(rng.choice(pool) for pool in pools)
        if text not in seen:
            seen.add(text)
            yield text


def write_lines(path, lines):
    # No time stamp and no name in the header, so that the same seed gives the same bytes.
    with open(path, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=9, mtime=0) as out:
        for line in lines:
            out.write((json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode())


def ranges(points):
    """Packs sorted code points as [first, last] pairs."""
    packed = []
    for point in points:
        if packed and packed[-1][1] == point - 1:
            packed[-1][1] = point
        else:
            packed.append([point, point])
    return packed


def lower_table():
    points = [p for p in range(0x110000) if not 0xD800 <= p <= 0xDFFF]
    sigma = "\u03a3"
    return {
        "unidata_version": unicodedata.unidata_version,
        "unassigned": ranges(p for p in points if unicodedata.category(chr(p)) == "Cn"),
        "lower": {f"{p:x}": chr(p).lower() for p in points if chr(p).lower() != chr(p)},
        # A sigma is final after a cased letter (skipping what is ignorable) and before none.
        "final_after": ranges(p for p in points if (chr(p) + sigma).lower().endswith("\u03c2")),
        "final_after_a_and": ranges(p for p in points if ("A" + chr(p) + sigma).lower().endswith("\u03c2")),
        "final_before": ranges(p for p in points if ("A" + sigma + chr(p)).lower().startswith("a\u03c2")),
        "final_before_and_a": ranges(p for p in points if ("A" + sigma + chr(p) + "A").lower().startswith("a\u03c2")),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parent / "text" / "differential")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, function, marks in [
        ("clean_caption", _clean_caption, CAPTION_MARKS),
        ("normalize_lyrics", _normalize_lyrics, LYRIC_MARKS),
    ]:
        rng = random.Random(f"{name} {args.seed}")
        write_lines(args.out / f"{name}.jsonl.gz",
                    ({"in": text, "out": function(text)} for text in strings(marks, args.count, rng)))
    write_lines(args.out / "python_lower.json.gz", [lower_table()])


if __name__ == "__main__":
    main()
