//! A `.pth` file as `torch.save` lays it out, whole but for the tensors' values.

use safetensors::Dtype;

/// torch aligns storages so, for readers that map the file.
const ALIGNMENT: u64 = 64;

/// The largest number of a 32-bit field that is not a sign for "in the extension".
const MOST_32: u64 = u32::MAX as u64 - 1;

/// A tensor of the file.
#[derive(Debug, Clone)]
pub(crate) struct PthTensor<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: u64,
}

/// Where everything lies.
#[derive(Debug, Clone)]
pub(crate) struct PthLayout {
    /// All bytes that are no tensor's, and where they go.
    pub(crate) fixed: Vec<(u64, Vec<u8>)>,
    /// Where each tensor begins.
    pub(crate) offsets: Vec<u64>,
    /// Bytes of the whole file.
    pub(crate) bytes: u64,
}

impl PthLayout {
    /// Lays the tensors out in their order; `root` is the folder in the archive, which torch names after the file.
    pub(crate) fn new(root: &str, tensors: &[PthTensor<'_>]) -> Self {
        let mut zip = Zip { at: 0, fixed: Vec::new(), directory: Vec::new(), entries: 0 };
        zip.whole(&format!("{root}/data.pkl"), pickle(tensors));
        zip.whole(&format!("{root}/byteorder"), b"little".to_vec());
        let storage =
            |(key, tensor): (usize, &PthTensor<'_>)| zip.begin(&format!("{root}/data/{key}"), tensor.bytes, 0);
        let offsets = tensors.iter().enumerate().map(storage).collect();
        zip.whole(&format!("{root}/version"), b"3\n".to_vec());
        zip.end();
        Self { bytes: zip.at, fixed: zip.fixed, offsets }
    }
}

struct Zip {
    at: u64,
    fixed: Vec<(u64, Vec<u8>)>,
    directory: Vec<u8>,
    entries: u64,
}

impl Zip {
    fn put(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        self.fixed.push((self.at, bytes));
        self.at += length;
    }

    fn whole(&mut self, name: &str, content: Vec<u8>) {
        let length = content.len() as u64;
        self.begin(name, length, crc32(&content));
        self.at -= length;
        self.put(content);
    }

    /// Begins an entry of so many bytes; returns where they go. The checksum of tensors is left at 0, as
    /// `torch.serialization.set_crc32_options(False)` does: torch does not compare it.
    fn begin(&mut self, name: &str, bytes: u64, checksum: u32) -> u64 {
        let offset = self.at;
        let unpadded = self.at + 30 + name.len() as u64 + 4;
        let padding = unpadded.next_multiple_of(ALIGNMENT) - unpadded;
        let size = bytes.min(u64::from(u32::MAX)) as u32;
        let mut fields = vec![0, 0, 0, 0, 0, 0, 0, 0];
        fields.extend(checksum.to_le_bytes());
        fields.extend(size.to_le_bytes());
        fields.extend(size.to_le_bytes());
        fields.extend((name.len() as u16).to_le_bytes());

        let mut local = b"PK\x03\x04\0\0".to_vec();
        local.extend(&fields);
        local.extend((4 + padding as u16).to_le_bytes());
        local.extend(name.as_bytes());
        // torch's own padding.
        local.extend(b"FB");
        local.extend((padding as u16).to_le_bytes());
        local.resize(local.len() + padding as usize, b'Z');
        self.put(local);

        let mut extra = Vec::new();
        if offset > MOST_32 {
            extra.extend([1, 0, 8, 0]);
            extra.extend(offset.to_le_bytes());
        }
        self.directory.extend(b"PK\x01\x02\0\0\0\0");
        self.directory.extend(&fields);
        self.directory.extend((extra.len() as u16).to_le_bytes());
        self.directory.extend([0; 10]);
        let in_32 = if offset > MOST_32 { u32::MAX } else { offset as u32 };
        self.directory.extend(in_32.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.directory.extend(extra);
        self.entries += 1;

        let begins = self.at;
        self.at += bytes;
        begins
    }

    /// Writes the directory and both end records.
    fn end(&mut self) {
        let (offset, size) = (self.at, self.directory.len() as u64);
        let directory = std::mem::take(&mut self.directory);
        self.put(directory);
        let end_64 = self.at;
        let mut end = b"PK\x06\x06".to_vec();
        end.extend(44u64.to_le_bytes());
        end.extend([45, 0, 45, 0]);
        end.extend([0; 8]);
        for number in [self.entries, self.entries, size, offset] {
            end.extend(number.to_le_bytes());
        }
        end.extend(b"PK\x06\x07\0\0\0\0");
        end.extend(end_64.to_le_bytes());
        end.extend(1u32.to_le_bytes());
        end.extend(b"PK\x05\x06\0\0\0\0");
        end.extend([0xff; 12]);
        end.extend([0; 2]);
        self.put(end);
    }
}

/// A dictionary of tensors, each the whole of its storage.
fn pickle(tensors: &[PthTensor<'_>]) -> Vec<u8> {
    let mut out = b"\x80\x02}(".to_vec();
    for (key, tensor) in tensors.iter().enumerate() {
        text(&mut out, tensor.name);
        out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut out, "storage");
        let class = if tensor.dtype == Dtype::BF16 { "BFloat16Storage" } else { "FloatStorage" };
        out.extend(format!("ctorch\n{class}\n").as_bytes());
        text(&mut out, &key.to_string());
        text(&mut out, "cpu");
        number(&mut out, tensor.shape.iter().product());
        out.extend(b"tQK\0");
        let mut strides = vec![1; tensor.shape.len()];
        for place in (1..strides.len()).rev() {
            strides[place - 1] = strides[place] * tensor.shape[place];
        }
        for numbers in [tensor.shape, &strides] {
            out.push(b'(');
            numbers.iter().for_each(|value| number(&mut out, *value));
            out.push(b't');
        }
        out.extend(b"\x89ccollections\nOrderedDict\n)RtR");
    }
    out.extend(b"u.");
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'X');
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Eight bytes always; the sign bit of a size is never set.
fn number(out: &mut Vec<u8>, number: usize) {
    out.extend([0x8a, 8]);
    out.extend((number as u64).to_le_bytes());
}

/// The checksum of zip archives, bit by bit: it is taken of a few kilobytes.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (0..8).fold(crc, |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()));
    !bytes.iter().fold(u32::MAX, |crc, byte| step(crc ^ u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_checksum_is_that_of_zip() {
        // The check value of CRC-32/ISO-HDLC in the catalogue of CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
