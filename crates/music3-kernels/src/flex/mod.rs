//! burn-flex: products in tiles that stay in a core's caches, convolutions that unfold nothing, and a periodic activation
//! in one pass.
//!
//! Everything is written once, for vectors of any width: [`pulp`] compiles it for what processors of the target have and
//! picks at run time.

mod conv;
mod few_rows;
mod many_rows;
mod products;
mod snake;
mod transposed;
mod value;

use std::any::Any;

use burn::tensor::{DType, Element, Tensor, TensorData, TensorPrimitive, backend::Backend};
use burn_flex::FlexTensor;
use half::bf16;

pub(crate) use self::few_rows::linear_bf16;
use self::{
    conv::{Geometry, Kernel},
    many_rows::Epilogue,
    value::Value,
};
use crate::path::kernels_are_on;

/// Products of fewer multiplications than this are over before threads have begun.
const LARGE: usize = 1 << 20;

/// See [`try_linear`](crate::try_linear).
pub(crate) fn linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: Option<&Tensor<B, 1>>,
    residual: Option<&Tensor<B, 2>>,
) -> Option<Tensor<B, 2>> {
    let shape = many_rows_shape(x, weight)?;
    let [rows, _, outputs] = shape;
    let given = Given::of([x], [weight], bias, residual)?;
    let dims = [rows, outputs];
    Some(match x.dtype() {
        DType::F32 => tensor(x, many_rows::linear::<f32>(&given.product(shape), &given.epilogue()), dims),
        _ => tensor(x, many_rows::linear::<bf16>(&given.product(shape), &given.epilogue()), dims),
    })
}

/// See [`try_gated_linear`](crate::try_gated_linear).
pub(crate) fn gated_linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: &Tensor<B, 1>,
) -> Option<Tensor<B, 2>> {
    let shape = many_rows_shape(x, weight)?;
    let [rows, _, outputs] = shape;
    if outputs % 2 != 0 {
        return None;
    }
    let given = Given::of::<B, 2, 2>([x], [weight], Some(bias), None)?;
    let dims = [rows, outputs / 2];
    Some(match x.dtype() {
        DType::F32 => tensor(x, many_rows::gated::<f32>(&given.product(shape), &given.epilogue()), dims),
        _ => tensor(x, many_rows::gated::<bf16>(&given.product(shape), &given.epilogue()), dims),
    })
}

/// See [`try_conv1d`](crate::try_conv1d).
pub(crate) fn conv1d<B: Backend>(
    x: &Tensor<B, 3>,
    weight: &Tensor<B, 3>,
    bias: Option<&Tensor<B, 1>>,
    residual: Option<&Tensor<B, 3>>,
    [padding, dilation]: [usize; 2],
) -> Option<Tensor<B, 3>> {
    let ([batch, inner, len], [outputs, weight_inner, taps]) = (x.dims(), weight.dims());
    let keeps_length = taps % 2 == 1 && 2 * padding == dilation * (taps - 1);
    let fits = residual.is_none_or(|residual| residual.dims() == [batch, outputs, len]);
    if !keeps_length || !fits || weight_inner != inner || batch * inner * taps * len * outputs < LARGE {
        return None;
    }
    let given = Given::of([x], [weight], bias, residual)?;
    let geometry = Geometry { batch, inner, outputs, len, taps, spacing: dilation, padding };
    let dims = [batch, outputs, len];
    Some(match x.dtype() {
        DType::F32 => tensor(x, conv::conv1d::<f32>(&given.kernel(), given.residual(), geometry), dims),
        _ => tensor(x, conv::conv1d::<bf16>(&given.kernel(), given.residual(), geometry), dims),
    })
}

/// See [`try_conv_transpose1d`](crate::try_conv_transpose1d).
pub(crate) fn conv_transpose1d<B: Backend>(
    x: &Tensor<B, 3>,
    weight: &Tensor<B, 3>,
    bias: Option<&Tensor<B, 1>>,
    [stride, padding]: [usize; 2],
) -> Option<Tensor<B, 3>> {
    let ([batch, inner, len], [weight_inner, outputs, taps]) = (x.dims(), weight.dims());
    let fits = taps == 2 * stride && weight_inner == inner && 2 * padding < (len + 1) * stride;
    if !fits || batch * inner * taps * len * outputs < LARGE {
        return None;
    }
    let given = Given::of::<B, 3, 3>([x], [weight], bias, None)?;
    let geometry = Geometry { batch, inner, outputs, len, taps, spacing: stride, padding };
    let dims = [batch, outputs, geometry.upsampled()];
    Some(match x.dtype() {
        DType::F32 => tensor(x, conv::conv_transpose1d::<f32>(&given.kernel(), geometry), dims),
        _ => tensor(x, conv::conv_transpose1d::<bf16>(&given.kernel(), geometry), dims),
    })
}

