//! A pickle of tensors, read by a machine that can make dictionaries, lists, tuples and views of storages, and nothing
//! else: it calls nothing, whatever the file says.

use std::collections::BTreeMap;

use super::{
    opcode::{Opcode, Width, refused_name},
    pickle_error::{MAX_PICKLE, MAX_VALUES, PickleError},
    value::{Global, PickledTensor, Storage, Store, Value},
};

/// The longest list of arguments is a tensor's.
const MOST_ARGUMENTS: usize = 7;

/// Dimensions of a tensor.
const MOST_DIMENSIONS: usize = 8;

/// Reads the whole pickle; returns its value and the store that the value's parts are in.
pub(super) fn read(bytes: &[u8]) -> Result<(Value<'_>, Store<'_>), PickleError> {
    if bytes.len() > MAX_PICKLE {
        return Err(PickleError::Size { found: bytes.len() });
    }
    let mut machine = Machine {
        bytes,
        at: 0,
        step: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: BTreeMap::new(),
        store: Store::default(),
        parts: 0,
    };
    loop {
        if let Some(value) = machine.step()? {
            return Ok((value, machine.store));
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    /// Where the next byte is read.
    at: usize,
    /// Where the opcode at hand stands.
    step: usize,
    stack: Vec<Value<'a>>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: BTreeMap<u64, Value<'a>>,
    store: Store<'a>,
    /// How many values lie in the store.
    parts: usize,
}

impl<'a> Machine<'a> {
    /// Carries out one opcode; returns the value at the end.
    fn step(&mut self) -> Result<Option<Value<'a>>, PickleError> {
        self.step = self.at;
        let byte = self.take(1)?[0];
        let opcode = Opcode::of(byte);
        let opcode = opcode.ok_or(PickleError::Opcode { offset: self.step, byte, name: refused_name(byte) })?;
        let value = match opcode {
            Opcode::Stop => return self.pop().map(Some),
            Opcode::Protocol => return self.take(1).map(|_| None),
            Opcode::Frame => return self.take(8).map(|_| None),
            Opcode::Mark => {
                self.grow(self.marks.len(), "marks")?;
                self.marks.push(self.stack.len());
                return Ok(None);
            }
            Opcode::Put(_) | Opcode::Memoize => return self.remember(opcode).map(|()| None),
            Opcode::Append | Opcode::Appends | Opcode::SetItem | Opcode::SetItems | Opcode::Build => {
                return self.fill(opcode).map(|()| None);
            }
            Opcode::Get(width) => {
                let place = self.number(width)?;
                *self.memo.get(&place).ok_or(self.absent("a remembered value"))?
            }
            Opcode::None => Value::None,
            Opcode::Flag => Value::Flag,
            Opcode::Number(_) | Opcode::LongNumber | Opcode::Real => self.pickled_number(opcode)?,
            Opcode::Text(width) => Value::Text(self.text(width)?),
            Opcode::Global | Opcode::StackGlobal => self.global(opcode)?,
            Opcode::EmptyTuple => self.tuple(Vec::new())?,
            Opcode::Tuple => {
                let values = self.above_mark()?;
                self.tuple(values)?
            }
            Opcode::TupleOf(count) => {
                let start = self.stack.len().checked_sub(count).ok_or(self.absent("a value"))?;
                let values = self.above(start)?;
                self.tuple(values)?
            }
            Opcode::EmptyList => {
                self.count(1)?;
                self.store.lists.push(Vec::new());
                Value::List(self.store.lists.len() - 1)
            }
            Opcode::EmptyDict => self.dict()?,
            Opcode::Reduce => self.reduce()?,
            Opcode::PersistentId => self.storage()?,
        };
        self.grow(self.stack.len(), "values on its stack")?;
        self.stack.push(value);
        Ok(None)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], PickleError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(PickleError::End { offset: self.bytes.len() })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, width: Width) -> Result<u64, PickleError> {
        Ok(self.take(width as usize)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn pickled_number(&mut self, opcode: Opcode) -> Result<Value<'a>, PickleError> {
        Ok(match opcode {
            Opcode::Number(Width::Four) => Value::Number(i64::from(self.number(Width::Four)? as i32)),
            Opcode::Number(width) => Value::Number(self.number(width)? as i64),
            Opcode::LongNumber => {
                let count = self.number(Width::One)? as usize;
                let bytes = self.take(count)?;
                // Sizes that need more do not fit into any memory; the value is then of no use to a tensor.
                if count > 8 {
                    return Ok(Value::None);
                }
                let sign = if bytes.last().is_some_and(|byte| *byte >= 0x80) { -1 } else { 0 };
                Value::Number(bytes.iter().rev().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
            }
            // A float is no part of a tensor's description.
            _ => self.take(8).map(|_| Value::None)?,
        })
    }

    fn text(&mut self, width: Width) -> Result<&'a str, PickleError> {
        let offset = self.step;
        let length = self.number(width)?;
        let bytes = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        std::str::from_utf8(bytes).map_err(|_| PickleError::Utf8 { offset })
    }

    /// The rest of a line, without its end.
    fn line(&mut self) -> Result<&'a str, PickleError> {
        let offset = self.step;
        let rest = &self.bytes[self.at..];
        let length =
            rest.iter().position(|byte| *byte == b'\n').ok_or(PickleError::End { offset: self.bytes.len() })?;
        let line = self.take(length + 1)?;
        std::str::from_utf8(&line[..length]).map_err(|_| PickleError::Utf8 { offset })
    }

    fn global(&mut self, opcode: Opcode) -> Result<Value<'a>, PickleError> {
        let (module, name) = match opcode {
            Opcode::Global => (self.line()?, self.line()?),
            _ => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => (module, name),
                _ => return Err(self.absent("the name of a Python object")),
            },
        };
        let refused = || {
            // It comes from outside, and may be long.
            let name: String = format!("{module}.{name}").chars().take(120).collect();
            PickleError::Global { name: name.escape_debug().to_string() }
        };
        Global::find(module, name).map(Value::Global).ok_or_else(refused)
    }

    fn remember(&mut self, opcode: Opcode) -> Result<(), PickleError> {
        let place = match opcode {
            Opcode::Put(width) => self.number(width)?,
            _ => self.memo.len() as u64,
        };
        let value = *self.stack.last().ok_or(self.absent("a value"))?;
        self.grow(self.memo.len(), "values in its memory")?;
        self.memo.insert(place, value);
        Ok(())
    }

    /// Adds to the list or the dictionary below.
    fn fill(&mut self, opcode: Opcode) -> Result<(), PickleError> {
        let values = match opcode {
            Opcode::Append | Opcode::Build => vec![self.pop()?],
            Opcode::SetItem => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.above_mark()?,
        };
        self.count(values.len())?;
        match (opcode, self.stack.last().copied()) {
            (Opcode::Append | Opcode::Appends, Some(Value::List(list))) => self.store.lists[list].extend(values),
            (Opcode::SetItem | Opcode::SetItems, Some(Value::Dict(dict))) if values.len() % 2 == 0 => {
                self.store.dicts[dict].extend(values.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            // What a module's state dict has beside its tensors: versions of its parts.
            (Opcode::Build, Some(Value::Dict(_))) => {}
            (Opcode::Build, _) => return Err(PickleError::Call { offset: self.step, what: "an object" }),
            _ => return Err(self.absent("a list or a dictionary")),
        }
        Ok(())
    }

    fn tuple(&mut self, values: Vec<Value<'a>>) -> Result<Value<'a>, PickleError> {
        self.count(values.len() + 1)?;
        self.store.lists.push(values);
        Ok(Value::Tuple(self.store.lists.len() - 1))
    }

    fn dict(&mut self) -> Result<Value<'a>, PickleError> {
        self.count(1)?;
        self.store.dicts.push(Vec::new());
        Ok(Value::Dict(self.store.dicts.len() - 1))
    }

    fn reduce(&mut self) -> Result<Value<'a>, PickleError> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let offset = self.step;
        let (Value::Tuple(arguments), Value::Global(function)) = (arguments, function) else {
            return Err(PickleError::Call { offset, what: "an object" });
        };
        let arguments = &self.store.lists[arguments];
        if arguments.len() > MOST_ARGUMENTS {
            return Err(PickleError::Call { offset, what: "an object" });
        }
        let arguments = arguments.clone();
        match (function, arguments.as_slice()) {
            (Global::OrderedDict, []) => self.dict(),
            (Global::RebuildParameter, [tensor @ Value::Tensor(_), ..]) => Ok(*tensor),
            (Global::RebuildParameter, _) => Err(PickleError::Call { offset, what: "a parameter" }),
            (Global::RebuildTensor, [Value::Storage(storage), Value::Number(start), shape, strides, ..]) => {
                let start = u64::try_from(*start).map_err(|_| PickleError::Negative { offset, what: "an offset" })?;
                let (shape, strides) = (self.sizes(*shape)?, self.sizes(*strides)?);
                if shape.len() != strides.len() {
                    return Err(PickleError::Call { offset, what: "a tensor" });
                }
                self.count(1)?;
                self.store.tensors.push(PickledTensor { storage: *storage, offset: start, shape, strides });
                Ok(Value::Tensor(self.store.tensors.len() - 1))
            }
            (Global::RebuildTensor, _) => Err(PickleError::Call { offset, what: "a tensor" }),
            (Global::OrderedDict, _) => Err(PickleError::Call { offset, what: "a dictionary" }),
            (Global::StorageType(_), _) => Err(PickleError::Call { offset, what: "a storage" }),
        }
    }

    /// The numbers of a tuple, none of them negative.
    fn sizes(&self, tuple: Value<'a>) -> Result<Vec<u64>, PickleError> {
        let offset = self.step;
        let call = || PickleError::Call { offset, what: "a tensor" };
        let Value::Tuple(tuple) = tuple else { return Err(call()) };
        let sizes = &self.store.lists[tuple];
        if sizes.len() > MOST_DIMENSIONS {
            return Err(call());
        }
        let size = |value: &Value<'a>| match value {
            Value::Number(number) => {
                u64::try_from(*number).map_err(|_| PickleError::Negative { offset, what: "a dimension" })
            }
            _ => Err(call()),
        };
        sizes.iter().map(size).collect()
    }

    /// A storage: `("storage", type, key, device, values)`.
    fn storage(&mut self) -> Result<Value<'a>, PickleError> {
        let call = PickleError::Call { offset: self.step, what: "a storage" };
        let Value::Tuple(parts) = self.pop()? else { return Err(call) };
        let [
            Value::Text("storage"),
            Value::Global(Global::StorageType(dtype)),
            Value::Text(key),
            Value::Text(_),
            Value::Number(values),
        ] = self.store.lists[parts][..]
        else {
            return Err(call);
        };
        let Ok(values) = u64::try_from(values) else { return Err(call) };
        self.count(1)?;
        self.store.storages.push(Storage { key: key.to_owned(), dtype, values });
        Ok(Value::Storage(self.store.storages.len() - 1))
    }

    fn pop(&mut self) -> Result<Value<'a>, PickleError> {
        // Below a mark lies what its opener still needs.
        let floor = self.marks.last().copied().unwrap_or_default();
        let absent = self.absent("a value");
        if self.stack.len() <= floor {
            return Err(absent);
        }
        self.stack.pop().ok_or(absent)
    }

    fn above_mark(&mut self) -> Result<Vec<Value<'a>>, PickleError> {
        let mark = self.marks.pop().ok_or(self.absent("a mark"))?;
        self.above(mark)
    }

    fn above(&mut self, start: usize) -> Result<Vec<Value<'a>>, PickleError> {
        if start > self.stack.len() {
            return Err(self.absent("a value"));
        }
        Ok(self.stack.split_off(start))
    }

    fn absent(&self, what: &'static str) -> PickleError {
        PickleError::Absent { offset: self.step, what }
    }

    /// Counts values that go into the store.
    fn count(&mut self, values: usize) -> Result<(), PickleError> {
        self.parts += values;
        self.grow(self.parts, "values in all")
    }

    fn grow(&self, values: usize, what: &'static str) -> Result<(), PickleError> {
        if values < MAX_VALUES { Ok(()) } else { Err(PickleError::Values { what }) }
    }
}
