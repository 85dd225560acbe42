//! What is printed, and where: answers on standard output, everything else on standard error.

use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

/// Prints a line on standard error. A closed standard error stops nothing.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a line on standard output.
///
/// # Errors
/// It cannot be written, except that its reader has gone away: `music3 inspect … | head` has its answer.
pub(crate) fn answer(line: impl Display) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns whether someone looks at standard error.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Returns a bar for work that is counted in bytes, hidden where nobody looks.
pub(crate) fn bytes_bar(doing: &'static str, total: u64) -> ProgressBar {
    if !is_watched() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}");
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.set_style(style.expect("the template is constant").progress_chars("=> "));
    bar.with_message(doing)
}
