//! Plans and loads, on whole and on broken checkpoints.

mod cases;
mod checkpoint;
mod contract;
mod convert;
mod crafted;
mod hostile;
mod load;
mod modules;
mod native;
mod shards;
mod synth;
mod weight_norm;
