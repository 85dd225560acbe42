//! Random values for each kind of tensor, such that activations of a whole run stay finite and of ordinary size.
//!
//! Value `i` of a tensor depends on seed, component, name and `i` alone, so any part of it can be made by itself.

use crate::component::Component;

/// Bytes that one step of the generator gives.
const WORD: usize = 8;

/// The generator's stride: 2^64 over the golden ratio. Upstream of it: Steele, Lea and Flood's SplitMix64.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// How the values of one tensor are drawn: uniformly around a centre; a spread of zero is a constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Values {
    centre: f32,
    spread: f32,
    key: u64,
}

impl Values {
    /// The values that suit a tensor.
    pub(super) fn of(component: Component, name: &str, shape: &[usize], seed: u64) -> Self {
        let (centre, spread) = range(component, name, shape);
        let mut key = mix(seed.wrapping_add(STRIDE));
        for byte in component.folder().bytes().chain([b'/']).chain(name.bytes()) {
            key = mix(key ^ u64::from(byte));
        }
        Self { centre, spread, key }
    }

    /// Writes f32 values from the `first` on, which is a whole word's.
    pub(super) fn fill_f32(self, first: u64, bytes: &mut [u8]) {
        let scale = self.spread / 2f32.powi(31);
        let value = |bits: u32| (self.centre + (bits as i32 as f32 + 0.5) * scale).to_bits();
        let word = |word: u64| u64::from(value(word as u32)) | u64::from(value((word >> 32) as u32)) << 32;
        self.fill(first * 4 / WORD as u64, bytes, word);
    }

    /// Writes bf16 values from the `first` on, which is a whole word's.
    pub(super) fn fill_bf16(self, first: u64, bytes: &mut [u8]) {
        let scale = self.spread / 2f32.powi(15);
        let value = |bits: u64| u64::from(nearest_bf16(self.centre + (bits as u16 as i16 as f32 + 0.5) * scale));
        let word =
            |word: u64| value(word) | value(word >> 16) << 16 | value(word >> 32) << 32 | value(word >> 48) << 48;
        self.fill(first * 2 / WORD as u64, bytes, word);
    }

    fn fill(self, first_word: u64, bytes: &mut [u8], stored: impl Fn(u64) -> u64) {
        let drawn = |index: u64| mix(self.key.wrapping_add(index.wrapping_mul(STRIDE)));
        let mut index = first_word;
        let mut words = bytes.chunks_exact_mut(WORD);
        for word in &mut words {
            word.copy_from_slice(&stored(drawn(index)).to_le_bytes());
            index += 1;
        }
        let rest = words.into_remainder();
        let len = rest.len();
        rest.copy_from_slice(&stored(drawn(index)).to_le_bytes()[..len]);
    }
}

/// Centre and spread. Weights keep the size of what they are applied to: the variance of `√(3/fan_in)·uniform(−1, 1)` is
/// one over the inputs.
fn range(component: Component, name: &str, shape: &[usize]) -> (f32, f32) {
    let kind = name.rsplit('.').next().unwrap_or(name);
    let fan_in: usize = shape.iter().skip(1).product();
    let uniform = |gain: f32| (0.0, gain * (3.0 / fan_in as f32).sqrt());
    match (component, kind) {
        (_, "weight") if name.contains("norm") => (1.0, 0.0),
        (_, "bias") => (0.0, 0.02),
        // Rows of unit size, which the norms that follow expect; positions only tint them.
        (Component::RvqDepthDecoder, "weight") if name == "pos_embedding.weight" => (0.0, 0.1),
        (Component::LanguageModel | Component::RvqDepthDecoder, "weight") if name.contains("embed") => (0.0, 1.0),
        (Component::ConditionEncoder, "layer_weight_logits") => (0.0, 0.5),
        (Component::ConditionEncoder, "layer_scale") => (1.0, 0.0),
        // No norm follows these: a residual stream of many blocks becomes a velocity.
        (Component::Transformer, "weight") if name == "proj_out.weight" => uniform(0.4),
        (Component::Transformer, "weight") if name.starts_with("p") && name.contains("process_conv") => uniform(0.5),
        // Snake divides by it.
        (Component::Vocoder, "alpha") => (1.0, 0.5),
        // The length of each row of a weight, whatever weight_v holds.
        (Component::Vocoder, "weight_g") => {
            let gain = weight_norm_gain(name);
            (gain, gain / 4.0)
        }
        _ => uniform(1.0),
    }
}

