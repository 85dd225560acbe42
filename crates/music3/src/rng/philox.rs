//! Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): random words as a
//! function of a key and a counter, without a state that one draw would leave to the next.

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What the key grows by from round to round.
const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Returns the four random words of a counter under a key.
pub(super) fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
        }
        let product = |multiplier: u32, word: u32| {
            let wide = u64::from(multiplier) * u64::from(word);
            ((wide >> 32) as u32, wide as u32)
        };
        let (high_0, low_0) = product(MULTIPLIERS[0], counter[0]);
        let (high_1, low_1) = product(MULTIPLIERS[1], counter[2]);
        counter = [high_1 ^ counter[1] ^ key[0], low_1, high_0 ^ counter[3] ^ key[1], low_0];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers that the authors publish with their library, Random123.
    #[test]
    fn gives_the_published_words() {
        let ones = u32::MAX;
        let pi = ([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        let table = [
            (([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            (([ones; 4], [ones; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for ((counter, key), words) in table {
            assert_eq!(philox4x32_10(counter, key), words, "counter {counter:x?}, key {key:x?}");
        }
    }
}
