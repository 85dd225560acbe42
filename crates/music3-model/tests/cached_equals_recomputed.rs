//! Reading a sequence step by step through a cache gives what reading it at once gives.
#![allow(clippy::tests_outside_test_module, reason = "an integration test")]

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use music3_model::{DepthDecoderConfig, Qwen3Config};
use music3_nn::{Width, ops};

/// Values of about unit size from a counter.
fn values<B: Backend>(shape: [usize; 3], seed: u32, width: Width, device: &B::Device) -> Tensor<B, 3> {
    let mut state = seed;
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (f64::from(state >> 8) / f64::from(1 << 23) - 1.0) as f32
        })
        .collect();
    ops::round(Tensor::from_data(TensorData::new(values, shape), (device, DType::F32)), width)
}

fn host<B: Backend>(x: Tensor<B, 3>) -> Vec<f32> {
    ops::widen(x).into_data().into_vec().expect("widened tensors are f32")
}

/// Both ways of reading seventeen positions of two rows, split into a prefill and single steps.
fn language_model<B: Backend>(width: Width, device: &B::Device) -> [Vec<f32>; 2] {
    let config: Qwen3Config = serde_json::from_str(
        r#"{"vocab_size": 11, "hidden_size": 30, "intermediate_size": 52, "num_hidden_layers": 3,
            "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10, "rope_theta": 1000000.0}"#,
    )
    .expect("the keys of a config.json");
    B::seed(device, 7);
    let model = config.init::<B>(width, device).expect("a sound configuration");
    let inputs = values::<B>([2, 17, 30], 3, width, device);
    let whole = model.forward(inputs.clone(), &mut model.state(2, 17));
    let mut state = model.state(2, 20);
    let mut steps = vec![model.forward(inputs.clone().narrow(1, 0, 5), &mut state)];
    for position in 5..17 {
        assert_eq!(state.position(), position);
        steps.push(model.forward(inputs.clone().narrow(1, position, 1), &mut state));
    }
    [host(whole), host(Tensor::cat(steps, 1))]
}

/// A position that is read, gone back to and read again, after others were read in its place.
fn rewound<B: Backend>(device: &B::Device) -> [Vec<f32>; 2] {
    let config: Qwen3Config = serde_json::from_str(
        r#"{"vocab_size": 7, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
            "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 6}"#,
    )
    .expect("the keys of a config.json");
    B::seed(device, 9);
    let model = config.init::<B>(Width::F32, device).expect("a sound configuration");
    let [prompt, step, others] =
        [(5, 1), (1, 2), (3, 3)].map(|(tokens, seed)| values::<B>([2, tokens, 12], seed, Width::F32, device));
    let mut state = model.state(2, 8);
    let _ = model.forward(prompt, &mut state);
    let first = model.forward(step.clone(), &mut state);
    state.rewind(5);
    let _ = model.forward(others, &mut state);
    state.rewind(5);
    assert_eq!(state.position(), 5);
    [host(first), host(model.forward(step, &mut state))]
}

/// Both ways of reading a depth sequence: the pipeline's two steps at once and then one by one.
fn depth_decoder<B: Backend>(width: Width, device: &B::Device) -> [Vec<f32>; 2] {
    let config = DepthDecoderConfig {
        hidden_size: 60,
        num_layers: 3,
        num_attention_heads: 5,
        intermediate_size: 44,
        audio_vocab_size: 9,
        ..DepthDecoderConfig::default()
    };
    B::seed(device, 8);
    let model = config.init::<B>(width, device).expect("a sound configuration");
    let inputs = values::<B>([2, 16, 60], 5, width, device);
    let whole = model.forward(inputs.clone());
    let mut cache = model.cache(2, 16);
    let mut steps = vec![model.forward_cached(inputs.clone().narrow(1, 0, 2), &mut cache)];
    steps.extend((2..16).map(|step| model.forward_cached(inputs.clone().narrow(1, step, 1), &mut cache)));
    [host(whole), host(Tensor::cat(steps, 1))]
}

fn assert_close([whole, steps]: [Vec<f32>; 2]) {
    let rms = (whole.iter().map(|x| f64::from(x * x)).sum::<f64>() / whole.len() as f64).sqrt();
    assert!(rms > 0.1, "the outputs are not trivial: rms {rms}");
    for (index, (a, b)) in whole.iter().zip(&steps).enumerate() {
        assert!(f64::from((a - b).abs()) <= 1e-5 * f64::from(a.abs()) + 1e-5 * rms, "value {index}: {a} and {b}");
    }
}

/// Asserts that at least `share` of the bf16 values are equal and that the others are neighbours.
fn assert_neighbours([whole, steps]: [Vec<f32>; 2], share: f64) {
    let place = |x: f32| {
        let bits = i32::from((x.to_bits() >> 16) as u16 as i16);
        if bits < 0 { -(bits & 0x7fff) } else { bits }
    };
    let equal = whole.iter().zip(&steps).filter(|(a, b)| a.to_bits() == b.to_bits()).count();
    assert!(equal as f64 >= share * whole.len() as f64, "{equal} of {} values are equal", whole.len());
    let furthest = whole.iter().zip(&steps).map(|(a, b)| (place(*a) - place(*b)).abs()).max();
    assert!(furthest <= Some(1), "{furthest:?} places apart");
}

macro_rules! on_each_backend {
    ($($backend:ident: $type:ty),*) => {$(
        mod $backend {
            use super::*;

            #[test]
            fn the_language_model_agrees_in_f32() {
                assert_close(language_model::<$type>(Width::F32, &Default::default()));
            }

            #[test]
            fn the_language_model_agrees_in_bf16() {
                assert_neighbours(language_model::<$type>(Width::Bf16, &Default::default()), 0.999);
            }

            #[test]
            fn a_rewound_state_reads_as_if_it_had_not_gone_on() {
                let [first, again] = rewound::<$type>(&Default::default());
                assert!(first.iter().any(|value| value.abs() > 0.1));
                assert_eq!(first, again);
            }

            #[test]
            fn the_depth_decoder_agrees_in_f32() {
                assert_close(depth_decoder::<$type>(Width::F32, &Default::default()));
            }

            #[test]
            fn the_depth_decoder_agrees_bit_for_bit_in_bf16() {
                assert_neighbours(depth_decoder::<$type>(Width::Bf16, &Default::default()), 1.0);
            }

            #[test]
            #[should_panic(expected = "17 depth steps; the position table has 16")]
            fn a_depth_sequence_past_its_positions_is_refused() {
                let device = Default::default();
                let config = DepthDecoderConfig { hidden_size: 4, num_attention_heads: 1, ..DepthDecoderConfig::default() };
                config.init::<$type>(Width::F32, &device).expect("a sound configuration").cache(2, 17);
            }
        }
    )*};
}

on_each_backend!(flex: Flex, ndarray: NdArray);
