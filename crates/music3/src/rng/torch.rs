//! Torch's CPU generator.

use super::mt19937::Mt19937;
use super::normal::{BLOCK, block_bf16, block_f32, pair_f64, to_bf16, uniform_f64};
use super::{NoiseDtype, Randomness};

/// Draws what `torch.Generator("cpu").manual_seed(seed)` draws.
///
/// Exponential numbers equal those of torch where it does not draw them through MKL, which it does on Intel processors:
/// there a seed of upstream's means another song. Normal numbers equal those of torch on any x86-64 processor with AVX2,
/// to the bit in f32 and bf16. Where the platform's f64 logarithm differs in its last bit, an exponential number rounds
/// to its neighbour about once in 10⁸.
#[derive(Debug, Clone)]
pub struct TorchGenerator {
    engine: Mt19937,
    /// The second number of the last pair, while only its first was asked for.
    second_normal: Option<f64>,
}

impl TorchGenerator {
    /// Returns the generator of a seed. Torch, too, looks at its low 32 bits alone, and takes a negative one modulo 2⁶⁴.
    pub fn new(seed: u64) -> Self {
        Self { engine: Mt19937::new(seed as u32), second_normal: None }
    }

    fn short_normal(&mut self) -> f64 {
        if let Some(second) = self.second_normal.take() {
            return second;
        }
        let (first, second) = pair_f64(&mut self.engine);
        self.second_normal = Some(second);
        first
    }
}

impl Randomness for TorchGenerator {
    fn exponential_columns(&mut self, row_len: usize, columns: &[usize]) -> Vec<f32> {
        let mut drawn = 0;
        let values = columns
            .iter()
            .map(|&column| {
                assert!((drawn..row_len).contains(&column), "column {column} after {drawn} of {row_len} in a row");
                // Each number takes two draws.
                self.engine.skip(2 * (column - drawn));
                drawn = column + 1;
                -(-uniform_f64(&mut self.engine)).ln_1p() as f32
            })
            .collect();
        self.engine.skip(2 * (row_len - drawn));
        values
    }

    fn standard_normal(&mut self, len: usize, dtype: NoiseDtype) -> Vec<f32> {
        if len < BLOCK {
            let round = match dtype {
                NoiseDtype::F32 => |x| x as f32,
                NoiseDtype::Bf16 => to_bf16,
            };
            return (0..len).map(|_| round(self.short_normal())).collect();
        }
        let block = match dtype {
            NoiseDtype::F32 => block_f32,
            NoiseDtype::Bf16 => block_bf16,
        };
        let mut values = vec![0.0; len];
        let (blocks, rest) = values.as_chunks_mut::<BLOCK>();
        for values in blocks {
            *values = block(&mut self.engine);
        }
        if !rest.is_empty() {
            // Upstream quirk: one draw was taken for each number of the rest before the last sixteen are drawn anew.
            self.engine.skip(rest.len());
            values[len - BLOCK..].copy_from_slice(&block(&mut self.engine));
        }
        values
    }
}
