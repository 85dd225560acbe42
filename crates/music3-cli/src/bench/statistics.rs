//! From times to numbers.

use serde::Serialize;

/// The middle, the least and the most of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Measures the values; none have none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, min, max })
    }
}

/// The line through some points that is closest to them by squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) slope: f64,
    pub(super) intercept: f64,
}

impl Line {
    /// Fits it; points of a single x have none.
    pub(super) fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let shared: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        (spread > 0.0).then(|| Self { slope: shared / spread, intercept: mean_y - mean_x * shared / spread })
    }
}

/// Loop lengths from 1 to `repeat`: all of them, or so many that are spread evenly.
pub(super) fn loop_lengths(repeat: usize) -> Vec<usize> {
    const MOST: usize = 12;
    if repeat <= MOST {
        return (1..=repeat).collect();
    }
    (0..MOST).map(|index| 1 + index * (repeat - 1) / (MOST - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_middle_of_odd_and_even_counts() {
        assert_eq!(Spread::of(&[3.0, 1.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 9.0, 2.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn separates_what_a_loop_costs_once_from_what_a_call_costs() {
        let exact = [(1.0, 7.0), (2.0, 9.0), (3.0, 11.0)];
        assert_eq!(Line::through(&exact), Some(Line { slope: 2.0, intercept: 5.0 }));
        // By hand: means 2 and 4; Σ(x−2)(y−4) = 3, Σ(x−2)² = 2.
        let scattered = [(1.0, 3.0), (2.0, 3.0), (3.0, 6.0)];
        assert_eq!(Line::through(&scattered), Some(Line { slope: 1.5, intercept: 1.0 }));
        assert_eq!(Line::through(&[(1.0, 3.0)]), None);
        assert_eq!(Line::through(&[]), None);
    }

    #[test]
    fn loops_reach_from_one_to_the_longest() {
        assert_eq!(loop_lengths(1), [1]);
        assert_eq!(loop_lengths(4), [1, 2, 3, 4]);
        let lengths = loop_lengths(100);
        assert_eq!((lengths.len(), lengths[0], lengths[11]), (12, 1, 100));
        assert!(lengths.is_sorted_by(|left, right| left < right));
    }
}
