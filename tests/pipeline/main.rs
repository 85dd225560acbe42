//! Whole runs of upstream, replayed on each backend: with its codes and noise, then from their seeds alone.

mod captures;
