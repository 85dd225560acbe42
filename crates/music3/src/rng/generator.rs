//! The two generators under one name.

use serde::{Deserialize, Serialize};

use super::{CounterGenerator, NoiseDtype, Place, Randomness, TorchGenerator};

/// Where a song's random numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rng {
    /// Torch's CPU generator, as upstream uses it: one sequence, in which a draw's place is what was drawn before it.
    #[default]
    Torch,
    /// Philox4x32-10 by seed, frame, codebook and window: no draw moves another.
    Counter,
}

impl std::fmt::Display for Rng {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Torch => "torch",
            Self::Counter => "counter",
        })
    }
}

/// A generator of either kind.
#[derive(Debug, Clone)]
pub enum Generator {
    /// Torch's.
    Torch(Box<TorchGenerator>),
    /// The counter-based one.
    Counter(CounterGenerator),
}

impl Generator {
    /// Returns the generator of a seed.
    pub fn new(rng: Rng, seed: u64) -> Self {
        match rng {
            Rng::Torch => Self::Torch(Box::new(TorchGenerator::new(seed))),
            Rng::Counter => Self::Counter(CounterGenerator::new(seed)),
        }
    }

    fn inner(&mut self) -> &mut dyn Randomness {
        match self {
            Self::Torch(generator) => generator.as_mut(),
            Self::Counter(generator) => generator,
        }
    }
}

impl Randomness for Generator {
    fn begin(&mut self, place: Place) {
        self.inner().begin(place);
    }

    fn exponential_columns(&mut self, row_len: usize, columns: &[usize]) -> Vec<f32> {
        self.inner().exponential_columns(row_len, columns)
    }

    fn standard_normal(&mut self, len: usize, dtype: NoiseDtype) -> Vec<f32> {
        self.inner().standard_normal(len, dtype)
    }
}
