//! Why a folder of NumPy files is no capture.

use std::path::PathBuf;

/// Why a folder of NumPy files is no capture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NumpyError {
    /// The system refuses to read a file or the folder.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// It is no `.npy` file.
    #[error("{}: cannot be read as a .npy file: {problem}; write it with numpy.save", .path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
    /// Its dtype is not one that captures have.
    #[error(
        "{}: dtype {found}, expected <f4 or integers, little-endian; write numpy.asarray(array, dtype=\"<f4\"), bf16 values too",
        .path.display()
    )]
    Dtype {
        /// The file.
        path: PathBuf,
        /// NumPy's name of its dtype.
        found: String,
    },
    /// Its values are fewer or more than its header says.
    #[error("{}: {found} bytes of values, which is not a shape of {shape:?} in {dtype}; the file is cut short or damaged", .path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The shape in its header.
        shape: Vec<usize>,
        /// The dtype in its header.
        dtype: String,
        /// The bytes behind its header.
        found: usize,
    },
    /// An unsigned integer does not fit 64 signed bits.
    #[error("{}: an integer above 9223372036854775807; no capture has such", .path.display())]
    TooLargeInteger {
        /// The file.
        path: PathBuf,
    },
    /// It is stored column by column.
    #[error(
        "{}: stored column-major (fortran_order); read as row-major it would have the right count and be the wrong tensor; \
         pass --column-major to have it transposed, or write numpy.ascontiguousarray(array)",
        .path.display()
    )]
    ColumnMajor {
        /// The file.
        path: PathBuf,
    },
    /// Two files are the same tensor under two names.
    #[error("{}: two files are both `{name}`; keep one", .folder.display())]
    Twice {
        /// The folder.
        folder: PathBuf,
        /// The tensor.
        name: String,
    },
    /// There is no array.
    #[error("{}: no .npy file lies there", .folder.display())]
    Empty {
        /// The folder.
        folder: PathBuf,
    },
}
