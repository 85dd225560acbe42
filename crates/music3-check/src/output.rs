//! One output: what was computed and everything that upstream recorded of it, brought to one shape and dtype.

use crate::{
    CheckError,
    case::CaseFile,
    compare::{Equality, Figures, Grid, NanPolicy, Pair},
    row::{Row, Verdict, Worst},
    values::{Data, Values},
};

/// Whether the dtype of what was computed must be upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DtypeRule {
    /// It must.
    Upstream,
    /// The precision was chosen by the user: what was computed is brought to upstream's dtype first.
    Chosen,
}

/// Whether f32 values are bf16 values in truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widened {
    /// They are f32.
    No,
    /// They were widened for an f32 module.
    FromBf16,
}

/// One output of floats, with everything it is compared with.
pub(crate) struct Output {
    pub(crate) label: String,
    pub(crate) reference: &'static str,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) grid: Grid,
    pub(crate) equality: Equality,
    pub(crate) ours: Vec<f32>,
    /// What it is compared with: under MATH attention where that was recorded.
    pub(crate) upstream: Vec<f32>,
    /// Upstream under its own choice of kernel, where the reference is another.
    pub(crate) default: Option<Vec<f32>>,
    /// f32 arithmetic rounded at the end.
    pub(crate) single: Option<Vec<f32>>,
}

/// What came of bringing an output together.
pub(crate) enum Met {
    /// It is missing, or has another shape or dtype.
    Wrong(Row),
    /// Integers.
    Ints { row: Row, ours: Vec<i64>, upstream: Vec<i64> },
    /// Floats.
    Floats(Output),
}

/// What upstream recorded of one output.
pub(crate) struct Recorded {
    pub(crate) reference: &'static str,
    pub(crate) upstream: Values,
    pub(crate) default: Option<Values>,
    pub(crate) single: Option<Values>,
}

impl Recorded {
    /// Reads one output of a case.
    pub(crate) fn read(case: &CaseFile, label: &str) -> Result<Self, CheckError> {
        let optional = |prefix: &str| match case.holds(&format!("{prefix}.{label}")) {
            true => case.stored(&format!("{prefix}.{label}")).map(Some),
            false => Ok(None),
        };
        let out = case.stored(&format!("out.{label}"))?;
        let single = optional("out_f32")?;
        let recorded = match optional("out_math")? {
            Some(upstream) => Self { reference: "out_math", upstream, default: Some(out), single },
            None => Self { reference: "out", upstream: out, default: None, single },
        };
        for (prefix, other) in [("out", &recorded.default), ("out_f32", &recorded.single)] {
            if let Some(other) = other {
                let name = format!("{prefix}.{label}");
                case.expect_same(&name, other.shape(), recorded.upstream.shape())?;
            }
        }
        Ok(recorded)
    }

    /// Brings what was computed together with what was recorded, if shape and dtype allow it.
    pub(crate) fn meet(self, label: &str, ours: Option<Values>, dtypes: DtypeRule, widened: Widened) -> Met {
        let upstream = self.upstream;
        let row = Row { shape: upstream.shape().to_vec(), ..Row::new(label, self.reference, upstream.dtype()) };
        let Some(ours) = ours else {
            return Met::Wrong(row.failed("missing: it was not computed"));
        };
        if ours.shape() != upstream.shape() {
            return Met::Wrong(row.failed(format!("shape {:?}, expected {:?}", ours.shape(), upstream.shape())));
        }
        let ours = if dtypes == DtypeRule::Chosen { ours.in_dtype_of(&upstream) } else { ours };
        if ours.dtype() != upstream.dtype() {
            return Met::Wrong(row.failed(format!("dtype {}, expected {}", ours.dtype(), upstream.dtype())));
        }
        if let (Some(ours), Some(upstream)) = (ours.ints(), upstream.ints()) {
            return Met::Ints { row, ours: ours.to_vec(), upstream: upstream.to_vec() };
        }
        let narrow = widened == Widened::FromBf16 && matches!(upstream.clone().narrowed().data(), Data::Bf16(_));
        let grid = if narrow || upstream.dtype() == "bf16" { Grid::Bf16 } else { Grid::F32 };
        let floats = |values: &Values| values.to_f32().unwrap_or_default();
        Met::Floats(Output {
            label: label.to_owned(),
            reference: self.reference,
            dtype: upstream.dtype(),
            shape: upstream.shape().to_vec(),
            grid,
            equality: Equality::Exact,
            ours: floats(&ours),
            upstream: floats(&upstream),
            default: self.default.as_ref().map(floats),
            single: self.single.as_ref().map(floats),
        })
    }
}

impl Output {
    /// Returns what was computed beside what it is compared with.
    pub(crate) fn pair(&self) -> Pair<'_> {
        self.with(&self.ours)
    }

    /// Returns other values beside what they are compared with.
    pub(crate) fn with<'a>(&'a self, ours: &'a [f32]) -> Pair<'a> {
        Pair { ours, upstream: &self.upstream, grid: self.grid, equality: self.equality }
    }

    /// Returns the distance between upstream's two attention kernels; none where only one was recorded.
    pub(crate) fn control(&self, nan: NanPolicy) -> Figures {
        let default = self.default.as_ref().unwrap_or(&self.upstream);
        Figures::of(self.with(default), nan)
    }

    /// Returns its row, not judged yet.
    pub(crate) fn row(&self, nan: NanPolicy, verdict: Verdict) -> Row {
        let figures = Figures::of(self.pair(), nan);
        let worst = figures.worst.map(|index| Worst {
            place: place(index, &self.shape),
            ours: format!("{:?}", self.ours[index]),
            upstream: format!("{:?}", self.upstream[index]),
        });
        Row {
            shape: self.shape.clone(),
            figures: Some(figures.into()),
            worst,
            control: self.default.as_ref().map(|_| self.control(nan).into()),
            verdict,
            ..Row::new(&self.label, self.reference, self.dtype)
        }
    }
}

/// Returns the index of a value in words.
pub(crate) fn place(mut index: usize, shape: &[usize]) -> String {
    let mut places = vec![0; shape.len()];
    for (place, &dim) in places.iter_mut().zip(shape).rev() {
        *place = index % dim.max(1);
        index /= dim.max(1);
    }
    format!("{places:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(upstream: Values, ours: Option<Values>, dtypes: DtypeRule) -> Met {
        let recorded = Recorded { reference: "out", upstream, default: None, single: None };
        recorded.meet("x", ours, dtypes, Widened::No)
    }

    #[test]
    fn what_is_missing_or_misshapen_or_of_another_dtype_fails() {
        let upstream = || Values::f32(vec![1.0, 2.0], [2]);
        let bf16 = Values::f32(vec![1.0, 2.0], [2]).narrowed();
        for ours in
            [None, Some(Values::f32(vec![1.0, 2.0], [1, 2])), Some(Values::f32(vec![1.0], [1])), Some(bf16.clone())]
        {
            assert!(
                matches!(met(upstream(), ours, DtypeRule::Upstream), Met::Wrong(row) if row.verdict == Verdict::Failed)
            );
        }
        assert!(matches!(met(upstream(), Some(bf16), DtypeRule::Chosen), Met::Floats(_)));
    }

    #[test]
    fn names_the_place_of_a_value() {
        assert_eq!(place(7, &[2, 3, 2]), "[1, 0, 1]");
        assert_eq!(place(0, &[]), "[]");
    }
}
