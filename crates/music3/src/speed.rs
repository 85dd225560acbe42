//! How fast a machine multiplies, measured in a moment, so that the time of a long run can be told beforehand.

use std::time::{Duration, Instant};

use burn::tensor::{DType, Tensor, backend::Backend};
use music3_nn::{Width, ops};

use crate::{
    error::Stage,
    estimate::{Estimate, StageEstimate},
    precision::Precision,
};

/// A product that took this long once is not repeated.
const LONG_ENOUGH: Duration = Duration::from_millis(40);

/// How often a product is repeated at most. The first one also starts threads and touches memory for the first time.
const REPEATS: usize = 3;

/// Floating-point operations per second of the two kinds of products that a song consists of.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Speed {
    /// Two rows times a matrix that no cache holds, in the width of the autoregressive half: decoding.
    pub two_rows: f64,
    /// Some hundred rows times a matrix, in the width of the acoustic half: the flow and the vocoder.
    pub many_rows: f64,
}

impl Speed {
    /// Measures one product of each kind. Meant for CPU backends: a GPU backend may compile kernels first.
    pub fn measure<B: Backend>(precision: Precision, device: &B::Device) -> Self {
        Self {
            two_rows: flop_per_sec::<B>([2, 4096, 4096], precision.autoregressive(), device),
            many_rows: flop_per_sec::<B>([256, 1024, 1024], precision.acoustic(), device),
        }
    }
}

impl Estimate {
    /// Returns about how long each stage computes at the given speed; reading weights is not counted.
    pub fn durations(&self, speed: &Speed) -> [Duration; 3] {
        self.stages.map(|StageEstimate { stage, flop, .. }| {
            let per_sec = match stage {
                Stage::Autoregressive => speed.two_rows,
                Stage::Flow | Stage::Vocoder => speed.many_rows,
            };
            Duration::try_from_secs_f64(flop / per_sec).unwrap_or(Duration::MAX)
        })
    }
}

/// Multiplies `[rows, inner]` by `[out, inner]` transposed.
fn flop_per_sec<B: Backend>([rows, inner, out]: [usize; 3], width: Width, device: &B::Device) -> f64 {
    let dtype: DType = width.store_dtype::<B>(device);
    // Ones, not zeros: memory that nothing was written to costs nothing to read.
    let x = Tensor::<B, 2>::ones([rows, inner], (device, dtype));
    let weight = Tensor::<B, 2>::ones([out, inner], (device, dtype));
    let mut best = Duration::MAX;
    for _ in 0..REPEATS {
        let start = Instant::now();
        let product = ops::linear(x.clone(), weight.clone(), None, width);
        // Reading a value back waits for a backend that works ahead.
        let _ = product.narrow(0, 0, 1).narrow(1, 0, 1).into_data();
        best = best.min(start.elapsed());
        if best >= LONG_ENOUGH {
            break;
        }
    }
    (2 * rows * inner * out) as f64 / best.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_takes_its_arithmetic_over_its_speed() {
        let stage = |stage, flop| StageEstimate { stage, weight_bytes: 0, work_bytes: 0, flop };
        let estimate = Estimate {
            stages: [stage(Stage::Autoregressive, 6e9), stage(Stage::Flow, 4e12), stage(Stage::Vocoder, 1e300)],
        };
        let speed = Speed { two_rows: 2e9, many_rows: 1e11 };
        let [first, second, third] = estimate.durations(&speed);
        assert_eq!((first, second), (Duration::from_secs(3), Duration::from_secs(40)));
        assert_eq!(third, Duration::MAX, "more than a duration holds");
    }
}
