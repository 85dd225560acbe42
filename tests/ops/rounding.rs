//! The rounding from f32 to bf16, from which all others follow.

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use half::bf16;
use music3_check::{Data, Values};
use music3_nn::{Width, ops};
use music3_testkit::on_each_backend;
use safetensors::SafeTensors;

use crate::{draw, golden};

on_each_backend!(
    rounds_tensors_to_bf16_as_torch_does,
    rounds_host_data_to_bf16_as_torch_does,
    widens_every_bf16_value_exactly,
    leaves_f32_as_it_is,
);

fn rounds_tensors_to_bf16_as_torch_does<B: Backend>(device: &B::Device) {
    let values = draw::to_round();
    assert_rounded_as_torch_does(&values, ops::round(stored_f32::<B>(&values, device), Width::Bf16));
}

fn rounds_host_data_to_bf16_as_torch_does<B: Backend>(device: &B::Device) {
    let values = draw::to_round();
    let data = TensorData::from(values.as_slice());
    assert_rounded_as_torch_does(&values, ops::from_data::<B, 1>(data, Width::Bf16, device));
}

fn widens_every_bf16_value_exactly<B: Backend>(device: &B::Device) {
    let values: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let stored = ops::from_data::<B, 1>(TensorData::from(values.as_slice()), Width::Bf16, device);
    let wide = bits(ops::widen(stored.clone()), Width::F32);
    let kept = bits(stored, Width::Bf16);
    for (index, value) in values.iter().enumerate() {
        let expected = value.to_f32();
        let same = |bits: u32| bits == expected.to_bits() || expected.is_nan() && f32::from_bits(bits).is_nan();
        assert!(same(wide[index]), "{index:#06x} widens to {:#010x}", wide[index]);
        assert!(same(kept[index]), "{index:#06x} is stored as {:#010x}", kept[index]);
    }
}

fn leaves_f32_as_it_is<B: Backend>(device: &B::Device) {
    let values = draw::to_round();
    let kept = bits(ops::round(stored_f32::<B>(&values, device), Width::F32), Width::F32);
    let same =
        |(value, &bits): (&f32, &u32)| value.to_bits() == bits || value.is_nan() && f32::from_bits(bits).is_nan();
    assert_eq!(values.iter().zip(&kept).position(|pair| !same(pair)), None);
}

/// Torch's answer is one bit a value: whether it moves away from zero, to the next bf16 value or infinity.
fn assert_rounded_as_torch_does<B: Backend>(values: &[f32], rounded: Tensor<B, 1>) {
    let bytes = golden::bytes("rounding");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let away = file.tensor("out.away_from_zero").expect("the one tensor of the file").data();
    assert_eq!(away.len(), values.len().div_ceil(8), "one bit for each value");
    let rounded = bits(rounded, Width::Bf16);
    assert_eq!(rounded.len(), values.len());
    for (index, (value, &found)) in values.iter().zip(&rounded).enumerate() {
        let truncated = value.to_bits() & 0xffff_0000;
        let expected = truncated + (u32::from(away[index / 8] >> (index % 8) & 1) << 16);
        let right = if value.is_nan() { f32::from_bits(found).is_nan() } else { found == expected };
        assert!(right, "{:#010x} rounds to {found:#010x}, in torch to {expected:#010x}", value.to_bits());
    }
}

fn stored_f32<B: Backend>(values: &[f32], device: &B::Device) -> Tensor<B, 1> {
    Tensor::from_data(TensorData::from(values), (device, DType::F32))
}

/// Returns the values' f32 bits; in bf16 every one of them has to be a bf16 value.
fn bits<B: Backend>(tensor: Tensor<B, 1>, width: Width) -> Vec<u32> {
    match Values::of(tensor, width).data() {
        Data::Bf16(values) => values.iter().map(|value| u32::from(value.to_bits()) << 16).collect(),
        Data::F32(values) if width == Width::F32 => values.iter().map(|value| value.to_bits()).collect(),
        _ => panic!("some value is no {width} value"),
    }
}
