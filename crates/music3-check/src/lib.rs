//! Case files, captures and comparison: what `music3 check` and the tests share.
//!
//! A case is a JSON file, with tensors in a safetensors file of the same stem beside it, that upstream computed.
//! [`collect`] finds cases, [`run()`] computes each on a backend and compares, [`Report`] holds what was found: as text
//! ([`render_table`]), as JSON ([`Report::to_json`]) and as an exit code ([`Report::exit_code`]).

mod beside;
mod case;
mod collect;
mod compare;
mod components;
mod dump;
mod error;
mod gate;
mod judge;
mod kind;
mod numpy;
mod output;
mod pipeline;
mod report;
mod row;
mod run;
mod stages;
mod summary;
mod table;
mod values;

pub use beside::{Arm, beside_json, render_beside};
pub use case::{CaseFile, WeightsOrigin};
pub use collect::{CasePath, Origin, capture_path, collect};
pub use compare::{Equality, Figures, Grid, NanPolicy, Pair};
pub use error::CheckError;
pub use gate::{Bound, Judgement, Rule, RuleName};
pub use kind::CaseKind;
pub use numpy::{ArrayOrder, NumpyError};
pub use report::{CaseReport, FreeGroup, FreeOutcome, FreeRun, Report, Status};
pub use row::{Negative, Row, Shown, Verdict, Worst};
pub use run::{Options, run, run_case};
pub use stages::{RunStage, StageFigures, render_stages, stages, worst_failures};
pub use summary::render_worst;
pub use table::{render_case, render_summary, render_table};
pub use values::{Data, Values};
