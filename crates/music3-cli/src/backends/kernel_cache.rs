//! Where compiled GPU kernels are kept between runs.
//!
//! Compiling them takes several seconds. They are found by name, so a folder serves one build of the program and one kind
//! of device.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Folders of other builds that were not used for so long are removed.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The folder, and whether it was there before, once it was looked for.
static OPENED: OnceLock<Option<(PathBuf, bool)>> = OnceLock::new();

/// Makes the folder known to the device's runtime, before anything is computed. Where no folder can be had, kernels are
/// compiled in every run.
pub(super) fn open(compute_capability: i32) {
    OPENED.get_or_init(|| {
        let parent = dirs::cache_dir()?.join("music3").join("kernels");
        let folder = parent.join(format!("{}-sm_{compute_capability}", build()?));
        let known = folder.is_dir();
        if let Err(error) = fs::create_dir_all(&folder) {
            tracing::info!("compiled kernels are not kept: {}: {error}", folder.display());
            return None;
        }
        remove_old(&parent, &folder);
        music3::cache_compiled_kernels(folder.clone());
        Some((folder, known))
    });
}

/// Says what a first run waits for.
pub(super) fn first_run() -> Option<String> {
    match OPENED.get()?.as_ref()? {
        (_, true) => None,
        (folder, false) => Some(format!(
            "first run of this build on this kind of GPU: its kernels are compiled now and kept in {}",
            folder.display()
        )),
    }
}

/// Names this build of the program: the version, and the size and time of its file.
fn build() -> Option<String> {
    let file = std::env::current_exe().and_then(fs::metadata).ok()?;
    let written = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{}-{:x}-{:x}", env!("CARGO_PKG_VERSION"), file.len(), written.as_secs()))
}

/// Removes what other builds left and nobody used for a long time.
fn remove_old(parent: &Path, current: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let is_old = |path: &Path| {
        let written = fs::metadata(path).and_then(|file| file.modified()).ok();
        written.and_then(|time| SystemTime::now().duration_since(time).ok()).is_some_and(|age| age > KEPT)
    };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path != current && is_old(path)) {
        if let Err(error) = fs::remove_dir_all(&path) {
            tracing::info!("old kernels stay in {}: {error}", path.display());
        }
    }
}
