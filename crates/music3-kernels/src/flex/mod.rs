//! burn-flex: products in tiles that stay in a core's caches, convolutions that unfold nothing, and a periodic activation
//! in one pass.
//!
//! Everything is written once, for vectors of any width: [`pulp`] compiles it for what processors of the target have and
//! picks at run time.

mod attention;
mod conv;
mod dots;
mod few_rows;
mod many_rows;
mod products;
mod rows;
mod snake;
mod transposed;
mod value;

use std::any::{Any, TypeId};

use burn::tensor::{DType, Tensor, TensorData, TensorPrimitive, backend::Backend};
use burn_flex::FlexTensor;
use half::bf16;

pub(crate) use self::few_rows::linear_bf16;
use self::{
    attention::Attention,
    conv::{Geometry, Kernel},
    many_rows::Epilogue,
    rows::Rotation,
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
    Some(tensor(x, Given::of([x, weight], bias, residual)?.linear(shape)))
}

/// See [`try_gated_linear`](crate::try_gated_linear).
pub(crate) fn gated_linear<B: Backend>(
    x: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    bias: &Tensor<B, 1>,
) -> Option<Tensor<B, 2>> {
    let shape = many_rows_shape(x, weight).filter(|[_, _, outputs]| outputs % 2 == 0)?;
    Some(tensor(x, Given::of([x, weight], Some(bias), None)?.gated(shape)))
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
    let geometry = Geometry { batch, inner, outputs, len, taps, spacing: dilation, padding };
    Some(tensor(x, Given::of([x, weight], bias, residual)?.conv1d(geometry)))
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
    let geometry = Geometry { batch, inner, outputs, len, taps, spacing: stride, padding };
    Some(tensor(x, Given::of([x, weight], bias, None)?.conv_transpose1d(geometry)))
}

/// See [`try_snake`](crate::try_snake).
pub(crate) fn snake<B: Backend>(x: &Tensor<B, 3>, alpha: &Tensor<B, 3>, eps: f32) -> Option<Tensor<B, 3>> {
    let [batch, channels, len] = x.dims();
    if alpha.dims() != [1, channels, 1] || batch * channels * len == 0 {
        return None;
    }
    Some(tensor(x, Given::of([x, alpha], None, None)?.snake(x.dims(), eps)))
}

/// See [`try_layer_norm`](crate::try_layer_norm).
pub(crate) fn layer_norm<B: Backend, const D: usize>(
    x: &Tensor<B, D>,
    weight: &Tensor<B, 1>,
    bias: &Tensor<B, 1>,
    eps: f32,
) -> Option<Tensor<B, D>> {
    let dims = x.dims();
    let fits = is_flex::<B>()
        && dims.iter().all(|size| *size > 0)
        && weight.dims() == [dims[D - 1]]
        && bias.dims() == weight.dims();
    let given = fits.then(|| Given::of([x, &weight.clone().unsqueeze()], Some(bias), None)).flatten()?;
    Some(tensor(x, given.layer_norm(&dims, eps)))
}

/// See [`try_rotate_heads`](crate::try_rotate_heads).
pub(crate) fn rotate_heads<B: Backend>(
    x: &Tensor<B, 3>,
    heads: usize,
    [cosines, sines]: [&Tensor<B, 2>; 2],
) -> Option<Tensor<B, 4>> {
    let [batch, tokens, width] = x.dims();
    let [rows, rotary_dim] = cosines.dims();
    let fits = is_flex::<B>()
        && batch * tokens * heads > 0
        && width % heads == 0
        && rows == tokens
        && sines.dims() == cosines.dims();
    if !fits || rotary_dim % 2 != 0 || rotary_dim > width / heads {
        return None;
    }
    let given = Given::of([x, &cosines.clone().unsqueeze()], None, Some(&sines.clone().unsqueeze()))?;
    Some(tensor(x, given.rotate_heads([batch, tokens, heads, width / heads])))
}

