//! `.pth` files made byte by byte: a zip archive of stored entries, and a pickle.

/// An entry of an archive, and what its headers say about it, whatever that is.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) local_name: String,
    pub(crate) data: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) size: u32,
    /// Where the directory says it lies, if not where it does.
    pub(crate) offset: Option<u32>,
}

impl Entry {
    pub(crate) fn new(name: &str, data: impl Into<Vec<u8>>) -> Self {
        let data = data.into();
        let size = data.len() as u32;
        Self { name: name.to_owned(), local_name: name.to_owned(), data, method: 0, size, offset: None }
    }
}

/// An archive of entries.
pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = entry.offset.unwrap_or(bytes.len() as u32);
        bytes.extend(b"PK\x03\x04\x14\0\0\0");
        bytes.extend(entry.method.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend((entry.data.len() as u32).to_le_bytes());
        bytes.extend(entry.size.to_le_bytes());
        bytes.extend((entry.local_name.len() as u16).to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(entry.local_name.as_bytes());
        bytes.extend(&entry.data);

        directory.extend(b"PK\x01\x02\x14\0\x14\0\0\0");
        directory.extend(entry.method.to_le_bytes());
        directory.extend([0; 8]);
        directory.extend((entry.data.len() as u32).to_le_bytes());
        directory.extend(entry.size.to_le_bytes());
        directory.extend((entry.name.len() as u16).to_le_bytes());
        directory.extend([0; 12]);
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.name.as_bytes());
    }
    let offset = bytes.len() as u32;
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend((entries.len() as u16).to_le_bytes());
    bytes.extend((entries.len() as u16).to_le_bytes());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// A file of one pickle and one storage `0` of these bytes.
pub(crate) fn pth(pickle: Pickle, storage: &[u8]) -> Vec<u8> {
    zip(&[
        Entry::new("a/data.pkl", pickle.0),
        Entry::new("a/byteorder", "little"),
        Entry::new("a/data/0", storage),
        Entry::new("a/version", "3\n"),
    ])
}

/// A pickle, opcode by opcode.
#[derive(Clone)]
pub(crate) struct Pickle(pub(crate) Vec<u8>);

/// How a tensor is described.
#[derive(Clone, Copy)]
pub(crate) struct Described<'a> {
    pub(crate) storage: &'a str,
    pub(crate) key: &'a str,
    pub(crate) values: i32,
    pub(crate) offset: i32,
    pub(crate) shape: &'a [i32],
    pub(crate) strides: &'a [i32],
}

/// Two rows of three f32 values, from the first of six.
pub(crate) const PLAIN: Described<'static> =
    Described { storage: "FloatStorage", key: "0", values: 6, offset: 0, shape: &[2, 3], strides: &[3, 1] };

impl Pickle {
    pub(crate) fn new() -> Self {
        Self(vec![0x80, 2])
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.raw(b"X").raw(&(text.len() as u32).to_le_bytes()).raw(text.as_bytes())
    }

    pub(crate) fn number(self, number: i32) -> Self {
        self.raw(b"J").raw(&number.to_le_bytes())
    }

    pub(crate) fn global(self, module: &str, name: &str) -> Self {
        self.raw(b"c").raw(module.as_bytes()).raw(b"\n").raw(name.as_bytes()).raw(b"\n")
    }

    fn numbers(self, numbers: &[i32]) -> Self {
        numbers.iter().fold(self.raw(b"("), |pickle, number| pickle.number(*number)).raw(b"t")
    }

    /// A tensor as torch describes it.
    pub(crate) fn tensor(self, described: Described<'_>) -> Self {
        let Described { storage, key, values, offset, shape, strides } = described;
        let pickle = self.global("torch._utils", "_rebuild_tensor_v2").raw(b"((").text("storage");
        let pickle = pickle.global("torch", storage).text(key).text("cpu").number(values).raw(b"tQ").number(offset);
        pickle.numbers(shape).numbers(strides).raw(b"\x89").global("collections", "OrderedDict").raw(b")RtR")
    }

    /// A dictionary of one tensor `a`.
    pub(crate) fn of(described: Described<'_>) -> Self {
        Self::new().raw(b"}(").text("a").tensor(described).raw(b"u.")
    }
}
