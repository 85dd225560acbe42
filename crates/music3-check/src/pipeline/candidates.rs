//! The candidates before each semantic draw: a set of tokens per step, and a guided logit for each.

use std::collections::BTreeMap;

use music3_text::token_ids::{AUDIO_END, SEMANTIC_CODE_OFFSET};

use crate::values::Values;

/// Stands where a step has fewer candidates than the widest.
const PADDING: i64 = -1;

/// The candidates of every step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Candidates(Vec<BTreeMap<i64, f32>>);

/// How two or three runs' candidates compare.
pub(super) struct Aligned {
    /// The guided logits of the candidates that all runs have, run by run.
    pub(super) values: Vec<Vec<f32>>,
    /// How many candidates each run lacks or has alone, against the first.
    pub(super) differing: Vec<usize>,
    /// The candidates of the first run.
    pub(super) count: usize,
}

impl Candidates {
    /// Returns the candidates that a capture holds.
    pub(super) fn recorded(ids: &Values, values: &Values) -> Option<Self> {
        let [_, columns] = *ids.shape() else { return None };
        if ids.shape() != values.shape() || columns == 0 {
            return None;
        }
        let values = values.to_f32()?;
        let steps = ids.ints()?.chunks(columns).zip(values.chunks(columns));
        let step = |(ids, values): (&[i64], &[f32])| {
            let pairs = ids.iter().copied().zip(values.iter().copied());
            pairs.filter(|(id, _)| *id != PADDING).collect()
        };
        Some(Self(steps.map(step).collect()))
    }

    /// Adds a step from its guided logits over the audio rows.
    pub(super) fn push(&mut self, guided: &[f32]) {
        let token = |index: usize| match index {
            0 => i64::from(AUDIO_END),
            index => i64::from(SEMANTIC_CODE_OFFSET) + index as i64 - 1,
        };
        let finite = guided.iter().enumerate().filter(|(_, value)| value.is_finite());
        self.0.push(finite.map(|(index, &value)| (token(index), value)).collect());
    }

    /// Returns token ids and guided logits in the form of a capture.
    pub(super) fn to_values(&self) -> (Values, Values) {
        let columns = self.0.iter().map(BTreeMap::len).max().unwrap_or(0);
        let (mut ids, mut values) = (Vec::new(), Vec::new());
        for step in &self.0 {
            let padding = columns - step.len();
            ids.extend(step.keys().copied().chain(std::iter::repeat_n(PADDING, padding)));
            values.extend(step.values().copied().chain(std::iter::repeat_n(PADDING as f32, padding)));
        }
        let shape = [self.0.len(), columns];
        (Values::int(ids, shape), Values::f32(values, shape))
    }

    /// Compares runs of equally many steps; nothing where they differ in that.
    pub(super) fn align(runs: &[&Self]) -> Option<Aligned> {
        let first = runs.first()?;
        if runs.iter().any(|run| run.0.len() != first.0.len()) {
            return None;
        }
        let mut aligned = Aligned {
            values: vec![Vec::new(); runs.len()],
            differing: vec![0; runs.len()],
            count: first.0.iter().map(BTreeMap::len).sum(),
        };
        for (step, candidates) in first.0.iter().enumerate() {
            let others = || runs.iter().map(|run| &run.0[step]);
            for id in candidates.keys().filter(|id| others().all(|other| other.contains_key(id))) {
                others().zip(&mut aligned.values).for_each(|(other, values)| values.push(other[id]));
            }
            for (other, differing) in others().zip(&mut aligned.differing) {
                let alone =
                    |a: &BTreeMap<i64, f32>, b: &BTreeMap<i64, f32>| a.keys().filter(|id| !b.contains_key(id)).count();
                *differing += alone(candidates, other) + alone(other, candidates);
            }
        }
        Some(aligned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_form_of_a_capture() {
        let mut candidates = Candidates::default();
        candidates.push(&[f32::NEG_INFINITY, 2.0, -1.0]);
        candidates.push(&[5.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
        let (ids, values) = candidates.to_values();
        assert_eq!(ids, Values::int(vec![151_675, 151_676, 151_670, -1], [2, 2]));
        assert_eq!(values, Values::f32(vec![2.0, -1.0, 5.0, -1.0], [2, 2]));
        assert_eq!(Candidates::recorded(&ids, &values), Some(candidates));
    }

    #[test]
    fn aligns_what_all_runs_have() {
        let mut one = Candidates::default();
        one.push(&[f32::NEG_INFINITY, 2.0, 1.0]);
        let mut two = Candidates::default();
        two.push(&[0.5, 3.0, f32::NEG_INFINITY]);
        let aligned = Candidates::align(&[&one, &two]).expect("one step each");
        assert_eq!(aligned.values, [[2.0], [3.0]]);
        assert_eq!((aligned.differing, aligned.count), (vec![0, 2], 2));
        assert!(Candidates::align(&[&one, &Candidates::default()]).is_none());
    }
}