/// See [`try_attend`](crate::try_attend).
pub(crate) fn attend<B: Backend>(
    query: &Tensor<B, 4>,
    key: &Tensor<B, 4>,
    value: &Tensor<B, 4>,
    scale: f32,
) -> Option<Tensor<B, 4>> {
    let ([batch, heads, queries, head_dim], [_, _, keys, _]) = (query.dims(), key.dims());
    let fits = key.dims() == [batch, heads, keys, head_dim] && value.dims() == key.dims();
    if !fits || batch * heads * queries * keys * head_dim < LARGE {
        return None;
    }
    let given = Given::of([query, key], None, Some(value))?;
    Some(tensor(query, given.attend([batch, heads, queries, head_dim], keys, scale)))
}

/// Rows, inner dimension and outputs of a product that is large enough for tiles.
fn many_rows_shape<B: Backend>(x: &Tensor<B, 2>, weight: &Tensor<B, 2>) -> Option<[usize; 3]> {
    let ([rows, inner], [outputs, weight_inner]) = (x.dims(), weight.dims());
    let fits = rows > few_rows::MAX_ROWS && inner == weight_inner && rows * inner * outputs >= LARGE;
    fits.then_some([rows, inner, outputs])
}

/// The tensors of a call, contiguous and all of one type, f32 or bf16.
///
/// What computes with them is not generic over the backend, so that it is compiled with this crate and as this crate is
/// optimised.
struct Given {
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    residual: Option<FlexTensor>,
}

impl Given {
    fn of<B: Backend, const D: usize>(
        [x, weight]: [&Tensor<B, D>; 2],
        bias: Option<&Tensor<B, 1>>,
        residual: Option<&Tensor<B, D>>,
    ) -> Option<Self> {
        let dtype = x.dtype();
        let alike = weight.dtype() == dtype
            && bias.is_none_or(|bias| bias.dtype() == dtype)
            && residual.is_none_or(|residual| residual.dtype() == dtype);
        if !is_flex::<B>() || !kernels_are_on() || !alike || !matches!(dtype, DType::F32 | DType::BF16) {
            return None;
        }
        let (bias, residual) = (bias.and_then(contiguous), residual.and_then(contiguous));
        Some(Self { x: contiguous(x)?, weight: contiguous(weight)?, bias, residual })
    }

    fn is_wide(&self) -> bool {
        self.x.dtype() == DType::F32
    }

    fn linear(&self, shape: [usize; 3]) -> TensorData {
        fn call<T: Value>(given: &Given, shape: [usize; 3]) -> TensorData {
            let [rows, _, outputs] = shape;
            TensorData::new(many_rows::linear::<T>(&given.product(shape), &given.epilogue()), [rows, outputs])
        }
        if self.is_wide() { call::<f32>(self, shape) } else { call::<bf16>(self, shape) }
    }

    fn gated(&self, shape: [usize; 3]) -> TensorData {
        fn call<T: Value>(given: &Given, shape: [usize; 3]) -> TensorData {
            let [rows, _, outputs] = shape;
            TensorData::new(many_rows::gated::<T>(&given.product(shape), &given.epilogue()), [rows, outputs / 2])
        }
        if self.is_wide() { call::<f32>(self, shape) } else { call::<bf16>(self, shape) }
    }

    fn conv1d(&self, geometry: Geometry) -> TensorData {
        fn call<T: Value>(given: &Given, geometry: Geometry) -> TensorData {
            let residual = given.residual.as_ref().map(values::<T>);
            let dims = [geometry.batch, geometry.outputs, geometry.len];
            TensorData::new(conv::conv1d(&given.kernel(), residual, geometry), dims)
        }
        if self.is_wide() { call::<f32>(self, geometry) } else { call::<bf16>(self, geometry) }
    }

