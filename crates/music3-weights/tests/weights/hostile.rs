//! Files that are not what their names say: each is refused, with a message that says what is wrong.

use music3_weights::{SafetensorsFile, WeightsError};

use crate::crafted::{Folder, file, raw_file};

fn message(bytes: &[u8]) -> String {
    let folder = Folder::new();
    let error = SafetensorsFile::open(folder.write("model.safetensors", bytes)).expect_err("the file is refused");
    folder.relative(error)
}

/// One f32 tensor `a` of this shape and these offsets.
fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

#[test]
fn refuses_an_empty_file() {
    assert_eq!(message(b""), "model.safetensors: expected a safetensors file, found an empty file");
}

#[test]
fn refuses_a_file_shorter_than_its_length_field() {
    assert_eq!(
        message(&[1, 0, 0]),
        "model.safetensors: expected a safetensors file, found a file of fewer than 8 bytes"
    );
}

#[test]
fn refuses_a_header_length_past_the_end() {
    let mut bytes = file(&[("a", &[2])]);
    bytes[1] = 1;
    let size = bytes.len();
    assert_eq!(
        message(&bytes),
        format!(
            "model.safetensors: the header takes {} bytes, the file has {size}; \
             the file is cut short or not a safetensors file",
            size - 8 + 256
        )
    );
}

#[test]
fn refuses_the_largest_header_length() {
    let mut bytes = vec![255; 8];
    bytes.extend(b"{}");
    assert_eq!(
        message(&bytes),
        "model.safetensors: the header takes 18446744073709551615 bytes, the file has 10; \
         the file is cut short or not a safetensors file"
    );
}

#[test]
fn refuses_a_header_over_the_limit() {
    let bytes = raw_file(&format!("{{{}}}", " ".repeat(16 << 20)), b"");
    assert_eq!(
        message(&bytes),
        "model.safetensors: the safetensors header takes 16777218 bytes; the maximum is 16777216"
    );
}

#[test]
fn refuses_a_header_that_is_not_json() {
    let not_json = "model.safetensors: expected a safetensors file, found a header that is not JSON";
    assert_eq!(message(&raw_file("[1, 2]", b"")), not_json);
    assert_eq!(message(&raw_file("", b"{}")), "model.safetensors: EOF while parsing a value at line 1 column 0");
    assert_eq!(message(&raw_file("{\"a\":", b"")), "model.safetensors: EOF while parsing a value at line 1 column 5");
}

#[test]
fn refuses_a_header_of_endless_depth() {
    let found = message(&raw_file(&format!("{{\"a\":{}", "[".repeat(1_000_000)), b""));
    assert!(found.starts_with("model.safetensors: ") && found.len() < 100, "{found}");
}

#[test]
fn a_length_field_that_looks_like_text_is_a_length() {
    // 0x3c is `<` and 0x7b is `{`, 0x0a and 0x20 white space: a web page and a JSON text begin so.
    for length in [0x3c, 0x7b, 0x3c0a, 0x7b20] {
        let header = entry("a", "F32", "[1]", "[0,4]");
        let header = format!("{:<length$}", format!("{{{header}}}"));
        let folder = Folder::new();
        let path = folder.write("a.safetensors", raw_file(&header, &[0; 4]));
        assert!(SafetensorsFile::open(path).is_ok_and(|file| file.contains("a")), "{length:#x}");
    }
}

#[test]
fn refuses_a_header_that_is_not_utf8() {
    let mut bytes = raw_file("{\"a\":1}", b"");
    bytes[10] = 0xff;
    assert_eq!(message(&bytes), "model.safetensors: invalid unicode code point at line 1 column 3");
}

#[test]
fn refuses_a_tensor_without_offsets() {
    let header = r#"{"a":{"dtype":"F32","shape":[1]}}"#;
    let found = message(&raw_file(header, &[0; 4]));
    assert!(found.starts_with("model.safetensors: missing field `data_offsets`"), "{found}");
}

#[test]
fn refuses_an_unknown_dtype() {
    let found = message(&raw_file(&format!("{{{}}}", entry("a", "Q4_K", "[1]", "[0,4]")), &[0; 4]));
    assert!(found.starts_with("model.safetensors: unknown variant `Q4_K`, expected one of `BOOL`"), "{found}");
}

#[test]
fn refuses_a_negative_dimension() {
    let found = message(&raw_file(&format!("{{{}}}", entry("a", "F32", "[-1]", "[0,4]")), &[0; 4]));
    assert!(found.starts_with("model.safetensors: invalid value: integer `-1`, expected usize"), "{found}");
}

#[test]
fn refuses_overlapping_tensors() {
    let header = format!("{{{},{}}}", entry("a", "F32", "[2]", "[0,8]"), entry("b", "F32", "[2]", "[4,12]"));
    assert_eq!(
        message(&raw_file(&header, &[0; 12])),
        "model.safetensors: tensor `b` begins at byte 4, inside another that ends at 8"
    );
}