/// Residual branches are small, so that blocks do not add up; the last convolution stays where tanh is not flat.
fn weight_norm_gain(name: &str) -> f32 {
    match () {
        () if name.starts_with("conv_out.") => 0.1,
        () if name.contains(".conv2.") => 0.3,
        // Each output has two taps of each input, and there are twice as many inputs as outputs.
        () if name.contains(".conv_t1.") => 1.5,
        () => 1.0,
    }
}

/// The output function of SplitMix64.
fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

/// To nearest, ties to even, for finite values: without the branches for others, so that it runs at memory's speed.
fn nearest_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().expect("four bytes"))).collect()
    }

    #[test]
    fn any_part_of_a_tensor_is_the_same_as_in_the_whole() {
        let values = Values::of(Component::Transformer, "proj_in.weight", &[7, 5], 3);
        let (mut whole, mut part) = (vec![0; 35 * 4], vec![0; 19 * 4]);
        values.fill_f32(0, &mut whole);
        values.fill_f32(16, &mut part);
        assert_eq!(part, whole[64..]);
        let (mut whole, mut part) = (vec![0; 35 * 2], vec![0; 19 * 2]);
        values.fill_bf16(0, &mut whole);
        values.fill_bf16(16, &mut part);
        assert_eq!(part, whole[32..]);
    }

    #[test]
    fn seed_component_and_name_all_matter() {
        let draw = |component, name, seed| {
            let mut bytes = vec![0; 64];
            Values::of(component, name, &[16, 1], seed).fill_f32(0, &mut bytes);
            bytes
        };
        let first = draw(Component::Transformer, "a.weight", 0);
        assert_eq!(first, draw(Component::Transformer, "a.weight", 0));
        for other in [
            draw(Component::Transformer, "a.weight", 1),
            draw(Component::Transformer, "b.weight", 0),
            draw(Component::ConditionEncoder, "a.weight", 0),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn a_weight_keeps_the_variance_of_its_inputs() {
        let (outputs, inputs) = (64, 256);
        let mut bytes = vec![0; outputs * inputs * 4];
        Values::of(Component::Transformer, "proj_in.weight", &[outputs, inputs], 0).fill_f32(0, &mut bytes);
        let values = floats(&bytes);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance = values.iter().map(|value| value * value).sum::<f32>() * inputs as f32 / values.len() as f32;
        assert!(mean.abs() < 0.001, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn each_kind_has_its_range() {
        let vocoder = |name, shape: &[usize]| range(Component::Vocoder, name, shape);
        assert_eq!(vocoder("snake_out.alpha", &[1, 96, 1]), (1.0, 0.5));
        assert_eq!(vocoder("blocks.0.res_unit1.conv2.weight_g", &[768, 1, 1]), (0.3, 0.075));
        assert_eq!(vocoder("conv_in.weight_v", &[6, 4, 3]), (0.0, 0.5));
        assert_eq!(range(Component::LanguageModel, "model.layers.0.self_attn.q_norm.weight", &[128]), (1.0, 0.0));
        assert_eq!(range(Component::Transformer, "transformer_blocks.0.norm1.bias", &[2048]), (0.0, 0.02));
        assert_eq!(range(Component::Transformer, "time_embed.linear_1.weight", &[8, 3]), (0.0, 1.0));
        assert_eq!(range(Component::RvqDepthDecoder, "pos_embedding.weight", &[16, 4096]), (0.0, 0.1));
        assert_eq!(range(Component::LanguageModel, "model.embed_tokens.weight", &[9, 9]), (0.0, 1.0));
    }

    #[test]
    fn rounds_as_bf16_does() {
        for value in [0.0, 1.0, -1.5, 1.003_906_3, 1.011_718_8, 0.333_333_34, -7.1e-5, 0.1 + 1.0] {
            assert_eq!(nearest_bf16(value), bf16::from_f32(value).to_bits(), "{value}");
        }
    }
}
