//! Lyrics from a file or from standard input, read as Python reads text.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use crate::failure::Failure;

/// Far more than a prompt of 5000 tokens takes.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the text of a file, of standard input for `-`: UTF-8 with or without a byte order mark, every line end a
/// `\n`.
///
/// # Errors
/// It cannot be read, is not UTF-8, or is larger than any lyrics.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    let read = match is_stdin {
        true => io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::usage(format!("--lyrics-file: {name} cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!(
            "--lyrics-file: {name} has more than {MAX_BYTES} bytes; lyrics are shorter"
        )));
    }
    decode(bytes)
        .map_err(|place| Failure::usage(format!("--lyrics-file: {name} is not UTF-8 (byte {place}); save it as UTF-8")))
}

/// Returns the text, or the place of the first byte that is no UTF-8.
fn decode(bytes: Vec<u8>) -> Result<String, usize> {
    let text = String::from_utf8(bytes).map_err(|error| error.utf8_error().valid_up_to())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_is_a_newline() {
        for text in ["a\nb\n\nc\n", "a\r\nb\r\n\r\nc\r\n", "a\rb\r\rc\r", "\u{feff}a\nb\r\n\rc\r"] {
            assert_eq!(decode(text.into()), Ok("a\nb\n\nc\n".to_owned()), "{text:?}");
        }
        assert_eq!(decode("a\u{feff}\u{85}b\u{2028}".into()), Ok("a\u{feff}\u{85}b\u{2028}".to_owned()));
    }

    #[test]
    fn names_the_byte_that_is_no_utf8() {
        assert_eq!(decode(b"caf\xe9".to_vec()), Err(3));
        assert_eq!(decode(b"\xff\xfea\0".to_vec()), Err(0));
    }
}
