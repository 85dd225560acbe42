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
    /// f16 values.
    F16,
    /// f32 values, multiplied as f32.
    F32,
    /// f32 values, rounded to TF32.
    Tf32,
}

/// A product of two batches of matrices, summed in f32 into rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    pub(super) a: Batched,
    pub(super) b: Batched,
    pub(super) out: Batched,
    pub(super) operands: Operands,
    /// Whether the sums are rounded to bf16; else the output is f32.
    pub(super) rounded: bool,
}

/// Where something begins: which of a task's handles it lies in, and how many bytes into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) handle: usize,
    pub(super) offset: u64,
}

impl Place {
    /// The start of a handle.
    pub(super) fn start_of(handle: usize) -> Self {
        Self { handle, offset: 0 }
    }

    /// So many bytes further on.
    pub(super) fn after(self, bytes: usize) -> Self {
        Self { offset: self.offset + bytes as u64, ..self }
    }
}

/// A product with the places of its operands and its output.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) product: Product,
    pub(super) a: Place,
    pub(super) b: Place,
    pub(super) out: Place,
    /// What is added to the product: rows as the output's, in the same type. The output itself may be it.
    pub(super) added: Option<Place>,
    /// One value a column, in the output's type, that is added before the rounding.
    pub(super) bias: Option<Place>,
    /// Three f32 values on the device: the product's factor, zero and one.
    pub(super) factors: Option<Place>,
}

