//! The zip container of a `.pth` file: where its entries lie. Nothing is unpacked, so nothing can grow.

use std::{collections::BTreeMap, ops::Range};

const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const CENTRAL: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

/// Fixed bytes of each kind of record.
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;
const CENTRAL_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;

/// The longest comment that may follow the end record.
const MAX_COMMENT: usize = u16::MAX as usize;

/// More entries than any file of this model has: one for each tensor.
const MAX_ENTRIES: u64 = 1 << 16;

/// In a 32-bit field: the value is in the 64-bit extension.
const IN_EXTENSION: u64 = u32::MAX as u64;

/// What is wrong with a zip container.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// No end record.
    #[error("the zip archive has no end; the file is cut short, copy it again")]
    NoEnd,
    /// A record that is not where it should be, or not what it should be.
    #[error("the zip archive's {record} at byte {offset} cannot be read; the file is damaged, copy it again")]
    Record {
        /// Which record.
        record: &'static str,
        /// Where it should be.
        offset: u64,
    },
    /// Too many entries.
    #[error("the zip archive has {found} entries; the maximum is {MAX_ENTRIES}")]
    Entries {
        /// How many it claims.
        found: u64,
    },
    /// An entry that is not stored as it is.
    #[error(
        "entry `{entry}` of the zip archive is {how}; torch.save stores entries as they are, save the file with it again"
    )]
    NotStored {
        /// The entry.
        entry: String,
        /// What was done to it.
        how: &'static str,
    },
    /// An entry whose bytes are not all in the file, or are another's too.
    #[error("entry `{entry}` of the zip archive {what}")]
    Placed {
        /// The entry.
        entry: String,
        /// What is wrong with its place.
        what: &'static str,
    },
    /// An entry of a name that is taken.
    #[error("the zip archive has two entries `{entry}`")]
    Duplicate {
        /// The name.
        entry: String,
    },
    /// An entry that a `.pth` file needs.
    #[error("the zip archive has no entry `{entry}`; it is not a file that torch.save wrote")]
    NoEntry {
        /// The name.
        entry: String,
    },
}

/// The entries of a container and where their bytes lie.
#[derive(Debug)]
pub(super) struct Archive {
    entries: BTreeMap<String, Range<usize>>,
}

struct Directory {
    entries: u64,
    offset: usize,
    end: usize,
}

impl Archive {
    /// Reads the directory of a whole file.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ArchiveError> {
        let directory = directory(bytes)?;
        let mut offset = directory.offset;
        let mut entries = BTreeMap::new();
        for _ in 0..directory.entries {
            let damaged = ArchiveError::Record { record: "directory", offset: offset as u64 };
            let Some((entry, next)) = Entry::read(bytes, offset).filter(|(_, next)| *next <= directory.end) else {
                return Err(damaged);
            };
            let range = entry.place(bytes, directory.offset)?;
            if entries.insert(entry.name.clone(), range).is_some() {
                return Err(ArchiveError::Duplicate { entry: entry.name });
            }
            offset = next;
        }
        refuse_overlaps(&entries)?;
        Ok(Self { entries })
    }

    /// The bytes of an entry.
    pub(super) fn entry(&self, name: &str) -> Result<Range<usize>, ArchiveError> {
        self.find(name).ok_or_else(|| ArchiveError::NoEntry { entry: name.to_owned() })
    }

    /// The bytes of an entry, if there is one.
    pub(super) fn find(&self, name: &str) -> Option<Range<usize>> {
        self.entries.get(name).cloned()
    }

    /// The names of all entries, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }
}

/// Finds the directory: through the end record, and the 64-bit one where there is one.
fn directory(bytes: &[u8]) -> Result<Directory, ArchiveError> {
    let first = bytes.len().saturating_sub(END_BYTES + MAX_COMMENT);
    let last = bytes.len().checked_sub(END_BYTES).ok_or(ArchiveError::NoEnd)?;
    let is_end = |offset: &usize| {
        bytes[*offset..].starts_with(END)
            && number(bytes, offset + 20, 2) == Some((bytes.len() - offset - END_BYTES) as u64)
    };
    let end = (first..=last).rev().find(is_end).ok_or(ArchiveError::NoEnd)?;
    let damaged = |record, offset| ArchiveError::Record { record, offset };
    let mut fields = [(10, 2), (12, 4), (16, 4)].map(|(at, width)| number(bytes, end + at, width).unwrap_or_default());
    let mut limit = end;
    let locator = end.checked_sub(LOCATOR_64_BYTES).filter(|offset| bytes[*offset..].starts_with(LOCATOR_64));
    if let Some(locator) = locator {
        let offset = number(bytes, locator + 8, 8).unwrap_or_default();
        let end_64 = usize::try_from(offset).ok().filter(|offset| {
            offset.checked_add(END_64_BYTES).is_some_and(|end| end <= locator) && bytes[*offset..].starts_with(END_64)
        });
        let end_64 = end_64.ok_or(damaged("64-bit end", offset))?;
        fields = [32, 40, 48].map(|at| number(bytes, end_64 + at, 8).unwrap_or_default());
        limit = end_64;
    }
    let [entries, size, offset] = fields;
    if entries > MAX_ENTRIES {
        return Err(ArchiveError::Entries { found: entries });
    }
    let directory_end = offset.checked_add(size).filter(|end| *end <= limit as u64);
    let directory_end = directory_end.ok_or(damaged("directory", offset))?;
    // Both are at most the file's length.
    Ok(Directory { entries, offset: offset as usize, end: directory_end as usize })
}

