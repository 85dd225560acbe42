//! cuBLASLt on CubeCL's device thread.
//!
//! Handles, descriptors and plans live on that thread.
#![allow(unsafe_code, reason = "calls into the CUDA driver and cuBLASLt")]

use std::{cell::RefCell, collections::HashMap, ffi::c_void, ptr, sync::OnceLock};

use burn_cubecl::cubecl::{device::DeviceId, server::Handle};
use cudarc::{
    cublaslt::{
        result::{self as lt, CublasError},
        sys::{
            self as lt_sys, cublasComputeType_t, cublasLtMatmulDescAttributes_t as Desc,
            cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayoutAttribute_t as LayoutAttribute,
            cudaDataType,
        },
    },
    driver::{result as driver, sys::CUstream},
};

use super::{
    layout::Batched,
    task::{self, Described, Queue},
};

/// Scratch memory a plan may use; cuBLASLt's own recommendation for this chip.
const WORKSPACE_BYTES: usize = 32 << 20;

/// `CUBLAS_OP_N` and `CUBLAS_OP_T`, whose type the bindings of this library leave out.
const AS_IT_IS: u32 = 0;
const TRANSPOSED: u32 = 1;

/// Returns whether the library can be opened; a missing one would panic at the first call.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    // SAFETY: opening a library runs its initialisers; cuBLASLt's only set up its own state.
    *AVAILABLE.get_or_init(|| unsafe { lt_sys::is_culib_present() })
}

/// What the operands of a product are, and how they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operands {
    /// bf16 values.
    Bf16,
    /// f32 values, multiplied as f32.
    F32,
    /// f32 values, rounded to TF32.
    Tf32,
}

/// A product of two batches of matrices, summed in f32 into contiguous rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    pub(super) a: Batched,
    pub(super) b: Batched,
    pub(super) operands: Operands,
    /// Whether the product is added to what the output holds.
    pub(super) accumulate: bool,
    /// Whether the sums are rounded to bf16; else the output is f32.
    pub(super) rounded: bool,
    /// Whether a bias, one value a column in the output's type, is added before the rounding.
    pub(super) biased: bool,
}

/// A product with its place: which of a task's handles its operands are, and how many bytes into them it begins.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) product: Product,
    pub(super) a: (usize, u64),
    pub(super) b: (usize, u64),
    /// Which handle is the bias, where there is one.
    pub(super) bias: Option<usize>,
}

/// Enqueues products on the device, one after the other; the last handle is the output of them all.
pub(super) fn enqueue(device: DeviceId, steps: Vec<Step>, handles: Vec<Handle>) {
    task::enqueue(device, handles, move |pointers| {
        LIBRARIES.with_borrow_mut(|libraries| {
            let library = match libraries.entry(device) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Library::open()?),
            };
            let out = pointers[pointers.len() - 1];
            library.multiply_all(&steps, pointers, out)
        })
    });
}

thread_local! {
    /// One library handle per device, on that device's thread.
    static LIBRARIES: RefCell<HashMap<DeviceId, Library>> = RefCell::default();
}

impl<T> Described<T> for Result<T, CublasError> {
    fn described(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("cublasLt: {what}: {:?}", error.0))
    }
}

/// A library handle with its queue, its scratch memory and the plans made so far.
struct Library {
    handle: lt_sys::cublasLtHandle_t,
    queue: Queue,
    workspace: u64,
    plans: HashMap<Product, Plan>,
}

impl Library {
    fn open() -> Result<Self, String> {
        let handle = lt::create_handle().described("create a handle")?;
        // SAFETY: the context is current on this thread.
        let workspace = unsafe { driver::malloc_sync(WORKSPACE_BYTES) }.described("allocate scratch memory")?;
        Ok(Self { handle, queue: Queue::open()?, workspace, plans: HashMap::new() })
    }

    fn multiply_all(&mut self, steps: &[Step], pointers: &[u64], out: u64) -> Result<(), String> {
        for step in steps.iter().filter(|step| !self.plans.contains_key(&step.product)).collect::<Vec<_>>() {
            self.plans.insert(step.product.clone(), Plan::new(self.handle, &step.product)?);
        }
        self.queue.between(|stream| {
            steps.iter().try_for_each(|step| {
                let operand = |(index, offset): (usize, u64)| pointers[index] + offset;
                let bias = step.bias.map(|index| pointers[index]);
                self.multiply(&step.product, [operand(step.a), operand(step.b), out], bias, stream)
            })
        })
    }

