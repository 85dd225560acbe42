//! A copy of the tree with all mutations of a device in one program, each switched on when it runs.
//!
//! A machine with a GPU need not have cargo, and a program for it takes long to build. So every function that an edit
//! changes is written out once per mutation: its body becomes a choice between its wrong forms and the right one. In a
//! kernel the choice is made when it is compiled, on the machine that runs it.

use std::{collections::BTreeSet, fmt::Write as _, ops::Range, path::Path};

use anyhow::{Context, bail};

use super::{
    list::{Edit, LIST, Mutation, case_path},
    scratch,
};

/// The list that the script on the machine with the GPU reads, below the folder.
const TRIED: &str = "mutants.tsv";

/// A function's wrong form.
struct Wrong<'a> {
    mutation: &'a str,
    body: String,
}

/// A function that mutations change: where its body lies in the file, and its wrong forms.
struct Switch<'a> {
    body: Range<usize>,
    is_kernel: bool,
    wrong: Vec<Wrong<'a>>,
}

/// Writes the copy into `folder`, and beside it which mutations it holds and which cases must notice each.
///
/// # Errors
/// When no mutation is tried on a device, one no longer applies, or an edit lies outside of a function.
pub(super) fn write(root: &Path, folder: &Path, mutations: &[&Mutation]) -> anyhow::Result<()> {
    let of_device: Vec<&Mutation> = mutations.iter().copied().filter(|mutation| mutation.device.is_some()).collect();
    if of_device.is_empty() {
        bail!("none of these mutations has a `device` in {LIST}");
    }
    let mut changed: Vec<(String, String)> = Vec::new();
    let mut of_kernels = BTreeSet::new();
    for edit in of_device.iter().flat_map(|mutation| mutation.device_edits()) {
        let file = &edit.file;
        if !changed.iter().any(|(path, _)| path == file) {
            let text = std::fs::read_to_string(root.join(file)).with_context(|| format!("{file} cannot be read"))?;
            let switches = switches(&text, file, &of_device)?;
            let kernels = switches.iter().filter(|switch| switch.is_kernel).flat_map(|switch| &switch.wrong);
            of_kernels.extend(kernels.map(|wrong| wrong.mutation));
            changed.push((file.clone(), switched(&text, switches)));
        }
    }
    let tree = folder.join("tree");
    scratch::copy(root, &tree, &changed)?;
    let list = folder.join(TRIED);
    std::fs::write(&list, table(&of_device, &of_kernels))
        .with_context(|| format!("{} cannot be written", list.display()))?;
    println!(
        "{} mutations in {}\nbuild it there:\n  cargo build --release -p music3-cli --features cuda\n\
         and on a machine with a GPU, in this tree:\n  sh xtask/device-mutants.sh MUSIC3 {}",
        of_device.len(),
        tree.display(),
        list.display(),
    );
    Ok(())
}

/// Returns a line for each mutation: its name, whether it changes a kernel, the cases that must notice it, and more cases
/// that are run, or `-`. A kernel that was compiled and kept is found by its name, which a mutation does not change.
fn table(mutations: &[&Mutation], of_kernels: &BTreeSet<&str>) -> String {
    let paths = |cases: &[String]| cases.iter().map(|case| case_path(case)).collect::<Vec<_>>().join(" ");
    let mut text = String::new();
    for (mutation, device) in mutations.iter().filter_map(|mutation| Some((mutation, mutation.device.as_ref()?))) {
        let name = &mutation.name;
        let place = if of_kernels.contains(name.as_str()) { "kernel" } else { "host" };
        let also = if device.also.is_empty() { "-".to_owned() } else { paths(&device.also) };
        let _ = writeln!(text, "{name}\t{place}\t{}\t{also}", paths(&device.must));
    }
    text
}

