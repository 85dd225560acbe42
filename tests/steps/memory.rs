//! What a device says of its memory: loads and stages go by it.

use burn::tensor::{DType, Tensor, backend::Backend};
use music3_nn::free_device_bytes;

type B = music3_testkit::Cuda;

/// 8 GiB in f32: other tests beside this one take far less.
const VALUES: usize = 2 << 30;

#[test]
fn memory_on_cuda_is_counted_as_taken_until_it_is_given_back() {
    let device = Default::default();
    let free = || free_device_bytes::<B>(&device).expect("a GPU has memory of its own");
    let bytes = 4 * VALUES as u64;
    let before = free();
    let taken: Tensor<B, 1> = Tensor::ones([VALUES], (&device, DType::F32));
    B::sync(&device).expect("nothing failed");
    assert!(free() < before - bytes / 2, "{} of {before} are free beside a tensor of {bytes}", free());
    drop(taken);
    B::memory_cleanup(&device);
    B::sync(&device).expect("nothing failed");
    println!("free: {before} before a tensor of {bytes}, {} after it", free());
    assert!(free() > before - bytes / 2, "{} of {before} are free without it", free());
}
