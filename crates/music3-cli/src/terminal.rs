//! What is printed, and where: answers on standard output, everything else on standard error.

use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
};

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
