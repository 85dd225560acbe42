//! What can be wrong with a pickle.

/// Bytes of the largest pickle that is read. The published files have some ten thousand.
pub(super) const MAX_PICKLE: usize = 4 << 20;

/// Values that a pickle may hold on its stack, in its memory and in all its parts, each.
pub(super) const MAX_VALUES: usize = 1 << 18;

/// What is wrong with a pickle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// An opcode outside the closed list.
    #[error("byte {offset} of the pickle is {name} ({byte:#04x}), which tensors do not need; it is not carried out")]
    Opcode {
        /// Where.
        offset: usize,
        /// The byte.
        byte: u8,
        /// Its name in Python's `pickle`.
        name: &'static str,
    },
    /// A Python name outside the closed list.
    #[error("the pickle asks for `{name}`, which tensors do not need; nothing of a file is ever called")]
    Global {
        /// Module and name.
        name: String,
    },
    /// A call of something that is not a function of tensors, or with other arguments than torch gives it.
    #[error("byte {offset} of the pickle makes {what} from something else than torch.save writes")]
    Call {
        /// Where.
        offset: usize,
        /// What it would make.
        what: &'static str,
    },
    /// It ends in the middle.
    #[error("the pickle ends at byte {offset}, in the middle of a value; the file is cut short")]
    End {
        /// Where.
        offset: usize,
    },
    /// A value that is not where an opcode needs it.
    #[error("byte {offset} of the pickle needs {what} and there is none; the file is damaged")]
    Absent {
        /// Where.
        offset: usize,
        /// What is needed.
        what: &'static str,
    },
    /// More values than a checkpoint has.
    #[error("the pickle holds more than {MAX_VALUES} {what}")]
    Values {
        /// Where they are.
        what: &'static str,
    },
    /// A tensor with a number below zero in its description.
    #[error("the tensor at byte {offset} of the pickle has {what} below zero; the file is damaged")]
    Negative {
        /// Where.
        offset: usize,
        /// Which number.
        what: &'static str,
    },
    /// A pickle larger than a checkpoint's.
    #[error("the pickle takes {found} bytes; the maximum is {MAX_PICKLE}")]
    Size {
        /// Its size.
        found: usize,
    },
    /// A text that is not UTF-8.
    #[error("byte {offset} of the pickle begins a text that is not UTF-8")]
    Utf8 {
        /// Where.
        offset: usize,
    },
    /// More names, or longer ones, than a checkpoint has.
    #[error("the pickle names more tensors, or with longer names, than any checkpoint has")]
    Names,
    /// Dictionaries that go on and on.
    #[error("the pickle nests its dictionaries deeper than any checkpoint does")]
    Depth,
    /// What was pickled is not a dictionary.
    #[error("the pickle holds {found}, expected a dictionary of tensors")]
    NoDict {
        /// What it holds.
        found: &'static str,
    },
}
