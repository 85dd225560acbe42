//! Runs the program in a folder of its own.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// A folder to run the program in, and where it keeps what it unpacks.
pub(crate) struct Program {
    folder: TempDir,
    cache: PathBuf,
}

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    /// An empty folder; the demo model is unpacked once for all tests.
    pub(crate) fn new() -> Self {
        Self { cache: Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"), ..Self::untouched() }
    }

    /// An empty folder and a cache folder that does not exist, so that it shows whether the demo model was opened.
    pub(crate) fn untouched() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = folder.path().join("cache");
        Self { folder, cache }
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("a file in the folder");
    }

    /// Returns the names of everything in the folder, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Returns the program with arguments, ready to start in the folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_music3"));
        command.args(arguments).current_dir(self.folder.path()).env("XDG_CACHE_HOME", &self.cache);
        command.env_remove("RUST_LOG").env_remove("RUST_BACKTRACE").stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().expect("the program starts"))
    }

    /// Runs the program with something on standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        child.stdin.take().expect("a pipe").write_all(input).expect("the program reads");
        Ran::from(child.wait_with_output().expect("the program ends"))
    }
}

impl From<Output> for Ran {
    fn from(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Ran {
    /// Returns standard output as JSON, after a success.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in\n{}", self.stdout))
    }
}
