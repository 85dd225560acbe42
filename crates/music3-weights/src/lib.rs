//! Checkpoint folders to Burn modules, driven by the weights-mapping files.
