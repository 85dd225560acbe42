//! The `music3` program from outside: arguments in; files, output and exit codes out.

mod again;
mod answers;
mod bench;
mod convert;
#[cfg(unix)]
mod failures;
mod melodies;
mod program;
mod refusals;
mod seeing;
mod songs;
mod synth;
mod verify;