    fn multiply(
        &self,
        product: &Product,
        [a, b, out]: [u64; 3],
        bias: Option<u64>,
        stream: CUstream,
    ) -> Result<(), String> {
        let plan = &self.plans[product];
        if let Some(bias) = bias {
            plan.set(Desc::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        let (one, added) = (1.0f32, if product.accumulate { 1.0f32 } else { 0.0 });
        let scalar = |value: &f32| ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the pointers lie in allocations of this context that are held by the caller and large enough for the
        // layouts, which describe the tensors they belong to.
        unsafe {
            // Row-major A·B is column-major Bᵀ·Aᵀ, so the operands change places.
            lt::matmul(
                self.handle,
                plan.desc,
                scalar(&one),
                scalar(&added),
                b as *const c_void,
                plan.left,
                a as *const c_void,
                plan.right,
                out as *const c_void,
                plan.out,
                out as *mut c_void,
                plan.out,
                &plan.algorithm,
                self.workspace as *mut c_void,
                WORKSPACE_BYTES,
                stream.cast(),
            )
        }
        .described("multiply")
    }
}

/// What cuBLASLt decided for one shape. Plans live as long as their device thread.
struct Plan {
    desc: lt_sys::cublasLtMatmulDesc_t,
    left: lt_sys::cublasLtMatrixLayout_t,
    right: lt_sys::cublasLtMatrixLayout_t,
    out: lt_sys::cublasLtMatrixLayout_t,
    algorithm: lt_sys::cublasLtMatmulAlgo_t,
}

impl Plan {
    /// Sets an attribute of the description.
    fn set<T>(&self, attribute: Desc, value: &T) -> Result<(), String> {
        set_attribute(self.desc, attribute, value)
    }

    fn new(handle: lt_sys::cublasLtHandle_t, product: &Product) -> Result<Self, String> {
        let Product { a, b, operands, rounded, biased, .. } = product;
        let count = a.count().max(b.count());
        // CUBLAS_COMPUTE_32F multiplies f32 operands as f32; the FAST_ forms are the ones that round them.
        let (operand, compute) = match operands {
            Operands::Bf16 => (cudaDataType::CUDA_R_16BF, cublasComputeType_t::CUBLAS_COMPUTE_32F),
            Operands::F32 => (cudaDataType::CUDA_R_32F, cublasComputeType_t::CUBLAS_COMPUTE_32F),
            Operands::Tf32 => (cudaDataType::CUDA_R_32F, cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32),
        };
        let desc = lt::create_matmul_desc(compute, cudaDataType::CUDA_R_32F).described("describe the product")?;
        // A row-major matrix is its transpose in column-major terms.
        for (attribute, matrix) in [(Desc::CUBLASLT_MATMUL_DESC_TRANSA, b), (Desc::CUBLASLT_MATMUL_DESC_TRANSB, a)] {
            set_attribute(desc, attribute, &if matrix.column_major { TRANSPOSED } else { AS_IT_IS })?;
        }
        if *biased {
            let epilogue = lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set_attribute(desc, Desc::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        }
        let left = operand_layout(b, operand, count)?;
        let right = operand_layout(a, operand, count)?;
        let out_dtype = if *rounded { cudaDataType::CUDA_R_16BF } else { cudaDataType::CUDA_R_32F };
        let out = layout([b.columns, a.rows], b.columns, out_dtype, (count, a.rows * b.columns))?;
        let algorithm = choose(handle, desc, [left, right, out])?;
        Ok(Self { desc, left, right, out, algorithm })
    }
}

/// Sets an attribute of a product's description; the value's type must be the attribute's.
fn set_attribute<T>(desc: lt_sys::cublasLtMatmulDesc_t, attribute: Desc, value: &T) -> Result<(), String> {
    // SAFETY: the description is alive, and the library copies as many bytes as the value has.
    unsafe { lt::set_matmul_desc_attribute(desc, attribute, ptr::from_ref(value).cast(), size_of_val(value)) }
        .described("describe the product")
}

fn operand_layout(
    matrix: &Batched,
    dtype: cudaDataType,
    count: usize,
) -> Result<lt_sys::cublasLtMatrixLayout_t, String> {
    let size = if matrix.column_major { [matrix.rows, matrix.columns] } else { [matrix.columns, matrix.rows] };
    layout(size, matrix.leading, dtype, (count, matrix.stride_for(count)))
}

/// A column-major layout of `count` matrices, `stride` elements apart.
fn layout(
    [rows, columns]: [usize; 2],
    leading: usize,
    dtype: cudaDataType,
    (count, stride): (usize, usize),
) -> Result<lt_sys::cublasLtMatrixLayout_t, String> {
    let layout =
        lt::create_matrix_layout(dtype, rows as u64, columns as u64, leading as i64).described("describe a matrix")?;
    let count = i32::try_from(count).map_err(|_| format!("cublasLt: a batch of {count} matrices is too large"))?;
    let stride = stride as i64;
    // SAFETY: the layout was just made, and the attributes are of these types.
    unsafe {
        lt::set_matrix_layout_attribute(
            layout,
            LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
            ptr::from_ref(&count).cast(),
            size_of_val(&count),
        )
        .described("set a batch")?;
        lt::set_matrix_layout_attribute(
            layout,
            LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            ptr::from_ref(&stride).cast(),
            size_of_val(&stride),
        )
        .described("set a batch's stride")?;
    }
    Ok(layout)
}

/// Asks for the algorithm once per shape: a rule, not a measurement, so it is the same in every run.
fn choose(
    handle: lt_sys::cublasLtHandle_t,
    desc: lt_sys::cublasLtMatmulDesc_t,
    [left, right, out]: [lt_sys::cublasLtMatrixLayout_t; 3],
) -> Result<lt_sys::cublasLtMatmulAlgo_t, String> {
    let preference = lt::create_matmul_pref().described("make a preference")?;
    let bytes = WORKSPACE_BYTES;
    // SAFETY: all descriptions were made above; the preference is destroyed once.
    unsafe {
        lt::set_matmul_pref_attribute(
            preference,
            Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            ptr::from_ref(&bytes).cast(),
            size_of_val(&bytes),
        )
        .described("set the scratch memory")?;
        // Parts of a sum that are computed apart are added in f32, never in the output's type.
        let reductions = lt_sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        lt::set_matmul_pref_attribute(
            preference,
            Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            ptr::from_ref(&reductions).cast(),
            size_of_val(&reductions),
        )
        .described("set how sums are split")?;
        let chosen = lt::get_matmul_algo_heuristic(handle, desc, left, right, out, out, preference)
            .described("choose an algorithm");
        lt::destroy_matmul_pref(preference).described("drop a preference")?;
        Ok(chosen?.algo)
    }
}
