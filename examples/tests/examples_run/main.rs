//! Every example is run as the program that it is, and what it prints stands in docs/examples.md.

mod docs;
mod program;
mod songs;
mod training;