#[test]
fn refuses_a_hole_between_tensors() {
    let header = format!("{{{},{}}}", entry("a", "F32", "[1]", "[0,4]"), entry("b", "F32", "[1]", "[8,12]"));
    assert_eq!(
        message(&raw_file(&header, &[0; 12])),
        "model.safetensors: tensor `b` begins at byte 8, after a hole from 4"
    );
}

#[test]
fn refuses_offsets_that_run_backwards() {
    let header = format!("{{{}}}", entry("a", "F32", "[1]", "[4,0]"));
    assert_eq!(
        message(&raw_file(&header, &[0; 4])),
        "model.safetensors: tensor `a` ends at byte 0, before it begins at 4"
    );
}

#[test]
fn refuses_a_shape_that_overflows() {
    let header = format!("{{{}}}", entry("a", "F32", "[4294967296,4294967296,4]", "[0,4]"));
    assert_eq!(
        message(&raw_file(&header, &[0; 4])),
        "model.safetensors: tensor `a` has shape [4294967296, 4294967296, 4], whose product is too large"
    );
}

#[test]
fn refuses_a_shape_larger_than_its_bytes() {
    let header = format!("{{{}}}", entry("a", "F32", "[1000000000000]", "[0,4]"));
    assert_eq!(
        message(&raw_file(&header, &[0; 4])),
        "model.safetensors: tensor `a` has shape [1000000000000] of F32, which takes 4000000000000 bytes, \
         and its offsets give it 4"
    );
}

#[test]
fn refuses_a_file_cut_short() {
    let bytes = file(&[("a", &[3]), ("b", &[5])]);
    assert_eq!(
        message(&bytes[..bytes.len() - 9]),
        "model.safetensors: the header describes 32 bytes of tensors, the file holds 23; it is cut short, copy it again"
    );
}

#[test]
fn refuses_bytes_after_the_last_tensor() {
    let mut bytes = file(&[("a", &[3])]);
    bytes.push(0);
    assert_eq!(
        message(&bytes),
        "model.safetensors: the header describes 12 bytes of tensors, the file holds 13; it holds more than its header says"
    );
}

#[test]
fn refuses_a_name_given_twice() {
    let header = format!("{{{},{}}}", entry("a", "F32", "[1]", "[0,4]"), entry("a", "F32", "[1]", "[0,4]"));
    assert_eq!(message(&raw_file(&header, &[0; 4])), "model.safetensors: `a` occurs twice");
}

#[test]
fn names_what_lies_in_a_weight_files_place() {
    for (bytes, found) in [
        (&b"<!DOCTYPE html>\n<html><head><title>404"[..], "a web page; the download failed, repeat it"),
        (b"\n  <html lang=\"en\">", "a web page; the download failed, repeat it"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid",
            "a Git LFS pointer; fetch the file itself with `git lfs pull`",
        ),
        (b"GGUF\x03\0\0\0\0\0\0\0", "a GGUF file; the original weights are needed"),
        (b"PK\x03\x04\0\0\0\0\0\0", "a zip archive, perhaps a PyTorch file"),
        (
            b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j",
            "a Python pickle, perhaps an old PyTorch file; save it again with a current torch",
        ),
        (b"\x1f\x8b\x08\0\0\0\0\0\0", "a gzip archive; unpack it"),
        (b"{\"error\": \"Repository not found\"}", "a JSON text"),
    ] {
        assert_eq!(message(bytes), format!("model.safetensors: expected a safetensors file, found {found}"));
    }
}

#[test]
fn refuses_a_folder_in_a_files_place() {
    let folder = Folder::new();
    folder.write("model.safetensors/readme", b"");
    let error = SafetensorsFile::open(folder.path().join("model.safetensors")).expect_err("a folder is refused");
    assert_eq!(folder.relative(error), "model.safetensors: expected a file, found a folder");
}

#[cfg(unix)]
#[test]
fn refuses_a_device_without_waiting_for_it() {
    let error = SafetensorsFile::open("/dev/zero").expect_err("a device is refused");
    assert_eq!(error.to_string(), "/dev/zero: expected a file, found a device or a pipe");
}

#[test]
fn names_a_file_that_is_not_there() {
    let folder = Folder::new();
    let error = SafetensorsFile::open(folder.path().join("a.safetensors")).expect_err("nothing is refused");
    assert!(folder.relative(&error).starts_with("a.safetensors: "), "{error}");
    assert!(matches!(error, WeightsError::Problems(_)));
}

#[test]
fn reads_no_tensor_that_is_not_there() {
    use music3_weights::TensorSource;
    let folder = Folder::new();
    let file = SafetensorsFile::open(folder.write("a.safetensors", file(&[("a", &[1])]))).expect("a valid file opens");
    let error = file.tensor("b").map(|_| ()).expect_err("there is no such tensor");
    assert_eq!(folder.relative(error), "a.safetensors: there is no tensor `b`");
}
