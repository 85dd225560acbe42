//! The header of a `.npy` file: magic, version, length, and a Python dictionary of three keys.

/// The most that NumPy itself reads of a header without being told to.
const MAX_HEADER: usize = 10_000;

/// What the header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) descr: String,
    pub(super) column_major: bool,
    pub(super) shape: Vec<usize>,
    /// Where the values begin.
    pub(super) data_start: usize,
}

impl Header {
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("it does not begin as a .npy file does")?;
        let (length_field, length) = match *rest {
            [1, _, low, high, ..] => (2, usize::from(u16::from_le_bytes([low, high]))),
            [2 | 3, _, a, b, c, d, ..] => (4, u32::from_le_bytes([a, b, c, d]) as usize),
            _ => return Err("it is cut short, or of a format version after 3"),
        };
        if length > MAX_HEADER {
            return Err("its header is longer than NumPy reads");
        }
        let start = b"\x93NUMPY".len() + 2 + length_field;
        let text = bytes.get(start..start + length).ok_or("it is cut short within the header")?;
        let text = std::str::from_utf8(text).map_err(|_| "its header is not text")?;
        let mut reader = Reader { rest: text.trim_end() };
        let (descr, column_major, shape) = reader.dictionary().ok_or("its header is not what NumPy writes")?;
        Ok(Self { descr, column_major, shape, data_start: start + length })
    }
}

/// The rest of a header's text.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, its keys in any order.
    fn dictionary(&mut self) -> Option<(String, bool, Vec<usize>)> {
        let (mut descr, mut order, mut shape) = (None, None, None);
        self.take("{")?;
        while self.take("}").is_none() {
            let key = self.string()?;
            self.take(":")?;
            let again = match key.as_str() {
                "descr" => descr.replace(self.string()?).is_some(),
                "fortran_order" => order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => return None,
            };
            let ended = self.take(",").is_none() && !self.rest.trim_start().starts_with('}');
            if again || ended {
                return None;
            }
        }
        self.rest.is_empty().then_some((descr?, order?, shape?))
    }

    /// Takes `token` off the front, behind spaces.
    fn take(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        self.take("'")?;
        let (string, rest) = self.rest.split_once('\'')?;
        self.rest = rest;
        Some(string.to_owned())
    }

    fn boolean(&mut self) -> Option<bool> {
        match self.take("True") {
            Some(()) => Some(true),
            None => self.take("False").map(|()| false),
        }
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        self.take("(")?;
        let (inside, rest) = self.rest.split_once(')')?;
        self.rest = rest;
        let dims = inside.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        dims.map(|dim| dim.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes
    }

    #[test]
    fn reads_what_numpy_writes() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n";
        let header = Header::parse(&file(text)).expect("NumPy's own form");
        let expected =
            Header { descr: "<f4".into(), column_major: false, shape: vec![3, 4], data_start: 10 + text.len() };
        assert_eq!(header, expected);
        for (shape, dims) in [("()", vec![]), ("(7,)", vec![7])] {
            let text = format!("{{'shape': {shape}, 'fortran_order': True, 'descr': '<i8'}}");
            let header = Header::parse(&file(&text)).expect("another order of keys");
            assert_eq!((header.shape, header.column_major), (dims, true));
        }
    }

    #[test]
    fn refuses_what_numpy_does_not_write() {
        let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        let broken = [
            good.replace("'shape': (3,), ", ""),
            good.replace("(3,)", "(-3,)"),
            good.replace("(3,)", "(99999999999999999999,)"),
            good.replace("'<f4'", "[('a', '<f4')]"),
            good.replace("False", "0"),
            good.replace("}", "} or None"),
            good.replace("'shape'", "'descr'"),
            good.replace(", 'fort", " 'fort"),
        ];
        for text in broken {
            assert!(Header::parse(&file(&text)).is_err(), "{text}");
        }
        assert!(Header::parse(b"PK\x03\x04").is_err(), "a .npz file");
        assert!(Header::parse(&file(good)[..30]).is_err(), "cut short");
        let mut huge = b"\x93NUMPY\x02\x00".to_vec();
        huge.extend(u32::MAX.to_le_bytes());
        assert_eq!(Header::parse(&huge), Err("its header is longer than NumPy reads"));
    }
}
