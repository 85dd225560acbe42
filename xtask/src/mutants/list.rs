//! The list of mutations: `xtask/mutants.toml`, read and checked.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

/// The list, below the root.
pub(super) const LIST: &str = "xtask/mutants.toml";

/// The folder that cases are named below.
pub(super) const CASES: &str = "goldens";

/// A wrong form of the port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutation {
    /// What it is called.
    pub(super) name: String,
    /// What is wrong then.
    pub(super) wrong: String,
    /// The cases that have to go red.
    #[serde(default)]
    pub(super) must: Vec<String>,
    /// More cases that are run.
    #[serde(default)]
    pub(super) also: Vec<String>,
    /// Why no case can notice it.
    pub(super) no_value_changes: Option<String>,
    /// What is changed.
    #[serde(rename = "edit")]
    pub(super) edits: Vec<Edit>,
    /// How it is tried on a GPU, if it is.
    pub(super) device: Option<Device>,
}

/// How a mutation is tried on a GPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    /// The cases that have to go red there.
    pub(super) must: Vec<String>,
    /// More cases that are run there.
    #[serde(default)]
    pub(super) also: Vec<String>,
    /// What is changed as well, where a kernel computes what the edits change.
    #[serde(default, rename = "edit")]
    pub(super) edits: Vec<Edit>,
}

/// A change of one place.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The file, below the root.
    pub(super) file: String,
    /// What occurs in it exactly once.
    pub(super) find: String,
    /// What stands there instead.
    pub(super) replace: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(rename = "mutation")]
    mutations: Vec<Mutation>,
}

impl Mutation {
    /// The cases it runs, those that must go red first.
    pub(super) fn cases(&self) -> impl Iterator<Item = &str> {
        self.must.iter().chain(&self.also).map(String::as_str)
    }

    /// What is changed in a program for a GPU: everything, and what kernels compute instead.
    pub(super) fn device_edits(&self) -> impl Iterator<Item = &Edit> {
        self.edits.iter().chain(self.device.iter().flat_map(|device| &device.edits))
    }

    /// Returns each changed file with its new text.
    ///
    /// # Errors
    /// When a text to be replaced does not occur exactly once: the mutation no longer applies.
    pub(super) fn applied_to(&self, root: &Path) -> anyhow::Result<Vec<(String, String)>> {
        let mut changed: Vec<(String, String)> = Vec::new();
        for edit in &self.edits {
            let file = &edit.file;
            let index = match changed.iter().position(|(path, _)| path == file) {
                Some(index) => index,
                None => {
                    let text = std::fs::read_to_string(root.join(file));
                    let text = text.with_context(|| format!("mutation `{}`: {file} cannot be read", self.name))?;
                    changed.push((file.clone(), text));
                    changed.len() - 1
                }
            };
            let text = edit.applied(&changed[index].1);
            changed[index].1 = text.with_context(|| format!("mutation `{}` no longer applies to {file}", self.name))?;
        }
        Ok(changed)
    }

    fn problem(&self) -> Option<String> {
        let twice = |case| self.cases().filter(|other| *other == case).count() > 1;
        match &self.no_value_changes {
            Some(_) if !self.must.is_empty() => {
                Some("it has `must`, though `no_value_changes` says that nothing can notice it".to_owned())
            }
            Some(reason) if reason.trim().is_empty() => Some("`no_value_changes` gives no reason".to_owned()),
            None if self.must.is_empty() => Some(
                "it has no `must`; name the cases that have to notice it, or prove in `no_value_changes` that none can"
                    .to_owned(),
            ),
            _ if self.cases().next().is_none() => Some("it runs no case".to_owned()),
            _ if self.edits.is_empty() => Some("it edits nothing".to_owned()),
            _ if self.device_edits().any(|edit| edit.find.is_empty() || edit.find == edit.replace) => {
                Some("an edit changes nothing".to_owned())
            }
            _ if self.device.as_ref().is_some_and(|device| device.must.is_empty()) => {
                Some("its `device` has no `must`".to_owned())
            }
            _ => self.cases().find(|case| twice(*case)).map(|case| format!("it names the case `{case}` twice")),
        }
    }
}

impl Edit {
    fn applied(&self, text: &str) -> anyhow::Result<String> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            count => bail!(
                "the text to be replaced must occur exactly once, and it occurs {count} times; \
                 change `find` in {LIST} to what stands there now:\n{}",
                self.find
            ),
        }
    }
}

