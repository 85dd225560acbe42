//! The `music3` program from outside: arguments in; files, output and exit codes out.

mod answers;
mod bench;
mod program;
mod refusals;
mod songs;
mod synth;
mod verify;
