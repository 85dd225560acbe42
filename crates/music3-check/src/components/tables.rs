//! Tables of whole numbers: windows, the source frame of each latent, frames of a duration.

use std::collections::BTreeMap;

use burn::tensor::{DType, Tensor, TensorData, backend::Backend};
use music3_audio::{LatentRates, WindowPlan};
use music3_nn::ops;
use music3_text::duration::frames_for_duration;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Computed, Context, text::EntryRow};
use crate::{CheckError, case::CaseFile};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Windows {
    chunk_starts: Vec<usize>,
    window_frames: Vec<usize>,
    latent_lengths: Vec<usize>,
}

pub(super) fn windows(case: &CaseFile) -> Result<Computed, CheckError> {
    let table: BTreeMap<usize, Windows> = case.value("table")?;
    let ours: BTreeMap<usize, Windows> = table
        .keys()
        .map(|&frames| {
            let plan = WindowPlan::new(frames.max(1), &LatentRates::default());
            let windows = || plan.windows().iter();
            let windows = Windows {
                chunk_starts: windows().map(|window| window.frames.start).collect(),
                window_frames: windows().map(|window| window.frames.len()).collect(),
                latent_lengths: windows().map(|window| window.latents).collect(),
            };
            (frames, windows)
        })
        .collect();
    let mut row = EntryRow::new(case, "table")?;
    for (frames, upstream) in &table {
        row.compare(&frames.to_string(), &ours[frames], upstream);
    }
    Ok(Computed::Table { rows: vec![row.finish()], answers: json!({ "table": ours }) })
}

pub(super) fn nearest_index<B: Backend>(context: &Context<'_, B>) -> Result<Computed, CheckError> {
    let table: BTreeMap<usize, Vec<usize>> = context.case.value("table")?;
    let rates = LatentRates::default();
    let ours: BTreeMap<usize, Vec<usize>> = table
        .keys()
        .map(|&frames| {
            // The way the condition encoder takes, on the numbers of the frames themselves.
            let ramp: Vec<f32> = (0..frames.max(1)).map(|frame| frame as f32).collect();
            let shape = [1, 1, ramp.len()];
            let ramp = Tensor::<B, 3>::from_data(TensorData::new(ramp, shape), (context.device, DType::F32));
            let picked = ops::index_select(ramp, 2, &rates.nearest_index(frames.max(1))).into_data();
            (frames, picked.iter::<f32>().map(|frame| frame as usize).collect())
        })
        .collect();
    let mut row = EntryRow::new(context.case, "table")?;
    for (frames, upstream) in &table {
        row.compare(&frames.to_string(), &ours[frames], upstream);
    }
    Ok(Computed::Table { rows: vec![row.finish()], answers: json!({ "table": ours }) })
}

pub(super) fn durations(case: &CaseFile) -> Result<Computed, CheckError> {
    const KEY: &str = "frames_for_duration";
    let table: BTreeMap<String, usize> = case.value(KEY)?;
    let mut ours = BTreeMap::new();
    let mut row = EntryRow::new(case, KEY)?;
    for (seconds, upstream) in &table {
        let duration: f64 = seconds.parse().map_err(|_| CheckError::Name {
            path: case.path().to_owned(),
            name: seconds.clone(),
            problem: "expected seconds",
        })?;
        // What is refused is 0 in the table.
        let frames = frames_for_duration(duration).unwrap_or(0);
        row.compare(&format!("{seconds} s"), &frames, upstream);
        ours.insert(seconds, frames);
    }
    Ok(Computed::Table { rows: vec![row.finish()], answers: json!({ KEY: ours }) })
}