/// Reads the list of the tree at `root` and finds every case it names.
///
/// # Errors
/// When the list cannot be read, says something impossible, or names a case that is not there.
pub(super) fn read(root: &Path) -> anyhow::Result<Vec<Mutation>> {
    let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("{LIST} cannot be read"))?;
    let mutations = parse(&text)?;
    for mutation in &mutations {
        let of_device = mutation.device.iter().flat_map(|device| device.must.iter().chain(&device.also));
        for case in mutation.cases().chain(of_device.map(String::as_str)) {
            let path = case_path(case);
            if !root.join(&path).is_file() {
                bail!("{LIST}: mutation `{}` names the case `{case}`, but there is no {path}", mutation.name);
            }
        }
    }
    Ok(mutations)
}

/// Returns a case's file, below the root.
pub(super) fn case_path(case: &str) -> String {
    format!("{CASES}/{case}.json")
}

fn parse(text: &str) -> anyhow::Result<Vec<Mutation>> {
    let List { mutations } = toml::from_str(text).with_context(|| format!("{LIST} is not as expected"))?;
    for (index, mutation) in mutations.iter().enumerate() {
        if mutations[..index].iter().any(|other| other.name == mutation.name) {
            bail!("{LIST}: two mutations are called `{}`", mutation.name);
        }
        if let Some(problem) = mutation.problem() {
            bail!("{LIST}: mutation `{}`: {problem}", mutation.name);
        }
    }
    Ok(mutations)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDIT: &str = "[[mutation.edit]]\nfile = 'a.rs'\nfind = 'x + 1'\nreplace = 'x'\n";

    fn entry(head: &str) -> String {
        format!("[[mutation]]\nname = 'm'\nwrong = 'one less'\n{head}\n{EDIT}")
    }

    fn refusal(text: &str) -> String {
        format!("{:#}", parse(text).expect_err("the list is wrong"))
    }

    #[test]
    fn reads_a_mutation() {
        let list = parse(&entry("must = ['tiny/a', 'tiny/b']\nalso = ['tiny/c']")).expect("the list is right");
        let [mutation] = list.as_slice() else { panic!("{} mutations", list.len()) };
        assert_eq!((mutation.name.as_str(), mutation.wrong.as_str()), ("m", "one less"));
        assert_eq!(mutation.cases().collect::<Vec<_>>(), ["tiny/a", "tiny/b", "tiny/c"]);
        assert_eq!(mutation.edits.len(), 1);
        assert_eq!(case_path("tiny/a"), "goldens/tiny/a.json");
    }

    #[test]
    fn a_text_of_several_lines_keeps_its_indentation() {
        let text = entry("must = ['a']").replace("'x + 1'", "'''\n    if x {\n        y'''");
        let edit = &parse(&text).expect("the list is right")[0].edits[0];
        assert_eq!(edit.find, "    if x {\n        y");
    }

    #[test]
    fn refuses_what_would_prove_nothing() {
        assert!(refusal(&entry("")).contains("no `must`"));
        assert!(refusal(&entry("also = ['a']")).contains("no `must`"));
        assert!(refusal(&entry("no_value_changes = ' '\nalso = ['a']")).contains("no reason"));
        assert!(refusal(&entry("no_value_changes = 'so'\nmust = ['a']")).contains("though `no_value_changes`"));
        assert!(refusal(&entry("no_value_changes = 'so'")).contains("runs no case"));
        assert!(refusal(&entry("must = ['a', 'a']")).contains("twice"));
        assert!(refusal(&entry("must = ['a']").replace("replace = 'x'", "replace = 'x + 1'")).contains("nothing"));
        assert!(refusal(&entry("must = ['a']\nmist = ['b']")).contains("mist"));
        assert!(refusal(&[&entry("must = ['a']"), "[mutation.device]\nmust = []"].concat()).contains("`device` has"));
        assert!(refusal(&[entry("must = ['a']"), entry("must = ['a']")].concat()).contains("two mutations"));
        assert!(refusal("[[mutation]]\nname = 'm'\nwrong = 'w'\nmust = ['a']").contains("edit"));
    }

    #[test]
    fn replaces_what_occurs_exactly_once() {
        let edit = &parse(&entry("must = ['a']")).expect("the list is right")[0].edits[0];
        assert_eq!(edit.applied("y = x + 1;").expect("it occurs once"), "y = x;");
        for (text, count) in [("y = x + 2;", "0 times"), ("x + 1, x + 1", "2 times")] {
            let error = edit.applied(text).expect_err("it does not occur once");
            assert!(error.to_string().contains(count), "{error}");
        }
    }

    #[test]
    fn every_mutation_of_the_tree_applies() {
        let root = crate::workspace_root();
        for mutation in read(&root).expect("the list of the tree is right") {
            if let Err(error) = mutation.applied_to(&root) {
                panic!("{error:#}");
            }
        }
    }
}
