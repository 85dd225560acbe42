//! The opcodes of a pickle that are carried out. Everything else is refused by its name.

/// A step of the machine, with its argument's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Protocol,
    Frame,
    Stop,
    Mark,
    Global,
    StackGlobal,
    Put(Width),
    Memoize,
    Get(Width),
    None,
    Flag,
    Number(Width),
    LongNumber,
    Real,
    Text(Width),
    EmptyTuple,
    Tuple,
    TupleOf(usize),
    EmptyList,
    EmptyDict,
    Append,
    Appends,
    SetItem,
    SetItems,
    Reduce,
    Build,
    PersistentId,
}

/// Bytes of a number in the pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    One = 1,
    Two = 2,
    Four = 4,
    Eight = 8,
}

impl Opcode {
    pub(super) fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0x80 => Self::Protocol,
            0x95 => Self::Frame,
            b'.' => Self::Stop,
            b'(' => Self::Mark,
            b'c' => Self::Global,
            0x93 => Self::StackGlobal,
            b'q' => Self::Put(Width::One),
            b'r' => Self::Put(Width::Four),
            0x94 => Self::Memoize,
            b'h' => Self::Get(Width::One),
            b'j' => Self::Get(Width::Four),
            b'N' => Self::None,
            0x88 | 0x89 => Self::Flag,
            b'K' => Self::Number(Width::One),
            b'M' => Self::Number(Width::Two),
            b'J' => Self::Number(Width::Four),
            0x8a => Self::LongNumber,
            b'G' => Self::Real,
            b'U' | 0x8c => Self::Text(Width::One),
            b'X' | b'T' => Self::Text(Width::Four),
            0x8d => Self::Text(Width::Eight),
            b')' => Self::EmptyTuple,
            b't' => Self::Tuple,
            0x85 => Self::TupleOf(1),
            0x86 => Self::TupleOf(2),
            0x87 => Self::TupleOf(3),
            b']' => Self::EmptyList,
            b'}' => Self::EmptyDict,
            b'a' => Self::Append,
            b'e' => Self::Appends,
            b's' => Self::SetItem,
            b'u' => Self::SetItems,
            b'R' => Self::Reduce,
            b'b' => Self::Build,
            b'Q' => Self::PersistentId,
            _ => return None,
        })
    }
}

/// What an opcode that is not carried out is called in Python's `pickle`.
pub(super) fn refused_name(byte: u8) -> &'static str {
    match byte {
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'F' => "FLOAT",
        b'I' => "INT",
        b'L' => "LONG",
        b'P' => "PERSID",
        b'S' => "STRING",
        b'V' => "UNICODE",
        b'd' => "DICT",
        b'g' => "GET",
        b'i' => "INST",
        b'l' => "LIST",
        b'o' => "OBJ",
        b'p' => "PUT",
        b'B' => "BINBYTES",
        b'C' => "SHORT_BINBYTES",
        0x81 => "NEWOBJ",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x8b => "LONG4",
        0x8e => "BINBYTES8",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x92 => "NEWOBJ_EX",
        0x96 => "BYTEARRAY8",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => "no opcode",
    }
}
