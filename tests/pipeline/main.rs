//! Whole runs: upstream's replayed on each backend, with its codes and noise and then from their seeds alone; runs that
//! are stopped; runs that are taken up again from saved frames.

mod captures;
mod saved_frames;
mod stopping;
