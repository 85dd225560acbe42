//! Why a case cannot be run. What a case finds out is no error: it is a [`CaseReport`](crate::CaseReport).

use std::path::PathBuf;

use music3_model::ConfigError;
use music3_weights::WeightsError;

/// Why a case cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The system refuses to read a file or folder.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The system refuses to write what was computed.
    #[error("{}: cannot be written: {source}", .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The tensors that were computed cannot be written.
    #[error("{}: cannot be written: {source}", .path.display())]
    WriteTensors {
        /// The file.
        path: PathBuf,
        /// What the format's crate says.
        #[source]
        source: safetensors::SafeTensorError,
    },
    /// A folder of NumPy files is no capture.
    #[error(transparent)]
    Numpy(#[from] crate::numpy::NumpyError),
    /// The file is not JSON.
    #[error("{}: not a JSON object: {source}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where parsing stopped.
        #[source]
        source: serde_json::Error,
    },
    /// A path that was named is not there.
    #[error("{}: there is no such file or folder; pass a case or a folder of cases", .path.display())]
    Missing {
        /// What was named.
        path: PathBuf,
    },
    /// A folder that was named as a capture of NumPy files holds none.
    #[error("{}: a folder without capture.json is no capture; pass the capture's JSON file", .path.display())]
    NoCapture {
        /// The folder.
        path: PathBuf,
    },
    /// A capture's tensors were not copied with its JSON.
    #[error("{}: its tensors are missing; {} belongs beside it, and so do both files of its MATH twin", .path.display(), .beside.display())]
    TensorsLeftBehind {
        /// The JSON.
        path: PathBuf,
        /// Where the tensors would be.
        beside: PathBuf,
    },
    /// The JSON describes no case.
    #[error("{}: not a case: {what}", .path.display())]
    NoComponent {
        /// The file.
        path: PathBuf,
        /// What it is instead, as far as it shows.
        what: String,
    },
    /// Two cases would be dumped under one name.
    #[error("{stem}: another case of that name was dumped already; dump one folder at a time")]
    DumpClash {
        /// The name.
        stem: String,
    },
    /// The case is for something that is not known here.
    #[error("{}: unknown component `{found}`; expected one of {known}", .path.display())]
    UnknownComponent {
        /// The file.
        path: PathBuf,
        /// What its `component` says.
        found: String,
        /// Every known component.
        known: String,
    },
    /// A key of the JSON is absent or of another kind.
    #[error("{}: `{key}`: {source}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What serde expected.
        #[source]
        source: serde_json::Error,
    },
    /// A name in the JSON or the tensors' file that means nothing.
    #[error("{}: `{name}`: {problem}", .path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The case needs tensors and has none.
    #[error("{}: no tensors: {} is missing; every case of `{component}` has one", .path.display(), .expected.display())]
    NoTensors {
        /// The case.
        path: PathBuf,
        /// The file that should lie beside it.
        expected: PathBuf,
        /// What the case is for.
        component: &'static str,
    },
    /// A tensor is missing.
    #[error("{}: tensor `{name}` is missing", .path.display())]
    NoTensor {
        /// The tensors' file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tensor has another shape than the component takes.
    #[error("{}: tensor `{name}` has shape {found:?}, expected {expected}", .path.display())]
    Shape {
        /// The tensors' file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// What the component takes, in words.
        expected: String,
    },
    /// A tensor has another dtype than the component takes.
    #[error("{}: tensor `{name}` is {found}, expected {expected}", .path.display())]
    Dtype {
        /// The tensors' file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its dtype.
        found: String,
        /// What the component takes.
        expected: &'static str,
    },
    /// The case compares nothing.
    #[error("{}: nothing to compare: {problem}", .path.display())]
    NothingToCompare {
        /// The case.
        path: PathBuf,
        /// What is missing.
        problem: &'static str,
    },
    /// The weights do not fill the module.
    #[error("{}: {source}", .path.display())]
    Weights {
        /// The case.
        path: PathBuf,
        /// What is wrong with them.
        #[source]
        source: WeightsError,
    },
    /// The weights do not fill a part of a component.
    #[error("{}: {part}: {source}", .path.display())]
    Part {
        /// The case.
        path: PathBuf,
        /// The part.
        part: &'static str,
        /// What is wrong with them, in the words of the component.
        #[source]
        source: WeightsError,
    },
    /// The checkpoint of a capture cannot be used.
    #[error("{}: checkpoint: {source}", .path.display())]
    Checkpoint {
        /// The case.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<music3::SongError>,
    },
    /// The tokenizer of a case cannot be opened.
    #[error("{}: {source}", .path.display())]
    Tokenizer {
        /// The case.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<music3_text::TextError>,
    },
    /// A stage stopped before its end, which none does on what upstream computed.
    #[error("{}: {source}", .path.display())]
    Stopped {
        /// The case.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<music3::SongError>,
    },
    /// The configuration describes no module.
    #[error("{}: {source}", .path.display())]
    Config {
        /// The case.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ConfigError,
    },
}
