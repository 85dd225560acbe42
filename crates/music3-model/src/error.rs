//! What can be wrong with a component's configuration.

/// A configuration that no module can be built from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A dimension that must be at least one is zero.
    #[error("{component}: `{key}` is 0; it must be at least 1")]
    Zero {
        /// Checkpoint folder of the component.
        component: &'static str,
        /// Key in its `config.json`.
        key: &'static str,
    },
    /// One value must be a multiple of another.
    #[error("{component}: `{key}` is {found}; it must be a multiple of `{of}`, which is {divisor}")]
    NotAMultiple {
        /// Checkpoint folder of the component.
        component: &'static str,
        /// Key in its `config.json`.
        key: &'static str,
        /// Its value.
        found: usize,
        /// The key it must be a multiple of.
        of: &'static str,
        /// That key's value.
        divisor: usize,
    },
    /// A value that this port does not compute.
    #[error("{component}: `{key}` is {found}, which is not supported; expected {expected}")]
    Unsupported {
        /// Checkpoint folder of the component.
        component: &'static str,
        /// Key in its `config.json`.
        key: &'static str,
        /// Its value.
        found: String,
        /// What is supported.
        expected: &'static str,
    },
}

/// Refuses zero dimensions by name.
pub(crate) fn refuse_zeros(component: &'static str, values: &[(&'static str, usize)]) -> Result<(), ConfigError> {
    match values.iter().find(|(_, value)| *value == 0) {
        Some(&(key, _)) => Err(ConfigError::Zero { component, key }),
        None => Ok(()),
    }
}

/// Refuses `key = found` where it is no multiple of `of = divisor`.
pub(crate) fn refuse_remainder(
    component: &'static str,
    (key, found): (&'static str, usize),
    (of, divisor): (&'static str, usize),
) -> Result<(), ConfigError> {
    if found.is_multiple_of(divisor) {
        Ok(())
    } else {
        Err(ConfigError::NotAMultiple { component, key, found, of, divisor })
    }
}
