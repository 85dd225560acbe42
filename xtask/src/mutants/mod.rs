//! `cargo xtask mutants`: wrong forms of the port, and whether the cases notice them.
//!
//! A bound that nothing violates has not been shown to tell right from wrong. Each mutation of `xtask/mutants.toml` is
//! applied to a copy of the tree, the program is built from it, and its cases are run.

mod list;
mod report;
mod scratch;
mod switched;
mod verdict;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, bail};

use self::{
    list::Mutation,
    scratch::Scratch,
    verdict::{Tried, page},
};

/// The table of the last full run, below the root.
const TABLE: &str = "xtask/mutants.md";

/// What is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Tries only this mutation; may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Writes the table into xtask/mutants.md.
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// Tries none, and writes a copy of the tree whose program holds all those that are tried on a GPU, each switched on
    /// by the environment variable MUSIC3_MUTANT.
    #[arg(long, value_name = "DIR", conflicts_with = "write")]
    switched: Option<PathBuf>,
}

/// Tries the mutations.
///
/// # Errors
/// When one no longer applies, does not compile, or is not noticed by the cases that must notice it; and when a case is
/// red without any.
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<()> {
    let start = Instant::now();
    let listed = list::read(root)?;
    let mutations = selected(&listed, &options.only)?;
    if let Some(folder) = &options.switched {
        return switched::write(root, folder, &mutations);
    }
    for mutation in &mutations {
        mutation.applied_to(root)?;
    }
    let scratch = Scratch::prepare(root)?;
    expect_green(&scratch, &mutations).context("before the first mutation")?;

    let mut tried = Vec::new();
    for (number, &mutation) in in_build_order(&mutations).iter().enumerate() {
        print!("[{}/{}] {}: ", number + 1, mutations.len(), mutation.name);
        flush();
        let since = Instant::now();
        let outcomes = scratch
            .with(mutation, || {
                scratch.build()?;
                scratch.check(mutation.cases())?.outcomes()
            })
            .with_context(|| format!("mutation `{}` could not be tried", mutation.name))?;
        let result = Tried { mutation, outcomes };
        println!("{} ({:.0} s)\n    {}", result.verdict().words(), since.elapsed().as_secs_f64(), result.red());
        tried.push(result);
    }
    // Nothing of a mutation may have stayed behind and been counted for the next one.
    expect_green(&scratch, &mutations).context("after the last mutation")?;
    tried.sort_by_key(|tried| listed.iter().position(|mutation| mutation.name == tried.mutation.name));
    let page = page(&tried);
    println!("\n{page}\n{} mutations in {:.1} minutes", tried.len(), start.elapsed().as_secs_f64() / 60.0);
    if options.write {
        std::fs::write(scratch.root().join(TABLE), page).with_context(|| format!("{TABLE} cannot be written"))?;
    }
    let bad: Vec<&str> =
        tried.iter().filter(|tried| !tried.verdict().is_good()).map(|tried| tried.mutation.name.as_str()).collect();
    if !bad.is_empty() {
        bail!("{} of {} mutations were not noticed as they must be: {}", bad.len(), tried.len(), bad.join(", "));
    }
    Ok(())
}

/// Runs all cases of the mutations without any mutation.
fn expect_green(scratch: &Scratch, mutations: &[&Mutation]) -> anyhow::Result<()> {
    let cases: BTreeSet<&str> = mutations.iter().flat_map(|mutation| mutation.cases()).collect();
    print!("no mutation, {} cases: ", cases.len());
    flush();
    let since = Instant::now();
    scratch.build().context("the tree without any mutation")?;
    let outcomes = scratch.check(cases)?.outcomes()?;
    let red: Vec<&str> =
        outcomes.iter().filter(|outcome| outcome.red.is_some()).map(|outcome| outcome.case.as_str()).collect();
    if !red.is_empty() {
        bail!("red without any mutation, so that nothing can be shown with them: {}", red.join(", "));
    }
    println!("all pass ({:.0} s)", since.elapsed().as_secs_f64());
    Ok(())
}

fn selected<'a>(listed: &'a [Mutation], only: &[String]) -> anyhow::Result<Vec<&'a Mutation>> {
    if let Some(name) = only.iter().find(|name| !listed.iter().any(|mutation| mutation.name == **name)) {
        let names: Vec<&str> = listed.iter().map(|mutation| mutation.name.as_str()).collect();
        bail!("no mutation is called `{name}`; there are: {}", names.join(", "));
    }
    Ok(listed.iter().filter(|mutation| only.is_empty() || only.contains(&mutation.name)).collect())
}

/// Mutations of one crate one after another: each switch between crates builds both anew.
fn in_build_order<'a>(mutations: &[&'a Mutation]) -> Vec<&'a Mutation> {
    let mut ordered = mutations.to_vec();
    ordered.sort_by_key(|mutation| mutation.edits.iter().map(|edit| edit.file.clone()).min());
    ordered
}

/// Shows what is printed so far, before minutes of building.
fn flush() {
    // Where nothing can be shown, nothing is lost.
    let _ = std::io::Write::flush(&mut std::io::stdout());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_name_that_is_not_in_the_list() {
        let listed = list::read(&crate::workspace_root()).expect("the list of the tree is right");
        assert_eq!(selected(&listed, &[]).expect("all").len(), listed.len());
        let one = listed[1].name.clone();
        let found = selected(&listed, std::slice::from_ref(&one)).expect("one");
        assert_eq!((found.len(), &found[0].name), (1, &one));
        let error = selected(&listed, &["no-such".to_owned()]).expect_err("there is none");
        assert!(error.to_string().contains("`no-such`"), "{error}");
    }

    #[test]
    fn mutations_of_one_file_follow_each_other() {
        let listed = list::read(&crate::workspace_root()).expect("the list of the tree is right");
        let all = selected(&listed, &[]).expect("all");
        let ordered = in_build_order(&all);
        let first = |mutation: &Mutation| mutation.edits.iter().map(|edit| edit.file.clone()).min();
        assert!(ordered.windows(2).all(|pair| first(pair[0]) <= first(pair[1])));
        assert_eq!(ordered.len(), all.len());
    }
}
