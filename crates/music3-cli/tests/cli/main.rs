//! The `music3` program from outside: arguments in; files, output and exit codes out.

mod answers;
mod program;
mod refusals;
mod songs;
mod verify;
