//! Runs the examples.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Finds the program of an example; cargo builds all of them before the tests of this package.
fn program(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test has a program");
    let target = test.ancestors().nth(2).expect("tests lie in the folder deps");
    let program = target.join("examples").join(name).with_extension(env::consts::EXE_EXTENSION);
    assert!(program.is_file(), "{} is missing; run `cargo test --workspace`", program.display());
    program
}

/// Runs an example in a folder; returns what it printed.
///
/// # Panics
/// If it fails.
pub(crate) fn run(name: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program(name))
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", folder)
        .output()
        .expect("an example can be started");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {printed}");
    printed
}
