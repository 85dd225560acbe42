//! Every component against upstream's, on each backend; and the gates against what they must refuse.

mod against_upstream;
mod dump;
mod exit_codes;
mod gates;
