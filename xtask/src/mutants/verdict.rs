//! What a mutation's cases say about it, and the table of all.

use std::fmt::Write as _;

use super::{
    list::Mutation,
    report::{Outcome, Red},
};

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every case that must go red did.
    Caught,
    /// Nothing went red, as was proven.
    NoValueChanges,
    /// Nothing went red.
    Survived,
    /// Something went red, but not these cases, which must.
    Missed(Vec<String>),
    /// Something went red, though it was said to change no value.
    Refuted,
}

/// A mutation and what its cases said.
pub(super) struct Tried<'a> {
    pub(super) mutation: &'a Mutation,
    pub(super) outcomes: Vec<Outcome>,
}

impl Tried<'_> {
    /// Judges the mutation.
    pub(super) fn verdict(&self) -> Verdict {
        let is_red = |case: &str| self.outcomes.iter().any(|outcome| outcome.case == case && outcome.red.is_some());
        let any = self.outcomes.iter().any(|outcome| outcome.red.is_some());
        if self.mutation.no_value_changes.is_some() {
            return if any { Verdict::Refuted } else { Verdict::NoValueChanges };
        }
        let green: Vec<String> = self.mutation.must.iter().filter(|case| !is_red(case)).cloned().collect();
        match (green.is_empty(), any) {
            (true, _) => Verdict::Caught,
            (false, true) => Verdict::Missed(green),
            (false, false) => Verdict::Survived,
        }
    }

    /// Returns what went red, component by component.
    pub(super) fn red(&self) -> String {
        let mut components: Vec<&str> = Vec::new();
        for outcome in &self.outcomes {
            if !components.contains(&outcome.component.as_str()) {
                components.push(&outcome.component);
            }
        }
        let mut parts = Vec::new();
        for component in components {
            let of_this = || self.outcomes.iter().filter(|outcome| outcome.component == component);
            let red: Vec<String> = of_this()
                .filter_map(|outcome| {
                    Some(format!("{} ({})", label(&outcome.case, component), shown(outcome.red.as_ref()?)))
                })
                .collect();
            if !red.is_empty() {
                parts.push(format!("`{component}` {} of {}: {}", red.len(), of_this().count(), red.join(", ")));
            }
        }
        if parts.is_empty() { format!("nothing of {} cases", self.outcomes.len()) } else { parts.join("; ") }
    }
}

impl Verdict {
    /// Whether the command may succeed.
    pub(super) fn is_good(&self) -> bool {
        matches!(self, Self::Caught | Self::NoValueChanges)
    }

    /// Returns the verdict in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Caught => "caught".to_owned(),
            Self::NoValueChanges => "changes no value".to_owned(),
            Self::Survived => "SURVIVED: nothing noticed it".to_owned(),
            Self::Missed(green) => format!("MISSED by {}, which must notice it", green.join(", ")),
            Self::Refuted => "WRONG CLAIM: said to change no value, and it does".to_owned(),
        }
    }
}

/// A case's name without its folder and without the component, which is named beside it.
fn label<'a>(case: &'a str, component: &str) -> &'a str {
    let stem = stem(case);
    stem.strip_prefix(component).and_then(|rest| rest.strip_prefix('.')).unwrap_or(stem)
}

/// A case's name without its folder.
fn stem(case: &str) -> &str {
    case.rsplit('/').next().unwrap_or(case)
}

fn shown(red: &Red) -> String {
    match red {
        Red::Outputs { failed, judged, factor } if factor.is_finite() => {
            let digits = if *factor < 10.0 { 1 } else { 0 };
            let factor = if *factor < 1e4 { format!("{factor:.digits$}") } else { format!("{factor:.0e}") };
            format!("{failed}/{judged}, {factor}×")
        }
        Red::Outputs { failed, judged, .. } => format!("{failed}/{judged}"),
        Red::Stopped(_) => "stopped".to_owned(),
        Red::Codes => "other codes".to_owned(),
    }
}