    fn conv_transpose1d(&self, geometry: Geometry) -> TensorData {
        fn call<T: Value>(given: &Given, geometry: Geometry) -> TensorData {
            let dims = [geometry.batch, geometry.outputs, geometry.upsampled()];
            TensorData::new(conv::conv_transpose1d::<T>(&given.kernel(), geometry), dims)
        }
        if self.is_wide() { call::<f32>(self, geometry) } else { call::<bf16>(self, geometry) }
    }

    fn snake(&self, dims: [usize; 3], eps: f32) -> TensorData {
        fn call<T: Value>(given: &Given, dims: [usize; 3], eps: f32) -> TensorData {
            TensorData::new(snake::snake::<T>(values(&given.x), values(&given.weight), dims[2], eps), dims)
        }
        if self.is_wide() { call::<f32>(self, dims, eps) } else { call::<bf16>(self, dims, eps) }
    }

    fn layer_norm(&self, dims: &[usize], eps: f32) -> TensorData {
        fn call<T: Value>(given: &Given, dims: &[usize], eps: f32) -> TensorData {
            let Epilogue { bias, .. } = given.epilogue::<T>();
            let bias = bias.expect("a layer norm has a bias");
            TensorData::new(rows::layer_norm(values(&given.x), values(&given.weight), bias, eps), dims)
        }
        if self.is_wide() { call::<f32>(self, dims, eps) } else { call::<bf16>(self, dims, eps) }
    }

    /// The weight holds cosines, the residual sines.
    fn rotate_heads(&self, dims: [usize; 4]) -> TensorData {
        fn call<T: Value>(given: &Given, [batch, tokens, heads, head_dim]: [usize; 4]) -> TensorData {
            let sines = given.epilogue().residual.expect("sines come with cosines");
            let (x, cosines) = (values::<T>(&given.x), values(&given.weight));
            let rotation = Rotation { x, cosines, sines, shape: [tokens, heads, head_dim] };
            TensorData::new(rows::rotate_heads(&rotation), [batch, heads, tokens, head_dim])
        }
        if self.is_wide() { call::<f32>(self, dims) } else { call::<bf16>(self, dims) }
    }

    /// The weight holds keys, the residual values.
    fn attend(&self, dims: [usize; 4], keys: usize, scale: f32) -> TensorData {
        fn call<T: Value>(given: &Given, dims: [usize; 4], keys: usize, scale: f32) -> TensorData {
            let value = given.epilogue().residual.expect("values come with keys");
            let (query, key) = (values::<T>(&given.x), values(&given.weight));
            let attention = Attention { query, key, value, shape: [dims[2], keys, dims[3]], scale };
            TensorData::new(attention::attend(&attention), dims)
        }
        if self.is_wide() { call::<f32>(self, dims, keys, scale) } else { call::<bf16>(self, dims, keys, scale) }
    }

    fn product<T: Value>(&self, shape: [usize; 3]) -> many_rows::Product<'_, T> {
        many_rows::Product { x: values(&self.x), weight: values(&self.weight), shape }
    }

    fn epilogue<T: Value>(&self) -> Epilogue<'_, T> {
        Epilogue { bias: self.bias.as_ref().map(values), residual: self.residual.as_ref().map(values) }
    }

    fn kernel<T: Value>(&self) -> Kernel<'_, T> {
        Kernel { x: values(&self.x), weight: values(&self.weight), bias: self.bias.as_ref().map(values) }
    }
}

/// Returns whether `B` is burn-flex. Known when a caller is compiled, so that other backends pay nothing for being asked.
fn is_flex<B: Backend>() -> bool {
    TypeId::of::<B::FloatTensorPrimitive>() == TypeId::of::<FlexTensor>()
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
fn tensor<B: Backend, const L: usize, const D: usize>(like: &Tensor<B, L>, values: TensorData) -> Tensor<B, D> {
    let dtype = values.dtype;
    Tensor::from_data(values, (&like.device(), dtype))
}