/// Returns the functions of a file that mutations change.
fn switches<'a>(text: &str, file: &str, mutations: &[&'a Mutation]) -> anyhow::Result<Vec<Switch<'a>>> {
    let mut switches = Vec::new();
    for mutation in mutations {
        for edit in mutation.device_edits().filter(|edit| edit.file == file) {
            add(&mut switches, text, &mutation.name, edit)
                .with_context(|| format!("mutation `{}` cannot be switched in {file}", mutation.name))?;
        }
    }
    Ok(switches)
}

/// Returns a file's text with each of these functions made a choice.
fn switched(text: &str, mut switches: Vec<Switch<'_>>) -> String {
    // From the last to the first, so that what is before stays where it is.
    switches.sort_by_key(|switch| std::cmp::Reverse(switch.body.start));
    let mut result = text.to_owned();
    for Switch { body, is_kernel, wrong } in switches {
        let mut choice = String::new();
        for Wrong { mutation, body } in wrong {
            let named = format!("std::env::var_os(\"MUSIC3_MUTANT\").is_some_and(|name| name == \"{mutation}\")");
            let named = if is_kernel { format!("comptime!({named})") } else { named };
            let _ = write!(choice, "if {named} {{\n{body}}} else ");
        }
        let right = &text[body.clone()];
        result.replace_range(body, &format!("{choice}{{\n{right}}}\n"));
    }
    result
}

/// Notes an edit: in the wrong form that its mutation has of the function already, or in a new one.
fn add<'a>(switches: &mut Vec<Switch<'a>>, text: &str, mutation: &'a str, edit: &Edit) -> anyhow::Result<()> {
    let mut places = text.match_indices(&edit.find);
    let (Some((start, _)), None) = (places.next(), places.next()) else {
        bail!("the text to be replaced must occur exactly once:\n{}", edit.find);
    };
    let place = start..start + edit.find.len();
    let Some(function) = functions(text).into_iter().rfind(|function| encloses(&function.body, &place)) else {
        bail!("it does not lie in a function whose body has lines of its own:\n{}", edit.find);
    };
    let known = switches.iter().position(|switch| switch.body == function.body);
    if known.is_none() && switches.iter().any(|switch| encloses(&switch.body, &function.body)) {
        bail!("it lies in a function within a function that is switched too:\n{}", edit.find);
    }
    let index = known.unwrap_or_else(|| {
        switches.push(function);
        switches.len() - 1
    });
    let Switch { body, wrong, .. } = &mut switches[index];
    let before = wrong.iter().position(|wrong| wrong.mutation == mutation).unwrap_or_else(|| {
        wrong.push(Wrong { mutation, body: text[body.clone()].to_owned() });
        wrong.len() - 1
    });
    let before = &mut wrong[before].body;
    *before = before.replacen(&edit.find, &edit.replace, 1);
    Ok(())
}

fn encloses(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Finds the functions of formatted text whose bodies have lines of their own.
fn functions<'a>(text: &str) -> Vec<Switch<'a>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        lines.push((start, line.trim_end()));
        start += line.len();
    }
    let mut found = Vec::new();
    for (index, (_, line)) in lines.iter().enumerate().filter(|(_, (_, line))| is_function(line)) {
        let indent = &line[..line.len() - line.trim_start().len()];
        let last_of_head = lines[index..].iter().position(|(_, line)| line.ends_with(['{', '}', ';']));
        let Some(head) = last_of_head.map(|more| index + more).filter(|head| lines[*head].1.ends_with('{')) else {
            continue;
        };
        let is_end = |(_, line): &(usize, &str)| line.strip_prefix(indent) == Some("}");
        let Some(end) = lines[head..].iter().position(is_end).map(|more| head + more) else { continue };
        let attributes = lines[..index].iter().rev().take_while(|(_, line)| line.trim_start().starts_with("#["));
        let is_kernel = attributes.into_iter().any(|(_, line)| line.trim_start().starts_with("#[cube"));
        found.push(Switch { body: lines[head + 1].0..lines[end].0, is_kernel, wrong: Vec::new() });
    }
    found
}