/// What the directory says about an entry.
struct Entry {
    name: String,
    flags: u64,
    method: u64,
    compressed: u64,
    size: u64,
    offset: u64,
}

impl Entry {
    /// Reads a directory record; returns where the next one begins.
    fn read(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        let field = |offset, width| number(bytes, at + offset, width);
        bytes.get(at..)?.starts_with(CENTRAL).then_some(())?;
        let [name, extra, comment] = [field(28, 2)?, field(30, 2)?, field(32, 2)?].map(|length| length as usize);
        let name_end = at + CENTRAL_BYTES + name;
        let name = String::from_utf8_lossy(bytes.get(at + CENTRAL_BYTES..name_end)?).into_owned();
        let extra = bytes.get(name_end..name_end + extra)?;
        let mut entry = Self {
            name,
            flags: field(8, 2)?,
            method: field(10, 2)?,
            compressed: field(20, 4)?,
            size: field(24, 4)?,
            offset: field(42, 4)?,
        };
        entry.widen(extra)?;
        Some((entry, name_end + extra.len() + comment))
    }

    /// Takes from the 64-bit extension what did not fit.
    fn widen(&mut self, mut extra: &[u8]) -> Option<()> {
        while extra.len() >= 4 {
            let length = number(extra, 2, 2)? as usize;
            let content = extra.get(4..4 + length)?;
            if number(extra, 0, 2)? == 1 {
                let wide = [&mut self.size, &mut self.compressed, &mut self.offset].into_iter();
                for (place, field) in wide.filter(|field| **field == IN_EXTENSION).enumerate() {
                    *field = number(content, 8 * place, 8)?;
                }
            }
            extra = &extra[4 + length..];
        }
        Some(())
    }

    /// Where the entry's bytes lie, before the directory that begins at `limit`.
    fn place(&self, bytes: &[u8], limit: usize) -> Result<Range<usize>, ArchiveError> {
        let entry = || self.name.clone();
        let not_stored = |how| ArchiveError::NotStored { entry: entry(), how };
        match () {
            () if self.flags & 1 != 0 => return Err(not_stored("encrypted")),
            () if self.method != 0 || self.compressed != self.size => return Err(not_stored("compressed")),
            () => {}
        }
        let placed = |what| ArchiveError::Placed { entry: entry(), what };
        let local = usize::try_from(self.offset).ok().filter(|at| at.saturating_add(LOCAL_BYTES) <= limit);
        let local = local
            .filter(|at| bytes[*at..].starts_with(LOCAL))
            .ok_or_else(|| placed("is not where its directory says"))?;
        let lengths = [26, 28].map(|at| number(bytes, local + at, 2).unwrap_or_default() as usize);
        let name = bytes.get(local + LOCAL_BYTES..local + LOCAL_BYTES + lengths[0]).unwrap_or_default();
        if String::from_utf8_lossy(name) != self.name {
            return Err(placed("has another name in its own header"));
        }
        let start = local + LOCAL_BYTES + lengths[0] + lengths[1];
        let end = usize::try_from(self.size).ok().and_then(|size| start.checked_add(size)).filter(|end| *end <= limit);
        end.map(|end| start..end).ok_or_else(|| placed("reaches past the end of the file; it is cut short or damaged"))
    }
}

/// Entries that share bytes let a small file pretend to be a large one.
fn refuse_overlaps(entries: &BTreeMap<String, Range<usize>>) -> Result<(), ArchiveError> {
    let mut ranges: Vec<_> = entries.iter().filter(|(_, range)| !range.is_empty()).collect();
    ranges.sort_by_key(|(_, range)| range.start);
    match ranges.windows(2).find(|pair| pair[0].1.end > pair[1].1.start) {
        Some(pair) => Err(ArchiveError::Placed { entry: pair[1].0.clone(), what: "shares bytes with another" }),
        None => Ok(()),
    }
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