/// Returns the page that `--write` writes.
pub(super) fn page(tried: &[Tried<'_>]) -> String {
    let mut text = String::from(
        "# Wrong forms, and what notices them\n\n\
         Written by `cargo xtask mutants --write` from [mutants.toml](mutants.toml). Each mutation is applied to a copy of\n\
         the tree, built with the flex backend, and run on its cases; unmutated, all of them pass. Cases are named without\n\
         their component. In brackets: outputs out of bounds / outputs judged, and the largest excess over the bound as a\n\
         factor (none where a NaN, a shape or an exact value fails).\n\n\
         | mutation | must be noticed by | what went red | verdict |\n|---|---|---|---|\n",
    );
    for tried in tried {
        let mutation = tried.mutation;
        let gates: Vec<String> = mutation.must.iter().map(|case| format!("`{}`", stem(case))).collect();
        let gates = match &mutation.no_value_changes {
            Some(reason) => format!("none: {}", reason.replace('|', "\\|")),
            None => gates.join(", "),
        };
        let (red, verdict) = (tried.red(), tried.verdict().words());
        let wrong = mutation.wrong.replace('|', "\\|");
        let _ = writeln!(text, "| **{}**: {wrong} | {gates} | {red} | {verdict} |", mutation.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutation(must: &[&str], also: &[&str], no_value_changes: Option<&str>) -> Mutation {
        let owned = |cases: &[&str]| cases.iter().map(|case| (*case).to_owned()).collect();
        Mutation {
            name: "m".to_owned(),
            wrong: "x | y".to_owned(),
            must: owned(must),
            also: owned(also),
            no_value_changes: no_value_changes.map(str::to_owned),
            edits: Vec::new(),
            device: None,
        }
    }

    fn outcomes(cases: &[(&str, Option<Red>)]) -> Vec<Outcome> {
        let component = |case: &str| stem(case).split('.').next().unwrap_or_default().to_owned();
        cases
            .iter()
            .map(|(case, red)| Outcome { case: (*case).to_owned(), component: component(case), red: red.clone() })
            .collect()
    }

    fn off(factor: f64) -> Option<Red> {
        Some(Red::Outputs { failed: 1, judged: 2, factor })
    }

    #[test]
    fn only_the_cases_that_must_notice_count() {
        let mutation = mutation(&["tiny/snake.a", "tiny/snake.b"], &["tiny/flow.c"], None);
        let verdict = |a, b, c| {
            let outcomes = outcomes(&[("tiny/snake.a", a), ("tiny/snake.b", b), ("tiny/flow.c", c)]);
            Tried { mutation: &mutation, outcomes }.verdict()
        };
        assert_eq!(verdict(off(2.0), Some(Red::Codes), None), Verdict::Caught);
        assert_eq!(verdict(off(2.0), None, off(9.0)), Verdict::Missed(vec!["tiny/snake.b".to_owned()]));
        assert_eq!(verdict(None, None, None), Verdict::Survived);
        assert!(!verdict(None, None, None).is_good() && !verdict(off(2.0), None, None).is_good());
    }

    #[test]
    fn a_claim_that_no_value_changes_is_tried() {
        let mutation = mutation(&[], &["tiny/snake.a"], Some("it cannot"));
        let verdict = |a| Tried { mutation: &mutation, outcomes: outcomes(&[("tiny/snake.a", a)]) }.verdict();
        assert_eq!(verdict(None), Verdict::NoValueChanges);
        assert_eq!(verdict(off(2.0)), Verdict::Refuted);
        assert!(!verdict(off(2.0)).is_good());
    }

    #[test]
    fn the_table_names_components_cases_and_gates() {
        let mutation = mutation(&["tiny/snake.a.f32"], &["tiny/snake.b.f32", "captures/one"], None);
        let red = [("tiny/snake.a.f32", off(41.5)), ("tiny/snake.b.f32", None), ("captures/one", off(f64::INFINITY))];
        let tried = Tried { mutation: &mutation, outcomes: outcomes(&red) };
        assert_eq!(tried.red(), "`snake` 1 of 2: a.f32 (1/2, 42×); `one` 1 of 1: one (1/2)");
        let page = page(&[tried]);
        let row = page.lines().last().unwrap_or_default();
        assert!(row.starts_with("| **m**: x \\| y | `snake.a.f32` | `snake` 1 of 2"), "{row}");
        assert!(row.ends_with("| caught |"), "{row}");
    }
}