/// See [`try_snake`](crate::try_snake).
pub(crate) fn snake<B: Backend>(x: &Tensor<B, 3>, alpha: &Tensor<B, 3>, eps: f32) -> Option<Tensor<B, 3>> {
    let [_, channels, len] = x.dims();
    if alpha.dims() != [1, channels, 1] || len == 0 {
        return None;
    }
    let given = Given::of::<B, 3, 3>([x], [alpha], None, None)?;
    Some(match x.dtype() {
        DType::F32 => tensor(x, snake::snake::<f32>(values(&given.x), values(&given.weight), len, eps), x.dims()),
        _ => tensor(x, snake::snake::<bf16>(values(&given.x), values(&given.weight), len, eps), x.dims()),
    })
}

/// Rows, inner dimension and outputs of a product that is large enough for tiles.
fn many_rows_shape<B: Backend>(x: &Tensor<B, 2>, weight: &Tensor<B, 2>) -> Option<[usize; 3]> {
    let ([rows, inner], [outputs, weight_inner]) = (x.dims(), weight.dims());
    let fits = rows > few_rows::MAX_ROWS && inner == weight_inner && rows * inner * outputs >= LARGE;
    fits.then_some([rows, inner, outputs])
}

/// The tensors of a call, contiguous and all of one type, f32 or bf16.
struct Given {
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    residual: Option<FlexTensor>,
}

impl Given {
    fn of<B: Backend, const D: usize, const R: usize>(
        [x]: [&Tensor<B, D>; 1],
        [weight]: [&Tensor<B, D>; 1],
        bias: Option<&Tensor<B, 1>>,
        residual: Option<&Tensor<B, R>>,
    ) -> Option<Self> {
        let dtype = x.dtype();
        let alike = weight.dtype() == dtype
            && bias.is_none_or(|bias| bias.dtype() == dtype)
            && residual.is_none_or(|residual| residual.dtype() == dtype);
        if !kernels_are_on() || !alike || !matches!(dtype, DType::F32 | DType::BF16) {
            return None;
        }
        Some(Self {
            x: contiguous(x)?,
            weight: contiguous(weight)?,
            bias: bias.and_then(contiguous),
            residual: residual.and_then(contiguous),
        })
    }

    fn product<T: Value>(&self, shape: [usize; 3]) -> many_rows::Product<'_, T> {
        many_rows::Product { x: values(&self.x), weight: values(&self.weight), shape }
    }

    fn epilogue<T: Value>(&self) -> Epilogue<'_, T> {
        Epilogue { bias: self.bias.as_ref().map(values), residual: self.residual() }
    }

    fn kernel<T: Value>(&self) -> Kernel<'_, T> {
        Kernel { x: values(&self.x), weight: values(&self.weight), bias: self.bias.as_ref().map(values) }
    }

    fn residual<T: Value>(&self) -> Option<&[T]> {
        self.residual.as_ref().map(values)
    }
}

/// Returns the flex tensor inside, if `B` is burn-flex.
fn flex_tensor<B: Backend, const D: usize>(tensor: &Tensor<B, D>) -> Option<FlexTensor> {
    let TensorPrimitive::Float(primitive) = tensor.clone().into_primitive() else { return None };
    (&primitive as &dyn Any).downcast_ref::<FlexTensor>().cloned()
}

/// Returns the flex tensor inside, copied where its values do not lie in a row.
fn contiguous<B: Backend, const D: usize>(tensor: &Tensor<B, D>) -> Option<FlexTensor> {
    let tensor = flex_tensor(tensor)?;
    Some(if tensor.layout().contiguous_offsets().is_some() { tensor } else { tensor.to_contiguous() })
}

/// Returns the values of a contiguous tensor.
fn values<T: Value>(tensor: &FlexTensor) -> &[T] {
    let (start, end) = tensor.layout().contiguous_offsets().expect("the tensor was made contiguous");
    &tensor.storage::<T>()[start..end]
}

/// Returns values as a tensor beside `like`.
fn tensor<B: Backend, T: Element, const L: usize, const D: usize>(
    like: &Tensor<B, L>,
    values: Vec<T>,
    dims: [usize; D],
) -> Tensor<B, D> {
    Tensor::from_data(TensorData::new(values, dims), (&like.device(), T::dtype()))
}
