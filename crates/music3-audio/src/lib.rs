//! Planar samples to WAV: cropping, stitching, levels and writing.
