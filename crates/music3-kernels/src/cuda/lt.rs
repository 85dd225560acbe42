//! cuBLASLt on CubeCL's device thread.
//!
//! A product is a task in the same queue as CubeCL's launches. It runs on a stream of its own, ordered by context events:
//! it starts after everything enqueued before it and everything enqueued later waits for it. Handles, descriptors and
//! plans live on the device thread; a failure there is kept for whoever asks, because a task cannot return one.
#![allow(unsafe_code, reason = "calls into the CUDA driver and cuBLASLt")]

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::c_void,
    ptr,
    sync::{Mutex, OnceLock},
};

use burn_cubecl::cubecl::{
    self,
    cuda::CudaRuntime,
    device::DeviceId,
    device_handle::DeviceHandle,
    server::{ComputeServer, Handle},
    stream_id::StreamId,
};
use cudarc::{
    cublaslt::{
        result::{self as lt, CublasError},
        sys::{
            self as lt_sys, cublasComputeType_t, cublasLtMatmulDescAttributes_t as Desc,
            cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtMatrixLayoutAttribute_t as LayoutAttribute,
            cudaDataType,
        },
    },
    driver::{
        result as driver,
        sys::{self as cu, CUevent, CUstream},
    },
};

use super::layout::Batched;

type Server = <CudaRuntime as cubecl::Runtime>::Server;

/// Scratch memory a plan may use; cuBLASLt's own recommendation for this chip.
const WORKSPACE_BYTES: usize = 32 << 20;

/// `CUBLAS_OP_N` and `CUBLAS_OP_T`, whose type the bindings of this library leave out.
const AS_IT_IS: u32 = 0;
const TRANSPOSED: u32 = 1;

/// Failures on the device thread that nobody has asked for yet.
static ERROR: Mutex<Option<String>> = Mutex::new(None);

/// Returns whether the library can be opened; a missing one would panic at the first call.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    // SAFETY: opening a library runs its initialisers; cuBLASLt's only set up its own state.
    *AVAILABLE.get_or_init(|| unsafe { lt_sys::is_culib_present() })
}

/// Returns and forgets the first failure.
pub(super) fn take_error() -> Option<String> {
    ERROR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
}

/// A product of two batches of matrices, summed in f32 into contiguous f32 rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    pub(super) a: Batched,
    pub(super) b: Batched,
    /// Whether the operands are bf16; else they are f32, and the products are exact f32 too, never TF32.
    pub(super) bf16: bool,
}

/// Enqueues `product` on the device; `handles` are its operands and its output.
pub(super) fn enqueue(device: DeviceId, product: Product, handles: [Handle; 3]) {
    let stream = StreamId::current();
    DeviceHandle::<Server>::new(device).submit(move |server| {
        if let Err(error) = run(server, stream, device, &product, handles) {
            ERROR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(error);
        }
    });
}

thread_local! {
    /// One library handle per device, on that device's thread.
    static LIBRARIES: RefCell<HashMap<DeviceId, Library>> = RefCell::default();
}

fn run(
    server: &mut Server,
    stream: StreamId,
    device: DeviceId,
    product: &Product,
    handles: [Handle; 3],
) -> Result<(), String> {
    // The resources are held until the product is enqueued. Asking for them also makes the device's context current.
    let mut resources = Vec::with_capacity(handles.len());
    for handle in handles {
        resources.push(server.get_resource(handle.binding(), stream).map_err(|error| format!("{error:?}"))?);
    }
    let pointers: Vec<u64> = resources.iter().map(|resource| resource.resource().ptr).collect();
    LIBRARIES.with_borrow_mut(|libraries| {
        let library = match libraries.entry(device) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(Library::open()?),
        };
        library.multiply(product, [pointers[0], pointers[1], pointers[2]])
    })
}

/// Turns a driver's or the library's status into words.
trait Described<T> {
    fn described(self, what: &str) -> Result<T, String>;
}

impl<T> Described<T> for Result<T, CublasError> {
    fn described(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("cublasLt: {what}: {:?}", error.0))
    }
}

impl<T> Described<T> for Result<T, cudarc::driver::DriverError> {
    fn described(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("CUDA driver: {what}: {error}"))
    }
}

