//! Development only: one generic test body, one named test per backend.
