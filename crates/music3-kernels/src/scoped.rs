//! A choice for a stretch of work on one thread.

use std::{cell::Cell, thread::LocalKey};

/// Runs `work` while `choice` holds `value`; what was chosen before comes back afterwards, whether or not the work panics.
pub(crate) fn scoped<C: Copy + 'static, T>(
    choice: &'static LocalKey<Cell<C>>,
    value: C,
    work: impl FnOnce() -> T,
) -> T {
    struct Restore<C: Copy + 'static>(&'static LocalKey<Cell<C>>, C);
    impl<C: Copy + 'static> Drop for Restore<C> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(choice, choice.replace(value));
    work()
}
