//! A case file: the JSON, and the tensors beside it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use music3::Precision;
use music3_nn::{Width, ops};
use music3_weights::{SafetensorsFile, TensorSource, TensorView};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Map, Value};

use crate::{
    CheckError,
    kind::CaseKind,
    numpy::{self, ArrayOrder},
    values::Values,
};

/// The prefixes that a tensor of a case may have.
const PREFIXES: [&str; 5] = ["w.", "in.", "out.", "out_math.", "out_f32."];

/// Where the weights come from that upstream computed a case with: the JSON's `weights`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightsOrigin {
    /// They were drawn. So they count where a case does not say: the bounds are those of every reduced case.
    #[default]
    Random,
    /// They are the published ones, whose activations have their own sizes and with them their own bounds in f32.
    Published,
}

/// A case that can be run.
#[derive(Debug)]
pub struct CaseFile {
    path: PathBuf,
    kind: CaseKind,
    precision: Precision,
    weights: WeightsOrigin,
    header: Map<String, Value>,
    tensors: Option<SafetensorsFile>,
    array_order: ArrayOrder,
}

impl CaseFile {
    /// Opens a JSON file and the tensors of the same stem beside it, if there are any.
    ///
    /// # Errors
    /// When a file cannot be read, when the JSON has no `component` ([`CheckError::NoComponent`]) or names one that is
    /// not known, and when a tensor's prefix is not known.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, CheckError> {
        Self::open_with(path, ArrayOrder::RowMajor)
    }

    /// Opens a case as [`open`](Self::open) does, or a capture as a folder of NumPy files, whose JSON is `capture.json`
    /// in it and whose arrays may be stored in the given order.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when an array cannot be read or is stored in another order.
    pub fn open_with(path: impl Into<PathBuf>, order: ArrayOrder) -> Result<Self, CheckError> {
        let path = path.into();
        let folder = path.is_dir().then(|| path.clone());
        let path = if folder.is_some() { path.join(numpy::CAPTURE_JSON) } else { path };
        if let Some(folder) = folder.as_ref().filter(|_| !path.exists()) {
            return Err(CheckError::NoCapture { path: folder.clone() });
        }
        let header = read_header(&path)?;
        let kind = match &header["component"] {
            Value::String(name) => CaseKind::of(name).ok_or_else(|| name.clone()),
            other => Err(other.to_string()),
        };
        let kind = kind.map_err(|found| CheckError::UnknownComponent {
            path: path.clone(),
            found,
            known: CaseKind::ALL.map(|(_, name)| name).join(", "),
        })?;
        let precision = key(&path, &header, "dtype")?.unwrap_or(Precision::F32);
        let weights = key(&path, &header, "weights")?.unwrap_or_default();
        let beside = path.with_extension("safetensors");
        let tensors = match folder {
            Some(folder) => Some(numpy::read_folder(&folder, precision, order)?),
            None if beside.exists() => Some(SafetensorsFile::open(beside).map_err(|source| wrap(&path, source))?),
            // What names a twin was recorded with tensors.
            None if header.get("math").is_some_and(Value::is_string) => {
                return Err(CheckError::TensorsLeftBehind { path, beside });
            }
            None => None,
        };
        let case = Self { path, kind, precision, weights, header, tensors, array_order: order };
        case.check_prefixes()?;
        Ok(case)
    }

    /// Returns the JSON's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name that both files share.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns what it is for.
    pub fn kind(&self) -> CaseKind {
        self.kind
    }

    /// Returns the precision that upstream computed it in.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns where the weights come from that upstream computed it with.
    pub fn weights(&self) -> WeightsOrigin {
        self.weights
    }

    /// Returns upstream's configuration; empty where the JSON has none.
    pub(crate) fn config(&self) -> Value {
        self.header.get("config").cloned().unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// Returns upstream's configuration as a component reads it.
    pub(crate) fn config_as<T: DeserializeOwned>(&self) -> Result<T, CheckError> {
        self.parse("config", self.config())
    }

    /// Returns the configuration of one of several components.
    pub(crate) fn config_of<T: DeserializeOwned>(&self, component: &str) -> Result<T, CheckError> {
        self.parse(&format!("config.{component}"), self.part_config(component))
    }

    /// Returns the configuration of one of several components as it stands.
    pub(crate) fn part_config(&self, component: &str) -> Value {
        self.config().get(component).cloned().unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// Returns whether the JSON has a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.header.contains_key(key)
    }

    /// Returns the value of a key that must be there.
    pub(crate) fn value<T: DeserializeOwned>(&self, key: &str) -> Result<T, CheckError> {
        self.parse(key, self.header.get(key).cloned().unwrap_or(Value::Null))
    }

    /// Returns the value of a key that may be absent.
    pub(crate) fn optional<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, CheckError> {
        self::key(&self.path, &self.header, key)
    }

    fn parse<T: DeserializeOwned>(&self, key: &str, value: Value) -> Result<T, CheckError> {
        serde_json::from_value(value).map_err(|source| CheckError::Key {
            path: self.path.clone(),
            key: key.to_owned(),
            source,
        })
    }

    /// Returns the tensors' file.
    pub(crate) fn tensors(&self) -> Result<&SafetensorsFile, CheckError> {
        self.tensors.as_ref().ok_or_else(|| CheckError::NoTensors {
            path: self.path.clone(),
            expected: self.path.with_extension("safetensors"),
            component: self.kind.name(),
        })
    }

    /// Returns the tensors of a case of another stem that lies beside this one, in the same form.
    pub(crate) fn beside(&self, stem: &str) -> Result<SafetensorsFile, CheckError> {
        let own = self.tensors()?.path();
        if own.is_dir() {
            return numpy::read_folder(&own.with_file_name(stem), self.precision, self.array_order);
        }
        let stem = stem.trim_end_matches(".json").trim_end_matches(".safetensors");
        SafetensorsFile::open(own.with_file_name(format!("{stem}.safetensors")))
            .map_err(|error| wrap(&self.path, error))
    }

    fn tensors_path(&self) -> PathBuf {
        match &self.tensors {
            Some(file) => file.path().to_owned(),
            None => self.path.with_extension("safetensors"),
        }
    }

    /// Returns what follows `prefix` in the names of the tensors that have it, in order.
    pub(crate) fn labels(&self, prefix: &str) -> Result<Vec<String>, CheckError> {
        let names = self.tensors()?.names();
        Ok(names.filter_map(|name| name.strip_prefix(prefix)).map(str::to_owned).collect())
    }

    /// Returns a stored tensor's values.
    pub(crate) fn stored(&self, name: &str) -> Result<Values, CheckError> {
        let view = self.view(name)?;
        Values::of_stored(&view, &self.path)
    }

    /// Returns whether there are tensors.
    pub(crate) fn has_tensors(&self) -> bool {
        self.tensors.is_some()
    }

    /// Returns whether a tensor is stored.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.tensors.as_ref().is_some_and(|file| file.contains(name))
    }

    /// Returns whether the file says that it leaves a tensor out.
    pub(crate) fn leaves_out(&self, name: &str) -> bool {
        self.header.get("omitted").and_then(Value::as_array).is_some_and(|names| names.iter().any(|left| left == name))
    }

    /// Returns an input as a tensor stored in `width`.
    pub(crate) fn input<B: Backend, const D: usize>(
        &self,
        name: &str,
        width: Width,
        device: &B::Device,
    ) -> Result<Tensor<B, D>, CheckError> {
        let view = self.view(name)?;
        self.check_rank(&view, D)?;
        let data = view.to_width(width).map_err(|source| wrap(&self.path, source))?;
        Ok(ops::from_data(data, width, device))
    }

    /// Returns an input of integers as a tensor.
    pub(crate) fn int_input<B: Backend, const D: usize>(
        &self,
        name: &str,
        device: &B::Device,
    ) -> Result<Tensor<B, D, Int>, CheckError> {
        let view = self.view(name)?;
        self.check_rank(&view, D)?;
        let values = self.stored(name)?;
        let ints = values.ints().ok_or_else(|| self.wrong_dtype(&view, "integers"))?;
        Ok(Tensor::from_data(TensorData::new(ints.to_vec(), values.shape().to_vec()), device))
    }

    /// Returns an input's values as f32, widened where they are bf16.
    pub(crate) fn floats(&self, name: &str) -> Result<(Vec<f32>, Vec<usize>), CheckError> {
        let values = self.stored(name)?;
        match values.to_f32() {
            Some(floats) => Ok((floats, values.shape().to_vec())),
            None => Err(self.wrong_dtype(&self.view(name)?, "floats")),
        }
    }

    /// Returns the integers of a tensor.
    pub(crate) fn ints(&self, name: &str) -> Result<Vec<i64>, CheckError> {
        let values = self.stored(name)?;
        match values.ints() {
            Some(ints) => Ok(ints.to_vec()),
            None => Err(self.wrong_dtype(&self.view(name)?, "integers")),
        }
    }

    fn view(&self, name: &str) -> Result<TensorView<'_>, CheckError> {
        let file = self.tensors()?;
        if !file.contains(name) {
            return Err(CheckError::NoTensor { path: file.path().to_owned(), name: name.to_owned() });
        }
        file.tensor(name).map_err(|source| wrap(&self.path, source))
    }

    fn check_rank(&self, view: &TensorView<'_>, rank: usize) -> Result<(), CheckError> {
        match view.entry.shape.len() == rank {
            true => Ok(()),
            false => Err(self.wrong_shape(view.entry.name, view.entry.shape, format!("{rank} dimensions"))),
        }
    }

    /// Refuses a case that lacks the input of an output: nothing can be said about the port then.
    pub(crate) fn refuse_missing_input(&self, output: &str) -> Result<(), CheckError> {
        match self.kind.input_of(output).filter(|input| !self.holds(input)) {
            Some(name) => Err(CheckError::NoTensor { path: self.tensors_path(), name }),
            None => Ok(()),
        }
    }

    /// Refuses a tensor whose dimension `dim` is not `size`.
    pub(crate) fn expect_dim(
        &self,
        name: &str,
        shape: &[usize],
        (dim, size): (usize, usize),
    ) -> Result<(), CheckError> {
        match shape[dim] == size {
            true => Ok(()),
            false => Err(self.wrong_shape(name, shape, format!("{size} in dimension {dim}"))),
        }
    }

    /// Refuses a tensor of another shape than `expected`.
    pub(crate) fn expect_same(&self, name: &str, shape: &[usize], expected: &[usize]) -> Result<(), CheckError> {
        match shape == expected {
            true => Ok(()),
            false => Err(self.wrong_shape(name, shape, format!("{expected:?}"))),
        }
    }

    /// Refuses ids that a table of `rows` rows does not have: a backend may read past its end.
    pub(crate) fn expect_ids(&self, name: &str, rows: usize) -> Result<(), CheckError> {
        let values = self.stored(name)?;
        let outside = |id: &i64| usize::try_from(*id).map_or(true, |id| id >= rows);
        match values.ints().is_some_and(|ids| ids.iter().any(outside)) {
            false => Ok(()),
            true => Err(CheckError::Name {
                path: self.tensors_path(),
                name: name.to_owned(),
                problem: "an id that the table has no row for",
            }),
        }
    }

    /// Returns rows of codes, `[frames, codebooks]`, of which codebook `i` has `rows[i]` codes.
    pub(crate) fn codes(&self, name: &str, rows: &[usize]) -> Result<Vec<Vec<u32>>, CheckError> {
        let view = self.view(name)?;
        self.check_rank(&view, 2)?;
        self.expect_dim(name, view.entry.shape, (1, rows.len()))?;
        let values = self.stored(name)?;
        let ints = values.ints().ok_or_else(|| self.wrong_dtype(&view, "integers"))?;
        let code = |(index, &code): (usize, &i64)| {
            let code = u32::try_from(code).ok()?;
            (rows.get(index % rows.len()).is_some_and(|&rows| (code as usize) < rows)).then_some(code)
        };
        let codes: Option<Vec<u32>> = ints.iter().enumerate().map(code).collect();
        match codes {
            Some(codes) => Ok(codes.chunks(rows.len()).map(<[u32]>::to_vec).collect()),
            None => Err(CheckError::Name {
                path: self.tensors_path(),
                name: name.to_owned(),
                problem: "a code that its codebook does not have",
            }),
        }
    }

    /// Returns the error of a configuration that describes no module.
    pub(crate) fn config_error(&self, source: music3_model::ConfigError) -> CheckError {
        CheckError::Config { path: self.path.clone(), source }
    }

    /// Returns the error of a stage that stopped.
    pub(crate) fn stopped(&self, source: music3::SongError) -> CheckError {
        CheckError::Stopped { path: self.path.clone(), source: Box::new(source) }
    }

    /// Returns the error for a tensor of another shape than the component takes.
    pub(crate) fn wrong_shape(&self, name: &str, found: &[usize], expected: String) -> CheckError {
        let path = self.tensors_path();
        CheckError::Shape { path, name: name.to_owned(), found: found.to_vec(), expected }
    }

    fn wrong_dtype(&self, view: &TensorView<'_>, expected: &'static str) -> CheckError {
        CheckError::Dtype {
            path: view.entry.file.to_owned(),
            name: view.entry.name.to_owned(),
            found: format!("{:?}", view.entry.dtype),
            expected,
        }
    }

    /// Refuses a tensor that no rule of the contract covers: it would silently not be compared.
    fn check_prefixes(&self) -> Result<(), CheckError> {
        let Some(file) = self.tensors.as_ref().filter(|_| self.kind.has_prefixes()) else { return Ok(()) };
        let refuse = |name: &str, problem| {
            Err(CheckError::Name { path: file.path().to_owned(), name: name.to_owned(), problem })
        };
        for name in file.names() {
            if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                return refuse(name, "unknown prefix; expected w., in., out., out_math. or out_f32.");
            }
        }
        let outputs: BTreeSet<&str> = file.names().filter_map(|name| name.strip_prefix("out.")).collect();
        for control in ["out_math.", "out_f32."] {
            let mut labels = file.names().filter_map(|name| name.strip_prefix(control));
            if let Some(label) = labels.find(|label| !outputs.contains(label)) {
                return refuse(&format!("{control}{label}"), "a control without the output it belongs to");
            }
        }
        Ok(())
    }
}

