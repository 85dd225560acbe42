//! Hostile safetensors files.

use crate::{
    crafted::{file, raw_file},
    table::Case,
};

fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

/// A file of these header entries and so many bytes of data.
fn of(entries: &[String], data: usize) -> Vec<u8> {
    raw_file(&format!("{{{}}}", entries.join(",")), &vec![0; data])
}

fn one(dtype: &str, shape: &str, offsets: &str) -> Vec<u8> {
    of(&[entry("a", dtype, shape, offsets)], 4)
}

pub(crate) fn cases() -> Vec<Case> {
    let mut past_end = file(&[("a", &[2])]);
    past_end[1] = 1;
    let mut not_utf8 = raw_file("{\"a\":1}", b"");
    not_utf8[10] = 0xff;
    let whole = file(&[("a", &[3]), ("b", &[5])]);
    let longer = [file(&[("a", &[3])]), vec![0]].concat();
    let second = |offsets| of(&[entry("a", "F32", "[2]", "[0,8]"), entry("b", "F32", "[2]", offsets)], 12);
    let twice = of(&[entry("a", "F32", "[1]", "[0,4]"), entry("a", "F32", "[1]", "[0,4]")], 4);
    let named = |what, bytes: Vec<u8>| Case::file(what, "model.safetensors", bytes);
    vec![
        named("an empty file", Vec::new()),
        named("three bytes", vec![1, 0, 0]),
        named("a header length past the end", past_end),
        named("a header length of 2^64 − 1", [vec![255; 8], b"{}".to_vec()].concat()),
        named("a header of 16 MiB of spaces", raw_file(&format!("{{{}}}", " ".repeat(16 << 20)), b"")),
        named("a header that is no JSON", raw_file("[1, 2]", b"")),
        named("a header of a million brackets", raw_file(&format!("{{\"a\":{}", "[".repeat(1_000_000)), b"")),
        named("a name that is not UTF-8", not_utf8),
        named("a tensor without offsets", raw_file(r#"{"a":{"dtype":"F32","shape":[1]}}"#, &[0; 4])),
        named("an unknown dtype", one("Q4_K", "[1]", "[0,4]")),
        named("a negative dimension", one("F32", "[-1]", "[0,4]")),
        named("offsets that run backwards", one("F32", "[1]", "[4,0]")),
        named("a shape whose product overflows", one("F32", "[4294967296,4294967296,4]", "[0,4]")),
        named("a shape of a terabyte", one("F32", "[1000000000000]", "[0,4]")),
        named("tensors that overlap", second("[4,12]")),
        named(
            "a hole between tensors",
            of(&[entry("a", "F32", "[1]", "[0,4]"), entry("b", "F32", "[1]", "[8,12]")], 12),
        ),
        named("a name given twice", twice),
        named("a file cut short", whole[..whole.len() - 9].to_vec()),
        named("bytes after the last tensor", longer),
        named("a web page", b"<!DOCTYPE html>\n<html><head><title>404".to_vec()),
        named("a Git LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid".to_vec()),
        named("a GGUF file", b"GGUF\x03\0\0\0\0\0\0\0".to_vec()),
        named("a gzip archive", b"\x1f\x8b\x08\0\0\0\0\0\0".to_vec()),
        named("a PyTorch file", b"PK\x03\x04\0\0\0\0\0\0".to_vec()),
    ]
}
