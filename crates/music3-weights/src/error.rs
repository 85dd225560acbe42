//! The error of this crate: everything that was found, at once.

use std::fmt;

use crate::{component::Component, file_error::FileError, problem::Problem};

/// Why weights were not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// Everything that is wrong with the files, the config or the module, not only the first thing.
    #[error("{0}")]
    Problems(Problems),
    /// The device's own memory is too small for what is left to load.
    #[error(
        "{component}: {:.1} GB are needed to load what is left of it, but {:.1} GB of the device's memory are free; close what else uses it, or take a device with more",
        *.needed_bytes as f64 / 1e9,
        *.free_bytes as f64 / 1e9
    )]
    OutOfMemory {
        /// The component that was loading.
        component: Component,
        /// What is left of it, and some room.
        needed_bytes: u64,
        /// What the device has.
        free_bytes: u64,
    },
    /// The device failed at something before.
    #[error("{component}: the device failed: {message}")]
    Device {
        /// The component that was loading.
        component: Component,
        /// What the backend said.
        message: String,
    },
    /// The progress callback asked to stop.
    #[error("{component}: loading stopped after {loaded} of {total} parameters")]
    Cancelled {
        /// The component that was loading.
        component: Component,
        /// How many of its parameters were loaded.
        loaded: usize,
        /// How many it has.
        total: usize,
    },
}

impl WeightsError {
    /// The problems found; none for a load that was stopped, did not fit, or met a failed device.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Problems(problems) => &problems.0,
            Self::OutOfMemory { .. } | Self::Device { .. } | Self::Cancelled { .. } => &[],
        }
    }

    /// Takes the problems out, so that several results become one.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        match self {
            Self::Problems(problems) => problems.0,
            Self::OutOfMemory { .. } | Self::Device { .. } | Self::Cancelled { .. } => Vec::new(),
        }
    }

    /// The error of one or more problems.
    pub(crate) fn from_problems(problems: Vec<Problem>) -> Self {
        Self::Problems(Problems(problems))
    }

    /// `Ok` when nothing was found.
    pub(crate) fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Self::from_problems(problems)),
        }
    }
}

impl From<Problem> for WeightsError {
    fn from(problem: Problem) -> Self {
        Self::from_problems(vec![problem])
    }
}

impl From<FileError> for WeightsError {
    fn from(error: FileError) -> Self {
        Problem::from(error).into()
    }
}

/// One or more problems.
#[derive(Debug)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// So many lines of one message are read; the rest are counted.
    const SHOWN: usize = 40;
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = self.0.as_slice() {
            return problem.fmt(f);
        }
        write!(f, "{} problems", self.0.len())?;
        for problem in self.0.iter().take(Self::SHOWN) {
            write!(f, "\n  {problem}")?;
        }
        match self.0.len().saturating_sub(Self::SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
