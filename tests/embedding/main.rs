//! What another Burn application does with the modules: it takes gradients, keeps records, moves them to its device.

mod as_modules;
mod gradients;
mod tiny;
