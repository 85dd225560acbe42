//! Ctrl-C: the first stops a run at its next unit of work, the second at once.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    failure::Failure,
    terminal::{is_watched, say},
};

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C from now on.
    ///
    /// A program that was started with Ctrl-C ignored, in the background of a script, goes on ignoring it.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let asked = Arc::clone(&interrupt.0);
        let listening = ctrlc::try_set_handler(move || {
            if asked.swap(true, Ordering::SeqCst) {
                process::exit(i32::from(Failure::INTERRUPTED));
            }
            // A unit of a full-size model takes a while, and whoever watches wants to know that the key was seen.
            if is_watched() {
                say("\nmusic3: stopping after the unit in work; Ctrl-C again stops at once");
            }
        });
        if let Err(error) = listening {
            tracing::info!("Ctrl-C is left as it was: {error}");
        }
        interrupt
    }

    /// Returns what Ctrl-C sets, for a run that looks at it by itself.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Returns whether Ctrl-C was pressed.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Asks to stop, as Ctrl-C does.
    #[cfg(test)]
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