/// Enqueues products on the device, one after the other.
pub(super) fn enqueue(device: DeviceId, steps: Vec<Step>, handles: Vec<Handle>) {
    task::enqueue(device, handles, move |pointers| {
        LIBRARIES.with_borrow_mut(|libraries| {
            let library = match libraries.entry(device) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Library::open()?),
            };
            library.multiply_all(&steps, pointers)
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
    plans: HashMap<Key, Plan>,
}

/// What a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    product: Product,
    biased: bool,
    /// Whether the factors lie on the device.
    scaled: bool,
    /// Bytes that the addresses of both operands, of what is added and of the output are multiples of.
    alignment: [u32; 4],
}

/// The addresses of a step.
struct Addresses {
    a: u64,
    b: u64,
    added: u64,
    out: u64,
    bias: Option<u64>,
    factors: Option<u64>,
    /// Whether what is added is read.
    adds: bool,
}

impl Addresses {
    fn of(step: &Step, pointers: &[u64]) -> Self {
        let at = |place: Place| pointers[place.handle] + place.offset;
        let out = at(step.out);
        Self {
            a: at(step.a),
            b: at(step.b),
            added: step.added.map_or(out, at),
            out,
            bias: step.bias.map(at),
            factors: step.factors.map(at),
            adds: step.added.is_some(),
        }
    }

    fn key(&self, product: &Product) -> Key {
        let alignment = [self.a, self.b, self.added, self.out].map(|address| 1 << address.trailing_zeros().min(8));
        Key { product: product.clone(), biased: self.bias.is_some(), scaled: self.factors.is_some(), alignment }
    }

    /// Returns where the factor of the product and that of what is added lie: on the device, or among these values.
    fn factors(&self, [zero, one]: &[f32; 2]) -> [*const c_void; 2] {
        match self.factors {
            None => [one, if self.adds { one } else { zero }].map(|value| ptr::from_ref(value).cast()),
            Some(first) => [first, first + size_of::<f32>() as u64 * if self.adds { 2 } else { 1 }].map(|at| at as _),
        }
    }
}

impl Library {
    fn open() -> Result<Self, String> {
        let handle = lt::create_handle().described("create a handle")?;
        // SAFETY: the context is current on this thread.
        let workspace = unsafe { driver::malloc_sync(WORKSPACE_BYTES) }.described("allocate scratch memory")?;
        Ok(Self { handle, queue: Queue::open()?, workspace, plans: HashMap::new() })
    }

    fn multiply_all(&mut self, steps: &[Step], pointers: &[u64]) -> Result<(), String> {
        let mut ready = Vec::with_capacity(steps.len());
        for step in steps {
            let addresses = Addresses::of(step, pointers);
            let key = addresses.key(&step.product);
            if !self.plans.contains_key(&key) {
                self.plans.insert(key.clone(), Plan::new(self.handle, &key)?);
            }
            ready.push((key, addresses));
        }
        self.queue.between(|stream| ready.iter().try_for_each(|(key, addresses)| self.multiply(key, addresses, stream)))
    }

    fn multiply(&self, key: &Key, addresses: &Addresses, stream: CUstream) -> Result<(), String> {
        let plan = &self.plans[key];
        if let Some(bias) = addresses.bias {
            plan.set(Desc::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        let values = [0.0, 1.0];
        let [factor, share] = addresses.factors(&values);
        // SAFETY: the addresses lie in allocations of this context that are held by the caller and large enough for the
        // layouts, which describe the tensors they belong to.
        unsafe {
            // Row-major A·B is column-major Bᵀ·Aᵀ, so the operands change places.
            lt::matmul(
                self.handle,
                plan.desc,
                factor,
                share,
                addresses.b as *const c_void,
                plan.left,
                addresses.a as *const c_void,
                plan.right,
                addresses.added as *const c_void,
                plan.out,
                addresses.out as *mut c_void,
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

    fn new(handle: lt_sys::cublasLtHandle_t, key: &Key) -> Result<Self, String> {
        let Product { a, b, out, operands, rounded } = &key.product;
        let count = out.count();
        // CUBLAS_COMPUTE_32F multiplies f32 operands as f32; the FAST_ forms are the ones that round them.
        let (operand, compute) = match operands {
            Operands::Bf16 => (cudaDataType::CUDA_R_16BF, cublasComputeType_t::CUBLAS_COMPUTE_32F),
            Operands::F16 => (cudaDataType::CUDA_R_16F, cublasComputeType_t::CUBLAS_COMPUTE_32F),
            Operands::F32 => (cudaDataType::CUDA_R_32F, cublasComputeType_t::CUBLAS_COMPUTE_32F),
            Operands::Tf32 => (cudaDataType::CUDA_R_32F, cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32),
        };
        let desc = lt::create_matmul_desc(compute, cudaDataType::CUDA_R_32F).described("describe the product")?;
        // A row-major matrix is its transpose in column-major terms.
        for (attribute, matrix) in [(Desc::CUBLASLT_MATMUL_DESC_TRANSA, b), (Desc::CUBLASLT_MATMUL_DESC_TRANSB, a)] {
            set_attribute(desc, attribute, &if matrix.column_major { TRANSPOSED } else { AS_IT_IS })?;
        }
        if key.scaled {
            let mode = lt_sys::cublasLtPointerMode_t::CUBLASLT_POINTER_MODE_DEVICE;
            set_attribute(desc, Desc::CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode)?;
        }
        if key.biased {
            let epilogue = lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            set_attribute(desc, Desc::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        }
        let left = operand_layout(b, operand, count)?;
        let right = operand_layout(a, operand, count)?;
        let out_dtype = if *rounded { cudaDataType::CUDA_R_16BF } else { cudaDataType::CUDA_R_32F };
        let out = operand_layout(out, out_dtype, count)?;
        let algorithm = choose(handle, desc, [left, right, out], key.alignment)?;
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
    [a, b, added, written]: [u32; 4],
) -> Result<lt_sys::cublasLtMatmulAlgo_t, String> {
    let preference = lt::create_matmul_pref().described("make a preference")?;
    let bytes = WORKSPACE_BYTES;
    // Parts of a sum that are computed apart are added in f32, never in the output's type.
    let reductions = lt_sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &added)?;
    prefer(preference, Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &written)?;
    // SAFETY: all descriptions were made above; the preference is destroyed once.
    unsafe {
        let chosen = lt::get_matmul_algo_heuristic(handle, desc, left, right, out, out, preference)
            .described("choose an algorithm");
        lt::destroy_matmul_pref(preference).described("drop a preference")?;
        Ok(chosen?.algo)
    }
}

/// Sets an attribute of a preference; the value's type must be the attribute's.
fn prefer<T>(preference: lt_sys::cublasLtMatmulPreference_t, attribute: Preference, value: &T) -> Result<(), String> {
    // SAFETY: the preference is alive, and the library copies as many bytes as the value has.
    unsafe { lt::set_matmul_pref_attribute(preference, attribute, ptr::from_ref(value).cast(), size_of_val(value)) }
        .described("describe what an algorithm may use")
}
