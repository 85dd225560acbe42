//! A bug ends the program with a line, not with a backtrace.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::terminal::say;

/// For all threads: a backend may panic in one of its own.
static SILENT: AtomicBool = AtomicBool::new(false);

/// What CubeCL's panic says when a GPU has no more memory.
const NO_MEMORY: &str = "can't allocate buffer of size";

/// Whether a GPU ran out of memory: what fails after it only says so again, and no result counts.
static OUT_OF_MEMORY: AtomicBool = AtomicBool::new(false);

/// Replaces the standard report of a panic by one line.
pub(crate) fn report_in_one_line() {
    panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        if SILENT.load(Ordering::SeqCst) || OUT_OF_MEMORY.load(Ordering::SeqCst) {
            return;
        }
        if message(info.payload()).contains(NO_MEMORY) {
            OUT_OF_MEMORY.store(true, Ordering::SeqCst);
            say(
                "music3: the GPU ran out of memory in the middle of the run; close what else uses it, try a shorter song or `--precision bf16`",
            );
            return;
        }
        let place = info.location().map(|place| format!(" ({}:{})", place.file(), place.line())).unwrap_or_default();
        say(format_args!("music3: internal error: {}{place}; please report it", message(info.payload())));
    }));
}

/// Runs the program; a panic gives nothing, nor does one of a GPU without memory in a thread of its own.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok().filter(|_| !OUT_OF_MEMORY.load(Ordering::SeqCst))
}

/// Runs something whose panics are an answer; they are returned instead of printed.
pub(crate) fn silenced<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    SILENT.store(true, Ordering::SeqCst);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    SILENT.store(false, Ordering::SeqCst);
    outcome.map_err(|payload| message(&*payload).to_owned())
}

/// Returns the first line of a panic's message.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_a_silenced_panic_said() {
        assert_eq!(silenced(|| 3), Ok(3));
        assert_eq!(silenced(|| panic!("no driver\nand more")), Err::<(), _>("no driver".to_owned()));
        assert!(!SILENT.load(Ordering::SeqCst));
    }
}