/// Returns the value of a key of the JSON, if it is there.
fn key<T: DeserializeOwned>(path: &Path, header: &Map<String, Value>, key: &str) -> Result<Option<T>, CheckError> {
    match header.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(|source| CheckError::Key {
            path: path.to_owned(),
            key: key.to_owned(),
            source,
        }),
    }
}

/// Returns the JSON of a case. What is large and no case, such as a tokenizer, is parsed but not kept.
fn read_header(path: &Path) -> Result<Map<String, Value>, CheckError> {
    #[derive(Default, Deserialize)]
    struct Probe {
        component: Option<IgnoredAny>,
        music3_recipe: Option<IgnoredAny>,
        replay_of: Option<String>,
    }

    impl Probe {
        fn what(&self) -> String {
            match self {
                Self { music3_recipe: Some(_), .. } => "it is the recipe of a song".to_owned(),
                Self { replay_of: Some(stem), .. } => format!("it is the MATH twin of {stem}.json, which names it"),
                _ => "it has no `component`".to_owned(),
            }
        }
    }

    let bytes = std::fs::read(path).map_err(|source| CheckError::Read { path: path.to_owned(), source })?;
    let json = |source| CheckError::Json { path: path.to_owned(), source };
    // JSON that is no object is a file of another kind, not a broken case.
    let is_object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let probe = match is_object {
        true => serde_json::from_slice::<Probe>(&bytes).map_err(json)?,
        false => serde_json::from_slice::<IgnoredAny>(&bytes).map(|_| Probe::default()).map_err(json)?,
    };
    match probe.component {
        Some(_) => serde_json::from_slice(&bytes).map_err(json),
        None => Err(CheckError::NoComponent { path: path.to_owned(), what: probe.what() }),
    }
}

pub(crate) fn wrap(path: &Path, source: music3_weights::WeightsError) -> CheckError {
    CheckError::Weights { path: path.to_owned(), source }
}
