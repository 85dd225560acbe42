//! The `music3` program.

fn main() {}
