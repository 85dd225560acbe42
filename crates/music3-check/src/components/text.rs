//! Prompt strings and token ids, compared entry for entry.

use std::fmt::Debug;

use music3_text::{ControlTokens, PromptTokenizer, clean_caption, normalize_lyrics};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Computed;
use crate::{
    CheckError,
    case::CaseFile,
    row::{Row, Shown, Verdict, Worst},
};

/// Entries of a table compared one by one.
pub(super) struct EntryRow {
    row: Row,
    entries: usize,
    equal: usize,
}

/// The characters of a value that a report shows.
const SHOWN: usize = 120;

impl EntryRow {
    pub(super) fn new(case: &CaseFile, key: &str) -> Result<Self, CheckError> {
        // The key was read before; an empty table would pass without comparing anything.
        let empty = match case.value::<Value>(key)? {
            Value::Object(entries) => entries.is_empty(),
            Value::Array(entries) => entries.is_empty(),
            _ => true,
        };
        let problem = "the table has no entries";
        match empty {
            true => Err(CheckError::NothingToCompare { path: case.path().to_owned(), problem }),
            false => Ok(Self { row: Row::new(key, "json", "entry"), entries: 0, equal: 0 }),
        }
    }

    pub(super) fn compare<T: Debug + PartialEq>(&mut self, place: &str, ours: &T, upstream: &T) {
        self.entries += 1;
        if ours == upstream {
            self.equal += 1;
        } else if self.row.worst.is_none() {
            self.row.worst = Some(Worst { place: shown(&place), ours: shown(ours), upstream: shown(upstream) });
        }
    }

    pub(super) fn finish(self) -> Row {
        let differing = self.entries - self.equal;
        let figures = Shown {
            values: self.entries,
            identical: self.equal as f64 / self.entries.max(1) as f64,
            mean: 0.0,
            max: 0.0,
            ulp: 0,
        };
        let row = Row { figures: Some(figures), verdict: Verdict::Passed, ..self.row };
        if differing == 0 { row } else { row.failed(format!("{differing} of {} entries differ", self.entries)) }
    }
}

fn shown(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[derive(Serialize, Deserialize)]
struct Rewrite {
    #[serde(rename = "in")]
    given: String,
    #[serde(rename = "out")]
    rewritten: String,
}

/// Rewrites a text.
type Pass = fn(&str) -> String;

pub(super) fn prompt_strings(case: &CaseFile) -> Result<Computed, CheckError> {
    let passes: [(&str, Pass); 2] = [("clean_caption", clean_caption), ("normalize_lyrics", normalize_lyrics)];
    let (mut rows, mut answers) = (Vec::new(), serde_json::Map::new());
    for (key, pass) in passes.into_iter().filter(|(key, _)| case.has(key)) {
        let entries: Vec<Rewrite> = case.value(key)?;
        let mut row = EntryRow::new(case, key)?;
        let mut ours = Vec::new();
        for (index, Rewrite { given, rewritten }) in entries.into_iter().enumerate() {
            let answer = pass(&given);
            row.compare(&format!("entry {index}, {given}"), &answer, &rewritten);
            ours.push(json!(Rewrite { given, rewritten: answer }));
        }
        rows.push(row.finish());
        answers.insert(key.to_owned(), Value::Array(ours));
    }
    if rows.is_empty() {
        let problem = "neither `clean_caption` nor `normalize_lyrics` is there";
        return Err(CheckError::NothingToCompare { path: case.path().to_owned(), problem });
    }
    Ok(Computed::Table { rows, answers: Value::Object(answers) })
}

#[derive(Deserialize)]
struct Request {
    prompt: String,
    lyrics: String,
    ids: Option<Vec<u32>>,
    uncond_ids: Option<Vec<u32>>,
    error: Option<Value>,
}

pub(super) fn prompt_token_ids(case: &CaseFile) -> Result<Computed, CheckError> {
    let requests: Vec<Request> = case.value("cases")?;
    let tokenizer: String = case.value("tokenizer")?;
    let tokenizer = case.path().with_file_name(tokenizer);
    let tokenizer = PromptTokenizer::from_file(&tokenizer)
        .map_err(|source| CheckError::Tokenizer { path: case.path().to_owned(), source: Box::new(source) })?;
    let (mut row, mut answers) = (EntryRow::new(case, "cases")?, Vec::new());
    for (index, request) in requests.into_iter().enumerate() {
        let place = format!("case {index}, {}", request.prompt);
        let mut answer = json!({ "prompt": request.prompt, "lyrics": request.lyrics });
        match tokenizer.encode(&request.prompt, &request.lyrics, ControlTokens::AsUpstream) {
            Ok(ids) => {
                let ours = (Some(&ids.conditional), Some(&ids.unconditional), false);
                row.compare(&place, &ours, &request.expected(&ids.unconditional));
                answer["ids"] = json!(ids.conditional);
                answer["uncond_ids"] = json!(ids.unconditional);
            }
            Err(error) => {
                row.compare(&place, &(None, None, true), &request.expected(&Vec::new()));
                answer["error"] = json!(error.to_string());
            }
        }
        answers.push(answer);
    }
    Ok(Computed::Table { rows: vec![row.finish()], answers: json!({ "cases": answers }) })
}

impl Request {
    /// What must come out: both rows, or a refusal. Where the case leaves out the unconditional row, any is right.
    fn expected<'a>(&'a self, unconditional: &'a Vec<u32>) -> (Option<&'a Vec<u32>>, Option<&'a Vec<u32>>, bool) {
        match &self.ids {
            Some(ids) => (Some(ids), self.uncond_ids.as_ref().or(Some(unconditional)), false),
            None => (None, None, self.error.is_some()),
        }
    }
}
