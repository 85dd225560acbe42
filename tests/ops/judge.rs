//! Compares what an op computed with what torch answered.
//!
//! The general bounds, which hold on every backend and processor:
//! - exact: every bit, a zero's sign included; any NaN equals any other;
//! - transcendental: in bf16 at most 0.1 % of the values differ, by one unit in the last place; in f32 by 1e-5 of the
//!   value;
//! - reductions: in bf16 at most 0.1 % (or one) of the values differ, by one unit or 2⁻⁸ of the root mean square; in f32
//!   by 1e-5 of the value and 1e-5 of the root mean square.
//!
//! [`bounds`](crate::bounds) adds what was measured.

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Tensor, TensorData, backend::Backend};
use music3_check::{Equality, Figures, Grid, NanPolicy, Pair, Values};
use music3_nn::{Width, ops};

use crate::{
    bounds::{self, Measurement},
    draw::Normal,
    golden::{self, Answer},
};

const FLIPPED_SHARE: f64 = 0.001;
const FLIPPED_FLOOR: f64 = 1.0 / 256.0;
const F32_BOUND: f64 = 1e-5;

/// One family of ops in one width on one backend: draws inputs, compares outputs, and fails once, with all problems.
pub(crate) struct Judge<'a, B: Backend> {
    pub(crate) width: Width,
    device: &'a B::Device,
    family: String,
    answers: BTreeMap<String, Answer>,
    judged: BTreeSet<String>,
    measurements: Vec<Measurement>,
    problems: Vec<String>,
}

/// One output beside its answer.
struct Compared {
    values: usize,
    differing: usize,
    ulp: u64,
    /// How many lie further off than a flipped value may.
    beyond: usize,
    of_relative: f64,
    of_bound: f64,
    /// The first that differs, for a message.
    first: String,
}

impl<'a, B: Backend> Judge<'a, B> {
    /// Reads the answers of `family` in `width`.
    pub(crate) fn new(family: &str, width: Width, device: &'a B::Device) -> Self {
        let family = format!("{family}.{width}");
        let answers = golden::answers(&family);
        let judged = BTreeSet::new();
        Self { width, device, family, answers, judged, measurements: Vec::new(), problems: Vec::new() }
    }

    /// Returns host values as a tensor of this width.
    pub(crate) fn tensor<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Tensor<B, D> {
        ops::from_data(TensorData::new(values, shape), self.width, self.device)
    }

    /// Returns drawn values.
    pub(crate) fn normal<const D: usize>(&self, name: &str, shape: [usize; D], normal: Normal) -> Tensor<B, D> {
        self.tensor(normal.values(name, shape.iter().product()), shape)
    }

