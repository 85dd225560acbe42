//! The Mersenne Twister, MT19937 (Matsumoto and Nishimura 1998), which torch's CPU generator is built on.

const WORDS: usize = 624;
const SHIFT: usize = 397;
const TWIST: u32 = 0x9908_b0df;

/// The generator's state.
#[derive(Debug, Clone)]
pub(super) struct Mt19937 {
    state: [u32; WORDS],
    /// The state word of the next draw; [`WORDS`] when all are used up.
    next: usize,
}

impl Mt19937 {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [seed; WORDS];
        for index in 1..WORDS {
            let last = state[index - 1];
            state[index] = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(index as u32);
        }
        Self { state, next: WORDS }
    }

    /// Draws 32 random bits.
    pub(super) fn draw(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// Draws twice: 64 random bits, the first draw on top.
    pub(super) fn draw_wide(&mut self) -> u64 {
        let high = u64::from(self.draw());
        high << 32 | u64::from(self.draw())
    }

    /// Advances by so many draws of 32 bits, without the work that makes a state word a draw.
    pub(super) fn skip(&mut self, draws: usize) {
        let mut left = draws;
        while left > WORDS - self.next {
            left -= WORDS - self.next;
            self.twist();
        }
        self.next += left;
    }

    /// Makes the next [`WORDS`] state words. Three loops without a remainder, which compilers turn into vector code: a
    /// semantic draw passes 400,000 draws.
    fn twist(&mut self) {
        let state = &mut self.state;
        for index in 0..WORDS - SHIFT {
            state[index] = state[index + SHIFT] ^ twisted(state[index], state[index + 1]);
        }
        for index in WORDS - SHIFT..WORDS - 1 {
            state[index] = state[index + SHIFT - WORDS] ^ twisted(state[index], state[index + 1]);
        }
        state[WORDS - 1] = state[SHIFT - 1] ^ twisted(state[WORDS - 1], state[0]);
        self.next = 0;
    }
}

fn twisted(high: u32, low: u32) -> u32 {
    let joined = (high & 0x8000_0000) | (low & 0x7fff_ffff);
    (joined >> 1) ^ ((joined & 1).wrapping_neg() & TWIST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_the_published_numbers() {
        // C++ fixes the ten-thousandth draw of `std::mt19937` under its default seed.
        let mut engine = Mt19937::new(5489);
        engine.skip(9_999);
        assert_eq!(engine.draw(), 4_123_659_995);
    }

    #[test]
    fn skipping_is_drawing() {
        for skipped in [0, 1, 5, 623, 624, 625, 1247, 1248, 1249, 400_000] {
            let mut engine = Mt19937::new(7);
            engine.draw();
            let mut skipping = engine.clone();
            for _ in 0..skipped {
                engine.draw();
            }
            skipping.skip(skipped);
            assert_eq!(skipping.draw(), engine.draw(), "{skipped} skipped");
        }
    }
}
