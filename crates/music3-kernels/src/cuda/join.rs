//! Matrices that one product can read: their rows follow each other in one piece of memory.

use burn_cubecl::cubecl::{self, prelude::*};
use cubecl::cuda::CudaRuntime;

use super::{CudaTensor, decode::array, weight_memory};

/// Threads of a cube.
const THREADS: u32 = 256;

#[cube(launch)]
fn copied(from: &Array<Vector<u32, Const<4>>>, to: &mut Array<Vector<u32, Const<4>>>) {
    if ABSOLUTE_POS < from.len() {
        to[ABSOLUTE_POS] = from[ABSOLUTE_POS];
    }
}

/// Copies matrices of one shape into one piece of memory and returns each as a view of it. `None` where they are of different
/// shapes, or do not begin at multiples of what the device wants.
pub(super) fn join(matrices: [CudaTensor; 3]) -> Option<[CudaTensor; 3]> {
    let [first, ..] = &matrices;
    let bytes = first.meta.num_elements() * first.dtype.size();
    let fits = bytes > 0
        && bytes.is_multiple_of(first.client.properties().memory.alignment as usize)
        && matrices.iter().all(|matrix| are_alike(matrix, first));
    if !fits || joined(&matrices).is_some() {
        return None;
    }
    let whole = weight_memory(&first.client, &first.device, 3 * bytes);
    let place = |index: usize| {
        let (before, behind) = (index * bytes, (2 - index) * bytes);
        whole.clone().offset_start(before as u64).offset_end(behind as u64)
    };
    let words = bytes / size_of::<u32>();
    for (index, matrix) in matrices.iter().enumerate() {
        let client = &matrix.client;
        let units = words / 4;
        copied::launch::<CudaRuntime>(
            client,
            cubecl::calculate_cube_count_elemwise(client, units, CubeDim::new_1d(THREADS)),
            CubeDim::new_1d(THREADS),
            array(&matrix.handle, words),
            array(&place(index), words),
        );
    }
    let mut views = matrices;
    for (index, view) in views.iter_mut().enumerate() {
        view.handle = place(index);
    }
    Some(views)
}

/// Returns the matrices as one whose rows are theirs, if [`join`] made them.
pub(super) fn joined(matrices: &[CudaTensor; 3]) -> Option<CudaTensor> {
    let [first, ..] = matrices;
    let [rows, columns] = *first.meta.shape().as_slice() else { return None };
    let bytes = (rows * columns * first.dtype.size()) as u64;
    let follow = matrices.iter().zip(0u64..).all(|(matrix, index)| {
        are_alike(matrix, first)
            && matrix.handle.size() == 3 * bytes
            && matrix.handle.offset_start.unwrap_or(0) == index * bytes
            && matrix.handle.offset_end.unwrap_or(0) == (2 - index) * bytes
    });
    // CubeCL compares no memory, but its description names it, before it says where it lies, which may change meanwhile.
    let memory = |matrix: &CudaTensor| {
        let text = format!("{:?}", matrix.handle.memory);
        text.split("location").next().map(str::to_owned)
    };
    if !follow || matrices[1..].iter().any(|matrix| memory(matrix) != memory(first)) {
        return None;
    }
    let (client, device) = (first.client.clone(), first.device.clone());
    let mut handle = first.handle.clone();
    (handle.offset_start, handle.offset_end) = (None, None);
    Some(CudaTensor::new_contiguous(client, device, [3 * rows, columns].into(), handle, first.dtype))
}

fn are_alike(matrix: &CudaTensor, first: &CudaTensor) -> bool {
    matrix.dtype == first.dtype && matrix.meta.shape() == first.meta.shape() && matrix.is_contiguous()
}