/// Returns whether a line begins a function.
fn is_function(line: &str) -> bool {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((_, rest)) => rest.trim_start(),
            None => rest.trim_start(),
        },
        None => line,
    };
    line.starts_with("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::list;

    const TEXT: &str = "\
fn short() -> u8 { 1 }

#[cube(launch)]
#[expect(dead_code, reason = \"shown\")]
pub(super) fn kernel(
    x: u32,
) -> u32 {
    x + 2
}

impl A {
    pub fn plain(self) -> u32 {
        let y = self.x + 1;
        y * 3
    }
}
";

    fn mutation(name: &str, edits: &[(&str, &str)]) -> Mutation {
        let edit = |(find, replace): &(&str, &str)| Edit {
            file: "a.rs".to_owned(),
            find: (*find).to_owned(),
            replace: (*replace).to_owned(),
        };
        Mutation {
            name: name.to_owned(),
            wrong: "w".to_owned(),
            must: vec!["tiny/a".to_owned()],
            also: Vec::new(),
            no_value_changes: None,
            edits: edits.iter().map(edit).collect(),
            device: Some(list::Device { must: vec!["tiny/b".to_owned()], also: Vec::new(), edits: Vec::new() }),
        }
    }

    #[test]
    fn a_function_becomes_a_choice_between_its_forms() {
        let both = mutation("m", &[("self.x + 1", "self.x"), ("y * 3", "y * 4")]);
        let other = mutation("n", &[("y * 3", "y")]);
        let switched = switched(TEXT, switches(TEXT, "a.rs", &[&both, &other]).expect("both lie in functions"));
        let end = switched.split_once("pub fn plain(self) -> u32 {\n").expect("the function is there").1;
        let is =
            |name: &str| format!("if std::env::var_os(\"MUSIC3_MUTANT\").is_some_and(|name| name == \"{name}\") {{\n");
        let expected = [
            &is("m"),
            "        let y = self.x;\n        y * 4\n} else ",
            &is("n"),
            "        let y = self.x + 1;\n        y\n} else {\n",
            "        let y = self.x + 1;\n        y * 3\n}\n    }\n}\n",
        ];
        assert_eq!(end, expected.concat());
        assert!(switched.starts_with(&TEXT[..TEXT.find("impl").expect("it is there")]));
    }

    #[test]
    fn a_kernel_chooses_when_it_is_compiled() {
        let mutation = mutation("m", &[("x + 2", "x")]);
        let switched = switched(TEXT, switches(TEXT, "a.rs", &[&mutation]).expect("it lies in a function"));
        assert!(switched.contains(") -> u32 {\nif comptime!(std::env::var_os("), "{switched}");
    }

    #[test]
    fn refuses_what_no_function_encloses_and_what_is_not_there() {
        for (find, expected) in [("impl A", "does not lie in a function"), ("u8 { 1", "does not lie"), ("z", "once")] {
            let mutation = mutation("m", &[(find, "q")]);
            let Err(error) = switches(TEXT, "a.rs", &[&mutation]) else { panic!("`{find}` cannot be switched") };
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }

    #[test]
    fn every_mutation_of_a_device_can_be_switched() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = crate::workspace_root();
        let listed = list::read(&root).expect("the list of the tree is right");
        write(&root, folder.path(), &listed.iter().collect::<Vec<_>>()).expect("all can be switched");
        let tried = std::fs::read_to_string(folder.path().join(TRIED)).expect("the list was written");
        for start in ["dit-attention-causal\thost\tgoldens/tiny/transformer", "dit-halves-swapped\tkernel\t"] {
            assert!(tried.lines().any(|line| line.starts_with(start)), "{tried}");
        }
        let changed = folder.path().join("tree/crates/music3-model/src/transformer.rs");
        let text = std::fs::read_to_string(changed).expect("the tree was written");
        assert!(text.contains("MUSIC3_MUTANT") && text.contains("AttentionMask::Causal"));
    }
}