    /// Holds an op to torch's very bits.
    pub(crate) fn exact<const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) {
        let Some(found) = self.judge(name, ours) else { return };
        if found.differing > 0 {
            self.problems.push(format!("{name}: not exact: {found}"));
        }
    }

    /// Holds a transcendental op to its bounds.
    pub(crate) fn transcendental<const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) {
        let Some(found) = self.judge(name, ours) else { return };
        let right = match self.width {
            Width::F32 => found.of_relative <= 1.0,
            Width::Bf16 => found.ulp <= 1 && found.differing as f64 <= FLIPPED_SHARE * found.values as f64,
        };
        if !right {
            self.problems.push(format!("{name}: {found}"));
        }
        let mut figures = vec![("ulp", found.ulp as f64)];
        if self.width == Width::Bf16 {
            figures.push(("differing", found.differing as f64));
        }
        self.measure(name, &found, figures);
    }

    /// Holds a reduction or product to its bounds.
    pub(crate) fn reduction<const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) {
        let Some(found) = self.judge(name, ours) else { return };
        if !self.reduces_rightly(&found) {
            self.problems.push(format!("{name}: {found}"));
        }
        let figures = match self.width {
            Width::F32 => vec![("of_bound", found.of_bound)],
            Width::Bf16 => vec![("ulp", found.ulp as f64), ("differing", found.differing as f64)],
        };
        self.measure(name, &found, figures);
    }

    /// Asks of the bounds of a reduction that they refuse `wrong`, torch's op with its roundings elsewhere. In f32, where
    /// nothing is rounded, the two are one.
    pub(crate) fn refuses<const D: usize>(&mut self, name: &str, form: &str, wrong: Tensor<B, D>) {
        if self.width == Width::F32 {
            return;
        }
        let Some(found) = self.compare(name, wrong) else { return };
        if self.reduces_rightly(&found) {
            self.problems.push(format!("{name}: {form} passes: {found}"));
        }
    }

    /// Fails with all problems, answers that were not compared among them.
    pub(crate) fn finish(mut self) {
        let missed = self.answers.keys().filter(|name| !self.judged.contains(*name));
        self.problems.extend(missed.map(|name| format!("{name}: not computed")));
        self.problems.extend(bounds::problems(&B::name(self.device), &self.family, &self.measurements));
        let count = self.problems.len();
        assert!(count == 0, "{}: {count} problems\n  {}", self.family, self.problems.join("\n  "));
    }

    fn reduces_rightly(&self, found: &Compared) -> bool {
        match self.width {
            Width::F32 => found.of_bound <= 1.0,
            Width::Bf16 => {
                let flipped = (FLIPPED_SHARE * found.values as f64).max(1.0);
                found.beyond == 0 && found.differing as f64 <= flipped
            }
        }
    }

    fn measure(&mut self, name: &str, found: &Compared, figures: Vec<(&'static str, f64)>) {
        let case = format!("{}/{name}", self.family);
        self.measurements.push(Measurement { case, values: found.values, figures });
    }

    fn judge<const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) -> Option<Compared> {
        if !self.judged.insert(name.to_owned()) {
            self.problems.push(format!("{name}: judged twice"));
        }
        self.compare(name, ours)
    }

    /// Returns how an output compares, or notes why it does not compare.
    fn compare<const D: usize>(&mut self, name: &str, ours: Tensor<B, D>) -> Option<Compared> {
        let Some(torch) = self.answers.get(name) else {
            self.problems.push(format!("{name}: torch was not asked for this"));
            return None;
        };
        let ours = Values::of(ours, self.width);
        let (shape, dtype, width) = (ours.shape(), ours.dtype(), self.width);
        if shape != torch.shape || dtype != width.to_string() {
            self.problems.push(format!("{name}: {dtype} {shape:?} instead of {width} {:?}", torch.shape));
            return None;
        }
        let ours = ours.to_f32().expect("the dtype was compared");
        let nan = ours.iter().zip(&torch.values).position(|(ours, torch)| ours.is_nan() != torch.is_nan());
        if let Some(at) = nan {
            self.problems.push(format!("{name}: at {at} {:e}, torch {:e}", ours[at], torch.values[at]));
            return None;
        }
        Some(Compared::of(&ours, &torch.values, width))
    }
}

impl Compared {
    /// Compares values that are NaN in the same places.
    fn of(ours: &[f32], torch: &[f32], width: Width) -> Self {
        let grid = match width {
            Width::F32 => Grid::F32,
            Width::Bf16 => Grid::Bf16,
        };
        let pair = Pair { ours, upstream: torch, grid, equality: Equality::Exact };
        let figures = Figures::of(pair, NanPolicy::AsUpstream);
        let unlike = |&at: &usize| ours[at].to_bits() != torch[at].to_bits() && !ours[at].is_nan();
        let first = (0..ours.len()).find(unlike).map_or_else(String::new, |at| {
            format!("; first at {at} {:e} ({:#010x}), torch {:e}", ours[at], ours[at].to_bits(), torch[at])
        });
        Self {
            values: ours.len(),
            differing: (0..ours.len()).filter(unlike).count(),
            ulp: figures.ulp,
            beyond: pair.beyond(FLIPPED_FLOOR * pair.rms()),
            of_relative: pair.worst_ratio(F32_BOUND, 0.0),
            of_bound: pair.worst_ratio(F32_BOUND, F32_BOUND * pair.rms()),
            first,
        }
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { values, differing, ulp, of_bound, first, .. } = self;
        write!(f, "{differing} of {values} differ, by up to {ulp} ulp or {of_bound:.2} of the f32 bound{first}")
    }
}
