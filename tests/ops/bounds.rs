//! The committed table: how far each op lies from torch on each backend, and how far it may lie.
//!
//! Every figure that is not zero has an `allowed` beside what was `measured`, at most four times as much. A figure that
//! was zero has none: it is held to the general bounds of [`judge`](crate::judge), because another processor adds in
//! another order and may flip a value that this one did not.
//!
//! `MUSIC3_MEASURE_OPS=1 cargo test -p music3-tests --test ops` measures again and rewrites the rows of the backends it
//! runs on. The general bounds hold all the same.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize, Serializer};

/// `allowed` is never more than this many times `measured`.
const WIDEST: f64 = 4.0;

/// One figure of one op: what was found when the table was made, and what the test allows.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Limit {
    #[serde(serialize_with = "without_point")]
    measured: f64,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "without_point_if_any", default)]
    allowed: Option<f64>,
}

/// One op at one size on one backend.
#[derive(Serialize, Deserialize)]
struct Row {
    backend: String,
    case: String,
    values: usize,
    #[serde(flatten)]
    figures: BTreeMap<String, Limit>,
}

/// What one op at one size was found to do.
pub(crate) struct Measurement {
    /// The family and width, a slash, the op and its sizes.
    pub(crate) case: String,
    pub(crate) values: usize,
    pub(crate) figures: Vec<(&'static str, f64)>,
}

/// Held while the table is read or written; tests run side by side.
static TABLE: Mutex<()> = Mutex::new(());

/// Returns what the table finds wrong with all of a family's measurements on a backend.
pub(crate) fn problems(backend: &str, family: &str, found: &[Measurement]) -> Vec<String> {
    // The lock guards a file that is only ever written whole.
    let _guard = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let ours = |row: &Row| row.backend == backend && row.case.split('/').next() == Some(family);
    let (mut rows, mut others): (Vec<Row>, Vec<Row>) = read().into_iter().partition(ours);
    if std::env::var_os("MUSIC3_MEASURE_OPS").is_some() {
        others.extend(found.iter().map(|measurement| measured(backend, measurement, &rows)));
        others.sort_by(|a, b| (&a.backend, &a.case).cmp(&(&b.backend, &b.case)));
        write(&others);
        return Vec::new();
    }
    let mut problems = Vec::new();
    for measurement in found {
        match rows.iter().position(|row| row.case == measurement.case) {
            Some(index) => problems.extend(compare(measurement, &rows.swap_remove(index))),
            None => problems.push(format!("{}: not in bounds.json; measure it", measurement.case)),
        }
    }
    problems.extend(rows.iter().map(|row| format!("{}: in bounds.json, but nothing computes it", row.case)));
    problems
}

fn compare(found: &Measurement, row: &Row) -> Vec<String> {
    let mut problems = Vec::new();
    if found.values != row.values || found.figures.len() != row.figures.len() {
        problems.push(format!("{}: bounds.json tells of other values or figures; measure it", found.case));
    }
    for &(name, value) in &found.figures {
        match row.figures.get(name) {
            Some(Limit { allowed: Some(allowed), measured }) if value > *allowed => problems
                .push(format!("{}: {name} is {value}; {allowed} is allowed, {measured} was measured", found.case)),
            Some(_) => {}
            None => problems.push(format!("{}: {name} is not in bounds.json; measure it", found.case)),
        }
    }
    problems
}

/// Returns the row for a measurement; what it allows stays as it was, if that still fits.
fn measured(backend: &str, found: &Measurement, before: &[Row]) -> Row {
    let before = before.iter().find(|row| row.case == found.case);
    let limit = |&(name, value): &(&'static str, f64)| {
        let measured = rounded_up(value);
        // How far f32 sums lie apart depends most on their order, which is the processor's.
        let margin = if name == "of_bound" { WIDEST } else { 2.0 };
        let kept = before.and_then(|row| row.figures.get(name)?.allowed);
        let kept = kept.filter(|allowed| (measured..=WIDEST * measured).contains(allowed));
        let allowed = (measured > 0.0).then(|| kept.unwrap_or(margin * measured));
        (name.to_owned(), Limit { measured, allowed })
    };
    let figures = found.figures.iter().map(limit).collect();
    Row { backend: backend.to_owned(), case: found.case.clone(), values: found.values, figures }
}

/// Returns whole numbers as they are, others with two digits and never less than `value`.
fn rounded_up(value: f64) -> f64 {
    if value.fract() == 0.0 {
        return value;
    }
    let exponent = value.log10().floor() as i32 - 1;
    let digits = (value / 10f64.powi(exponent)).ceil();
    format!("{digits}e{exponent}").parse().expect("digits and an exponent make a number")
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/ops/bounds.json"))
}

fn read() -> Vec<Row> {
    let path = path();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(rows: &[Row]) {
    let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).expect("plain data")).collect();
    std::fs::write(path(), format!("[\n{}\n]\n", lines.join(",\n"))).expect("the source tree is writable");
}

/// Writes counts as integers.
fn without_point<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 { serializer.serialize_u64(*value as u64) } else { serializer.serialize_f64(*value) }
}

fn without_point_if_any<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => without_point(value, serializer),
        None => serializer.serialize_none(),
    }
}

#[test]
fn nothing_is_allowed_more_than_four_times_what_was_measured() {
    let _guard = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let rows = read();
    assert!(!rows.is_empty(), "bounds.json is empty");
    for row in &rows {
        for (name, Limit { measured, allowed }) in &row.figures {
            let fits = match allowed {
                Some(allowed) => *measured > 0.0 && (*measured..=WIDEST * measured).contains(allowed),
                None => *measured == 0.0,
            };
            assert!(fits, "{} on {}: {name} {allowed:?} for {measured}", row.case, row.backend);
        }
    }
}

#[test]
fn figures_are_rounded_up_to_two_digits() {
    for (value, expected) in [(0.0, 0.0), (3.0, 3.0), (0.0123, 0.013), (0.5, 0.5), (0.301, 0.31), (0.0999, 0.1)] {
        assert_eq!(rounded_up(value), expected);
    }
}
