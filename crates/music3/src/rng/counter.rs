//! A generator without a past: each number is a function of the seed and of the place in the song that it is for.

use half::bf16;

use super::{NoiseDtype, Place, Randomness, cephes, philox::philox4x32_10};

/// Exponential numbers that the four words of a counter make.
const EXPONENTIALS: usize = 2;
/// Normal numbers that they make.
const NORMALS: usize = 4;

/// Draws from Philox4x32-10. The key is the seed; the counter is what is drawn, for which frame and codebook or for
/// which window, and the number's own place in that draw.
///
/// A draw neither depends on the draws before it nor moves those after it, so songs that are made together, in whatever
/// order, and parts of songs that are made again get the numbers they would get alone.
#[derive(Debug, Clone)]
pub struct CounterGenerator {
    key: [u32; 2],
    place: Place,
}

impl CounterGenerator {
    /// Returns the generator of a seed, all of whose 64 bits count.
    pub fn new(seed: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], place: Place::Code { step: 0, codebook: 0 } }
    }

    /// Returns the words of a block of the place that was named last.
    fn words(&self, block: usize) -> [u32; 4] {
        let [kind, what, which] = match self.place {
            Place::Code { step, codebook } => [0, codebook as u32, step as u32],
            Place::Noise { window } => [1, 0, window as u32],
        };
        philox4x32_10([block as u32, what, which, kind], self.key)
    }

    /// Returns the normal numbers of a block: two pairs, each made by Box and Muller's method.
    fn normals(&self, block: usize) -> [f32; NORMALS] {
        let words = self.words(block);
        let unit = |word: u32| (word >> 8) as f32 * 2.0_f32.powi(-24);
        let mut values = [0.0; NORMALS];
        for (pair, words) in values.chunks_exact_mut(2).zip(words.chunks_exact(2)) {
            // One minus a number below one is above zero, so the logarithm is finite.
            let radius = (-2.0 * cephes::ln(1.0 - unit(words[0]))).sqrt();
            let (sin, cos) = cephes::sin_cos(std::f32::consts::TAU * unit(words[1]));
            pair.copy_from_slice(&[radius * cos, radius * sin]);
        }
        values
    }
}

impl Randomness for CounterGenerator {
    fn begin(&mut self, place: Place) {
        self.place = place;
    }

    fn exponential_columns(&mut self, row_len: usize, columns: &[usize]) -> Vec<f32> {
        let mut drawn = 0;
        let number = |&column: &usize| {
            assert!((drawn..row_len).contains(&column), "column {column} after {drawn} of {row_len} in a row");
            drawn = column + 1;
            let words = self.words(column / EXPONENTIALS);
            let lane = 2 * (column % EXPONENTIALS);
            let bits = u64::from(words[lane]) << 32 | u64::from(words[lane + 1]);
            // 53 bits of (0, 1]: never the logarithm of zero.
            let unit = ((bits >> 11) + 1) as f64 * 2.0_f64.powi(-53);
            -unit.ln() as f32 + 0.0
        };
        columns.iter().map(number).collect()
    }

    fn standard_normal(&mut self, len: usize, dtype: NoiseDtype) -> Vec<f32> {
        let round = |value: f32| match dtype {
            NoiseDtype::F32 => value,
            NoiseDtype::Bf16 => bf16::from_f32(value).to_f32(),
        };
        let blocks = (0..len.div_ceil(NORMALS)).flat_map(|block| self.normals(block));
        blocks.take(len).map(round).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Place = Place::Code { step: 3, codebook: 0 };

    fn exponentials(generator: &mut CounterGenerator, place: Place, count: usize) -> Vec<f32> {
        generator.begin(place);
        generator.exponential_columns(count, &(0..count).collect::<Vec<_>>())
    }

    fn normals(generator: &mut CounterGenerator, window: usize, count: usize) -> Vec<f32> {
        generator.begin(Place::Noise { window });
        generator.standard_normal(count, NoiseDtype::F32)
    }

    #[test]
    fn numbers_come_from_the_published_words() {
        // The words of the zero counter under the zero key, which Random123 publishes.
        let words = [0x6627_e8d5_u64, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        let expected = |high: u64, low: u64| {
            let unit = (((high << 32 | low) >> 11) as f64 + 1.0) / 2.0_f64.powi(53);
            -unit.ln() as f32
        };
        let drawn = exponentials(&mut CounterGenerator::new(0), Place::Code { step: 0, codebook: 0 }, 2);
        assert_eq!(drawn, [expected(words[0], words[1]), expected(words[2], words[3])]);
    }

    #[test]
    fn a_draw_depends_on_its_place_alone() {
        let alone = exponentials(&mut CounterGenerator::new(7), FRAME, 9);
        let noise = normals(&mut CounterGenerator::new(7), 2, 9);
        let mut busy = CounterGenerator::new(7);
        for step in 0..5 {
            exponentials(&mut busy, Place::Code { step, codebook: 1 }, 100 + step);
            normals(&mut busy, step, 33);
        }
        assert_eq!(exponentials(&mut busy, FRAME, 9), alone);
        assert_eq!(normals(&mut busy, 2, 9), noise);
        // A longer draw begins with the shorter one, and a column is the same whether others are looked at or not.
        assert_eq!(normals(&mut busy, 2, 70)[..9], noise);
        busy.begin(FRAME);
        assert_eq!(busy.exponential_columns(9, &[4, 8]), [alone[4], alone[8]]);
    }

    #[test]
    fn every_part_of_a_place_and_of_the_seed_counts() {
        let draw = |seed, place| exponentials(&mut CounterGenerator::new(seed), place, 8);
        let first = draw(7, FRAME);
        let others = [
            draw(8, FRAME),
            draw(7 + (1 << 32), FRAME),
            draw(7, Place::Code { step: 4, codebook: 0 }),
            draw(7, Place::Code { step: 3, codebook: 1 }),
            draw(7, Place::Noise { window: 3 }),
        ];
        assert!(others.iter().all(|other| other != &first), "{others:?}");
    }

    #[test]
    fn numbers_have_the_moments_of_their_distributions() {
        let count = 200_000;
        let mean =
            |values: &[f32], power: i32| values.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / count as f64;
        // Four standard errors of each moment.
        let error = |variance: f64| 4.0 * (variance / f64::from(count)).sqrt();
        let drawn = exponentials(&mut CounterGenerator::new(1), FRAME, count as usize);
        assert!((mean(&drawn, 1) - 1.0).abs() < error(1.0) && (mean(&drawn, 2) - 2.0).abs() < error(20.0));
        assert!(drawn.iter().all(|&value| value >= 0.0 && value.is_finite()));
        let drawn = normals(&mut CounterGenerator::new(1), 0, count as usize);
        assert!(mean(&drawn, 1).abs() < error(1.0) && (mean(&drawn, 2) - 1.0).abs() < error(2.0));
        assert!(mean(&drawn, 3).abs() < error(15.0) && (mean(&drawn, 4) - 3.0).abs() < error(96.0));
    }

    #[test]
    fn bf16_noise_is_what_bf16_holds() {
        let mut generator = CounterGenerator::new(3);
        generator.begin(Place::Noise { window: 0 });
        let drawn = generator.standard_normal(40, NoiseDtype::Bf16);
        assert!(drawn.iter().all(|&value| bf16::from_f32(value).to_f32() == value));
    }

    #[test]
    #[should_panic = "column 3 after 6 of 10 in a row"]
    fn refuses_columns_that_do_not_ascend() {
        CounterGenerator::new(0).exponential_columns(10, &[5, 3]);
    }
}
