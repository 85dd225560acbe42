//! The examples whose figures say something.

use crate::program::run;

fn printed(name: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(name, arguments, folder.path())
}

/// Returns the number that follows `before` in `text`.
fn number_after(text: &str, before: &str) -> f64 {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("`{before}` is missing in\n{text}"));
    let end = rest.find([' ', ',', '\n']).unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|error| panic!("{error} after `{before}` in\n{text}"))
}

#[test]
fn fine_tuning_makes_the_loss_fall() {
    let said = printed("fine_tune_dit", &["20"]);
    let before = number_after(&said, "held: ");
    let after = number_after(&said, " before, ");
    // Measured: from 2.34 to 1.20.
    assert!(after < 0.8 * before, "{said}");
    assert!(said.contains("read: true"), "{said}");
}

#[test]
fn backends_agree_as_far_as_f32_goes() {
    let said = printed("compare_backends", &[]);
    let mut compared = 0;
    for line in said.lines().filter(|line| line.starts_with("  ")) {
        // Measured: 1.8e-6 of the rms for the velocity, 1.3e-5 for the samples.
        assert!(number_after(line, "most ") < 5e-5, "{line}");
        compared += 1;
    }
    assert!(compared >= 2, "{said}");
}

#[test]
fn an_application_can_stop_its_song() {
    for backend in ["flex", "ndarray"] {
        let said = printed("embed_in_app", &[backend, "1"]);
        assert!(said.contains("stopped in the ") && said.ends_with("nothing is left of it\n"), "{said}");
        assert!(!said.contains("samples of window"), "{said}");
    }
}

#[test]
fn frames_from_a_file_give_the_same_song() {
    let said = printed("render_from_codes", &["a.frames"]);
    assert!(said.contains("the same samples: true"), "{said}");
    let levels: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(" RMS ")).map(|(_, levels)| levels).collect();
    assert_eq!(levels.len(), 4, "{said}");
    assert_eq!(levels[0], levels[1]);
    assert!(levels[0] != levels[2] && levels[0] != levels[3], "{said}");
}
