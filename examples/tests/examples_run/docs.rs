//! What the examples print is what docs/examples.md shows.
//!
//! With `MUSIC3_WRITE_DOCS=1`, as `cargo xtask docs` sets it, the page is written instead of compared.

use std::{env, fmt::Write, fs, path::Path};

use crate::program::run;

/// An example on the page.
struct Shown {
    name: &'static str,
    arguments: &'static [&'static str],
    /// What is said above its output.
    text: &'static str,
    numbers: Numbers,
}

/// How far decimals may be from those on the page: they depend on the processor. Integers are the same everywhere.
#[derive(Clone, Copy, Debug)]
enum Numbers {
    /// By a fiftieth, or in the last digit that is shown.
    Close,
    /// By two orders of magnitude: they are rounding errors.
    Rough,
}

const SHOWN: [Shown; 7] = [
    Shown {
        name: "generate_song",
        arguments: &["song.wav"],
        text: "A checkpoint, a request, a WAV file.",
        numbers: Numbers::Close,
    },
    Shown {
        name: "embed_in_app",
        arguments: &["flex"],
        text: "Inside an application: the backend is chosen while it runs, the song is made on a thread of its own, progress \
               comes through a channel, and any thread can stop it (`embed_in_app flex 1` stops after the first frame).",
        numbers: Numbers::Close,
    },
    Shown {
        name: "stage_by_stage",
        arguments: &[],
        text: "The stages one by one, each loaded, run and dropped, with what goes from one to the next.",
        numbers: Numbers::Close,
    },
    Shown {
        name: "render_from_codes",
        arguments: &["song.frames"],
        text: "The frames of the language model are kept in a file and rendered again: the same way, with more steps, with \
               other noise.",
        numbers: Numbers::Close,
    },
    Shown {
        name: "compare_backends",
        arguments: &[],
        text: "The same forwards of transformer and vocoder on every backend of the build; `--features music3-examples/cuda` adds \
               the GPU.",
        numbers: Numbers::Rough,
    },
    Shown {
        name: "inspect_weights",
        arguments: &[],
        text: "What a checkpoint holds, which stored tensors make a parameter, and the values of the largest.",
        numbers: Numbers::Close,
    },
    Shown {
        name: "fine_tune_dit",
        arguments: &[],
        text: "Training: the transformer on `Autodiff<Flex>`, Burn's Adam, twelve steps on synthetic latents; then a record of \
               the result.",
        numbers: Numbers::Close,
    },
];

#[test]
fn show_what_the_examples_print() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples.md");
    let outputs = SHOWN.map(|shown| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        (run(shown.name, shown.arguments, folder.path()), shown)
    });
    if env::var_os("MUSIC3_WRITE_DOCS").is_some() {
        fs::write(&path, page(&outputs)).expect("the page");
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut expected = written.split("```text\n").skip(1).map(|block| block.split("```").next().unwrap_or_default());
    let frame = |text: &str| -> Vec<String> {
        let outside = text.split("```").enumerate().filter(|(index, _)| index % 2 == 0);
        outside.map(|(_, text)| text.to_owned()).collect()
    };
    let remedy = "`cargo xtask docs` writes docs/examples.md again";
    assert_eq!(frame(&written), frame(&page(&outputs)), "the text differs; {remedy}");
    for (output, shown) in &outputs {
        let expected = expected.next().expect("a block for each example");
        if let Some(difference) = difference(expected, output, shown.numbers) {
            panic!("{}: {difference}; {remedy}", shown.name);
        }
    }
}

fn page(outputs: &[(String, Shown)]) -> String {
    let mut text = "# Examples\n\nWhat each program under [examples](../examples) prints, on the demo checkpoint that the project \
                    carries. `cargo xtask docs`\nwrites this page; a test compares it with what they print now.\n"
        .to_owned();
    for (output, Shown { name, arguments, text: about, .. }) in outputs {
        let arguments: String = arguments.iter().map(|argument| format!(" {argument}")).collect();
        let separator = if arguments.is_empty() { "" } else { " --" };
        let command = format!("cargo run --release --example {name}{separator}{arguments}");
        write!(
            text,
            "\n## {name}\n\n{}\n\n    {command}\n\n```text\n{output}```\n",
            wrapped(&format!("[{name}.rs](../examples/{name}.rs). {about}"))
        )
        .expect("writing to memory");
    }
    text.push_str(
        "\nTwo more: [memory_over_songs](../examples/memory_over_songs.rs) plots what a process holds after each of thirty songs\n\
         ([the plot](../examples/memory_over_songs.svg)), and [consumer](../examples/consumer/src/main.rs) is a package outside \
         the\nworkspace, as an application would be.\n",
    );
    text
}

/// Breaks a paragraph into lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        match line.chars().count() + 1 + word.chars().count() {
            _ if line.is_empty() => line.push_str(word),
            ..=120 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Returns the first line that differs by more than its numbers may.
fn difference(expected: &str, found: &str, numbers: Numbers) -> Option<String> {
    let (expected, found): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let differs = |(expected, found): &(&&str, &&str)| {
        let ((expected, theirs), (found, ours)) = (split(expected), split(found));
        expected != found || theirs.iter().zip(&ours).any(|(&theirs, &ours)| !is_close(theirs, ours, numbers))
    };
    if let Some((expected, found)) = expected.iter().zip(&found).find(differs) {
        return Some(format!("`{found}` is printed, the page shows `{expected}`"));
    }
    (expected.len() != found.len())
        .then(|| format!("{} lines are printed, the page shows {}", found.len(), expected.len()))
}

fn is_close(a: f64, b: f64, numbers: Numbers) -> bool {
    match numbers {
        Numbers::Close => (a - b).abs() <= (a.abs() / 50.0).max(0.011),
        Numbers::Rough => a == b || (a.abs() / b.abs() > 0.01 && a.abs() / b.abs() < 100.0),
    }
}

/// Returns the text with its decimals taken out, and these.
fn split(line: &str) -> (String, Vec<f64>) {
    let (mut text, mut numbers) = (String::new(), Vec::new());
    let in_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '-' | '+');
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit() || c == '-') {
        let len = rest[start..].find(|c| !in_number(c)).unwrap_or(rest.len() - start);
        let token = &rest[start..start + len];
        text.push_str(&rest[..start]);
        match token.trim_end_matches('.').parse() {
            Ok(number) if token.trim_end_matches('.').contains(['.', 'e']) => {
                numbers.push(number);
                text.push('#');
            }
            _ => text.push_str(token),
        }
        rest = &rest[start + len..];
    }
    (text + rest, numbers)
}

#[test]
fn tell_words_and_integers_from_decimals() {
    assert_eq!(split("step 3: loss 1.250, -2e-7 of a-b"), ("step 3: loss #, # of a-b".to_owned(), vec![1.25, -2e-7]));
    assert_eq!(difference("a 1.000\n", "a 1.015\n", Numbers::Close), None);
    assert!(difference("a 1.000\n", "a 1.1\n", Numbers::Close).is_some());
    assert_eq!(difference("a 1.0e-7\n", "a 5.0e-6\n", Numbers::Rough), None);
    assert!(difference("a 1.0e-7\n", "a 5.0e-5\n", Numbers::Rough).is_some());
    assert!(difference("a 25\n", "a 26\n", Numbers::Close).is_some());
    assert!(difference("a\n", "a\nb\n", Numbers::Close).is_some());
}