/// A library handle with its stream, its scratch memory and the plans made so far.
struct Library {
    handle: lt_sys::cublasLtHandle_t,
    stream: CUstream,
    before: CUevent,
    after: CUevent,
    workspace: u64,
    plans: HashMap<Product, Plan>,
}

impl Library {
    fn open() -> Result<Self, String> {
        let handle = lt::create_handle().described("create a handle")?;
        let stream = driver::stream::create(driver::stream::StreamKind::NonBlocking).described("create a stream")?;
        let event = || driver::event::create(cu::CUevent_flags::CU_EVENT_DISABLE_TIMING).described("create an event");
        // SAFETY: the context is current on this thread.
        let workspace = unsafe { driver::malloc_sync(WORKSPACE_BYTES) }.described("allocate scratch memory")?;
        Ok(Self { handle, stream, before: event()?, after: event()?, workspace, plans: HashMap::new() })
    }

    fn multiply(&mut self, product: &Product, [a, b, out]: [u64; 3]) -> Result<(), String> {
        if !self.plans.contains_key(product) {
            let plan = Plan::new(self.handle, product)?;
            self.plans.insert(product.clone(), plan);
        }
        let plan = &self.plans[product];
        let context = driver::ctx::get_current().described("find the current context")?;
        let context = context.ok_or("CUDA driver: no context is current")?;
        let (one, zero) = (1.0f32, 0.0f32);
        let scalar = |value: &f32| ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the pointers are allocations of this context that are held by the caller and large enough for the
        // layouts, which describe the tensors they belong to. Both events and the stream belong to this context.
        unsafe {
            cu::cuCtxRecordEvent(context, self.before).result().described("record what comes before")?;
            driver::stream::wait_event(self.stream, self.before, cu::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
                .described("wait for what comes before")?;
            // Row-major A·B is column-major Bᵀ·Aᵀ, so the operands change places.
            lt::matmul(
                self.handle,
                plan.desc,
                scalar(&one),
                scalar(&zero),
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
                self.stream.cast(),
            )
            .described("multiply")?;
            driver::event::record(self.after, self.stream).described("record the product")?;
            cu::cuCtxWaitEvent(context, self.after).result().described("make what follows wait")?;
        }
        Ok(())
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
    fn new(handle: lt_sys::cublasLtHandle_t, product: &Product) -> Result<Self, String> {
        let Product { a, b, bf16 } = product;
        let count = a.count().max(b.count());
        let operand = if *bf16 { cudaDataType::CUDA_R_16BF } else { cudaDataType::CUDA_R_32F };
        // CUBLAS_COMPUTE_32F multiplies f32 operands as f32; the FAST_ forms are the ones that round them.
        let desc = lt::create_matmul_desc(cublasComputeType_t::CUBLAS_COMPUTE_32F, cudaDataType::CUDA_R_32F)
            .described("describe the product")?;
        // A row-major matrix is its transpose in column-major terms.
        for (attribute, matrix) in [(Desc::CUBLASLT_MATMUL_DESC_TRANSA, b), (Desc::CUBLASLT_MATMUL_DESC_TRANSB, a)] {
            let operation = if matrix.column_major { TRANSPOSED } else { AS_IT_IS };
            // SAFETY: the description was just made, and the attribute is an operation.
            unsafe {
                lt::set_matmul_desc_attribute(
                    desc,
                    attribute,
                    ptr::from_ref(&operation).cast(),
                    size_of_val(&operation),
                )
            }
            .described("set a transposition")?;
        }
        let left = operand_layout(b, operand, count)?;
        let right = operand_layout(a, operand, count)?;
        let out = layout([b.columns, a.rows], b.columns, cudaDataType::CUDA_R_32F, (count, a.rows * b.columns))?;
        let algorithm = choose(handle, desc, [left, right, out])?;
        Ok(Self { desc, left, right, out, algorithm })
    }
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
        let chosen = lt::get_matmul_algo_heuristic(handle, desc, left, right, out, out, preference)
            .described("choose an algorithm");
        lt::destroy_matmul_pref(preference).described("drop a preference")?;
        Ok(chosen?.algo)
    }
}
