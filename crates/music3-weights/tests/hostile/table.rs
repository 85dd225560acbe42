//! The table of hostile files.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use music3_weights::{PthFile, Shards, WeightsError};

use crate::{crafted::Folder, pickles, places, safetensors};

/// No file may take longer; the slowest takes a twentieth of it, on a machine that does other work too.
const MOST_TIME: Duration = Duration::from_secs(2);

/// No file may take more memory. The largest of them has 17 MiB, and a header of that size is parsed.
const MOST_MEMORY: u64 = 128 << 20;

/// A hostile file or folder.
pub(crate) struct Case {
    what: &'static str,
    /// The file that is opened.
    name: &'static str,
    make: Box<dyn Fn(&Folder)>,
}

impl Case {
    pub(crate) fn file(what: &'static str, name: &'static str, bytes: Vec<u8>) -> Self {
        Self::folder(what, name, move |folder| _ = folder.write(name, &bytes))
    }

    pub(crate) fn folder(what: &'static str, name: &'static str, make: impl Fn(&Folder) + 'static) -> Self {
        Self { what, name, make: Box::new(make) }
    }

    fn open(&self, folder: &Path) -> Result<(), WeightsError> {
        if self.name.ends_with(".pth") {
            return PthFile::open(folder.join(self.name)).map(|_| ());
        }
        Shards::open(folder, "model.safetensors.index.json", "model.safetensors").map(|_| ())
    }

    fn measure(&self) -> Row {
        let folder = Folder::new();
        (self.make)(&folder);
        let before = memory::reset();
        let start = Instant::now();
        let outcome = self.open(folder.path());
        let (time, peak) = (start.elapsed(), memory::peak());
        let error = outcome.err().unwrap_or_else(|| panic!("{} is not refused", self.what));
        let message = folder.relative(error);
        Row {
            what: self.what,
            message,
            time,
            memory: peak.zip(before).map(|(peak, before)| peak.saturating_sub(before)),
        }
    }
}

struct Row {
    what: &'static str,
    message: String,
    time: Duration,
    memory: Option<u64>,
}

impl Row {
    /// What must not change.
    fn fixed(&self) -> String {
        let message = self.message.replace('|', "\\|").replace('\n', "<br>");
        format!("| {} | `{}` |", self.what, message.replace('`', "'"))
    }

    fn measured(&self) -> String {
        let memory = self.memory.map_or("not known".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
        format!("{} {:.4} | {memory} |", self.fixed(), self.time.as_secs_f64())
    }
}

const TITLE: &str = "\
# Hostile files

Each of these files is opened by a test, `crates/music3-weights/tests/hostile`, and refused with the message beside it. The
test fails when a message changes, and when a file takes more than 2 s or 128 MiB. `cargo xtask hostile` measures again and
writes this page. Memory is what the process held at most while it opened the file, less what it held before; a mapped file
counts where it was read.

| file | message | seconds | MB |
|---|---|---|---|
";

#[test]
fn each_hostile_file_has_its_message_in_bounded_time_and_memory() {
    let cases: Vec<Case> = [safetensors::cases(), places::cases(), pickles::cases()].into_iter().flatten().collect();
    assert!(cases.len() >= 30, "{}", cases.len());
    let rows: Vec<Row> = cases.iter().map(Case::measure).collect();
    for row in &rows {
        assert!(row.time < MOST_TIME, "{}: {:?}", row.what, row.time);
        assert!(row.memory.is_none_or(|bytes| bytes < MOST_MEMORY), "{}: {:?} bytes", row.what, row.memory);
        assert!(row.message.len() < 600, "{}: a message of {} bytes", row.what, row.message.len());
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../weights-mapping/hostile.md");
    if env::var_os("MUSIC3_HOSTILE_TABLE").is_some() {
        let lines: String = rows.iter().map(|row| row.measured() + "\n").collect();
        fs::write(&path, format!("{TITLE}{lines}")).expect("the table can be written");
    }
    let table = fs::read_to_string(&path).expect("the table is in the tree");
    let listed: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| file |")).collect();
    for row in &rows {
        assert!(listed.iter().any(|line| line.starts_with(&row.fixed())), "{}", row.fixed());
    }
    assert_eq!(listed.len(), rows.len(), "the table lists other files than these");
}

/// What this process holds.
mod memory {
    use std::fs;

    /// Forgets the highest mark so far; returns what is held now. `None` where the system does not tell.
    pub(super) fn reset() -> Option<u64> {
        fs::write("/proc/self/clear_refs", "5").ok()?;
        field("VmRSS:")
    }

    /// The most that was held since.
    pub(super) fn peak() -> Option<u64> {
        field("VmHWM:")
    }

    fn field(name: &str) -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }
}
