use music3_weights::TensorSource;

use super::*;

/// Files that `numpy.save` of NumPy 2.4 wrote.
const ROW_MAJOR: &[u8] = include_bytes!("fixtures/row_major.npy");
const COLUMN_MAJOR: &[u8] = include_bytes!("fixtures/column_major.npy");
const THREE_DIMS: &[u8] = include_bytes!("fixtures/three_dims_column_major.npy");
const INT64: &[u8] = include_bytes!("fixtures/int64.npy");
const FLOAT64: &[u8] = include_bytes!("fixtures/float64.npy");

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).expect("a file");
    }
    folder
}

fn read_one(bytes: &[u8], order: ArrayOrder) -> Result<Values, NumpyError> {
    let folder = folder(&[("a.npy", bytes)]);
    array::read(&folder.path().join("a.npy"), order)
}

fn refused(bytes: &[u8]) -> String {
    read_one(bytes, ArrayOrder::RowMajor).expect_err("it is no array of a capture").to_string()
}

#[test]
fn reads_what_numpy_stores_row_by_row() {
    let floats = Values::f32(vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5], [2, 3]);
    for order in [ArrayOrder::RowMajor, ArrayOrder::EitherMajor] {
        assert_eq!(read_one(ROW_MAJOR, order).expect("f32"), floats);
        assert_eq!(read_one(INT64, order).expect("i64"), Values::int(vec![1, -2, 3, 4], [2, 2]));
    }
}

#[test]
fn reads_columns_only_when_told_so() {
    let message = refused(COLUMN_MAJOR);
    assert!(message.contains("column-major") && message.contains("--column-major"), "{message}");
    let same = read_one(ROW_MAJOR, ArrayOrder::RowMajor).expect("f32");
    assert_eq!(read_one(COLUMN_MAJOR, ArrayOrder::EitherMajor).expect("transposed"), same);
    let counted = read_one(THREE_DIMS, ArrayOrder::EitherMajor).expect("transposed");
    assert_eq!(counted, Values::int((0..24).collect(), [2, 3, 4]));
}

#[test]
fn refuses_other_dtypes_and_damaged_files() {
    let message = refused(FLOAT64);
    assert!(message.contains("dtype <f8, expected <f4 or integers"), "{message}");
    let message = refused(&ROW_MAJOR[..ROW_MAJOR.len() - 4]);
    assert!(message.contains("20 bytes of values, which is not a shape of [2, 3] in <f4"), "{message}");
    assert!(refused(&[ROW_MAJOR, &[0; 4]].concat()).contains("28 bytes"));
    assert!(refused(&ROW_MAJOR[..40]).contains("cut short within the header"));
    assert!(refused(b"").contains("does not begin as a .npy file does"));
}

#[test]
fn a_shape_that_no_memory_holds_is_refused_before_any_is_taken() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    assert!(refused(&bytes).contains("0 bytes of values"));
}

#[test]
fn gives_arrays_the_names_shapes_and_dtypes_of_a_capture() {
    let files: &[(&str, &[u8])] = &[
        ("rvq_codes.npy", INT64),
        ("condition_chunk0.npy", ROW_MAJOR),
        ("frame_hiddens.npy", ROW_MAJOR),
        ("notes.txt", b"left alone"),
    ];
    let folder = folder(files);
    let file = read_folder(folder.path(), Precision::Mixed, ArrayOrder::RowMajor).expect("three arrays");
    let names: Vec<&str> = file.names().collect();
    assert_eq!(names, ["codes", "condition_0", "frame_hiddens"]);
    let stored = |name| {
        let view = file.tensor(name).expect("it is there");
        (view.entry.shape.to_vec(), format!("{:?}", view.entry.dtype))
    };
    assert_eq!(stored("codes"), (vec![2, 2], "I64".to_owned()));
    assert_eq!(stored("condition_0"), (vec![1, 2, 3], "F32".to_owned()), "widened for an f32 transformer");
    assert_eq!(stored("frame_hiddens"), (vec![1, 2, 3], "BF16".to_owned()));
}

#[test]
fn refuses_a_tensor_under_two_names_and_a_folder_without_arrays() {
    let twice = folder(&[("rvq_codes.npy", INT64), ("codes.npy", INT64)]);
    let error = read_folder(twice.path(), Precision::F32, ArrayOrder::RowMajor).expect_err("one must go");
    assert!(error.to_string().contains("two files are both `codes`"), "{error}");
    let empty = folder(&[("capture.json", b"{}")]);
    let error = read_folder(empty.path(), Precision::F32, ArrayOrder::RowMajor).expect_err("nothing lies there");
    assert!(error.to_string().contains("no .npy file"), "{error}");
}
