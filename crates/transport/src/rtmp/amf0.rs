//! Values of AMF 0 (Action Message Format, file format specification of 2007), which RTMP's commands and metadata consist of.
//!
//! ```text
//! 0 number f64 │ 1 boolean u8 │ 2 string u16 … │ 3 object (u16 name, value)… 0 0 9 │ 5 null │ 6 undefined
//! 8 ECMA array u32, as an object │ 10 strict array u32, values │ 11 date f64 u16 │ 12 long string u32 …
//! ```
//! A reader takes bytes from outside: values within values and their number are bounded, and no length is believed before its
//! bytes are there.

use thiserror::Error;

/// Values within values. Commands have two levels, metadata of files four.
const DEPTH_MAX: usize = 16;
/// Values in a message, each property and each element counted.
const VALUES_MAX: usize = 4096;

const NUMBER: u8 = 0;
const BOOLEAN: u8 = 1;
const STRING: u8 = 2;
const OBJECT: u8 = 3;
const NULL: u8 = 5;
const UNDEFINED: u8 = 6;
const REFERENCE: u8 = 7;
const ECMA_ARRAY: u8 = 8;
const OBJECT_END: u8 = 9;
const STRICT_ARRAY: u8 = 10;
const DATE: u8 = 11;
const LONG_STRING: u8 = 12;
const UNSUPPORTED: u8 = 13;
const XML: u8 = 15;
const TYPED_OBJECT: u8 = 16;

/// Why bytes are no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AmfError {
    /// A value is cut off.
    #[error("an AMF value ends before its length says")]
    CutOff,
    /// A kind of value that is not read: AMF 3 within AMF 0, movie clips, record sets.
    #[error("an AMF value of type {found}, which is not supported")]
    Kind {
        /// Its marker.
        found: u8,
    },
    /// Values lie deeper within each other than is allowed.
    #[error("AMF values nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// More values than are allowed.
    #[error("more than {VALUES_MAX} AMF values in a message")]
    TooMany,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// A string, long strings and XML too.
    String(String),
    /// Named values: an object, an ECMA array or a typed object, in the order in which they come.
    Object(Vec<(String, Value)>),
    /// A strict array.
    Array(Vec<Value>),
    /// Nothing: null, undefined, a reference, a date.
    Null,
}

impl Value {
    /// The string that it is.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number that it is.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The property of this name.
    pub fn property(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(properties) => {
                properties.iter().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl From<bool> for Value {
    fn from(is_true: bool) -> Value {
        Value::Boolean(is_true)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

/// An object of these properties.
pub fn object<const N: usize>(properties: [(&str, Value); N]) -> Value {
    Value::Object(properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Reads all values of a message.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_all(bytes: &[u8]) -> Result<Vec<Value>, AmfError> {
    let mut reader = Reader { rest: bytes, left: VALUES_MAX };
    let mut values = Vec::new();
    while !reader.rest.is_empty() {
        values.push(reader.value(0)?);
    }
    Ok(values)
}

struct Reader<'a> {
    rest: &'a [u8],
    /// Values that may still come.
    left: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], AmfError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(AmfError::CutOff)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], AmfError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(AmfError::CutOff)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn short_string(&mut self) -> Result<String, AmfError> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn long_string(&mut self) -> Result<String, AmfError> {
        let length = usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| AmfError::CutOff)?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn value(&mut self, depth: usize) -> Result<Value, AmfError> {
        self.left = self.left.checked_sub(1).ok_or(AmfError::TooMany)?;
        let [kind] = self.array()?;
        if matches!(kind, OBJECT | ECMA_ARRAY | STRICT_ARRAY | TYPED_OBJECT) && depth >= DEPTH_MAX {
            return Err(AmfError::TooDeep);
        }
        let inner = depth.saturating_add(1);
        Ok(match kind {
            NUMBER => Value::Number(f64::from_be_bytes(self.array()?)),
            BOOLEAN => Value::Boolean(self.array::<1>()? != [0]),
            STRING => Value::String(self.short_string()?),
            LONG_STRING | XML => Value::String(self.long_string()?),
            OBJECT => Value::Object(self.properties(inner)?),
            ECMA_ARRAY => {
                // How many there are is said, often wrongly: the end tells.
                self.array::<4>()?;
                Value::Object(self.properties(inner)?)
            }
            TYPED_OBJECT => {
                self.short_string()?;
                Value::Object(self.properties(inner)?)
            }
            STRICT_ARRAY => {
                let count = u32::from_be_bytes(self.array()?);
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.value(inner)?);
                }
                Value::Array(values)
            }
            DATE => {
                self.array::<10>()?;
                Value::Null
            }
            REFERENCE => {
                self.array::<2>()?;
                Value::Null
            }
            NULL | UNDEFINED | UNSUPPORTED => Value::Null,
            found => return Err(AmfError::Kind { found }),
        })
    }

    /// Up to the end mark. Some encoders leave the mark of the last object out: the end of the message is one too.
    fn properties(&mut self, depth: usize) -> Result<Vec<(String, Value)>, AmfError> {
        let mut properties = Vec::new();
        while !self.rest.is_empty() {
            let name = self.short_string()?;
            if name.is_empty() && self.rest.first().is_none_or(|kind| *kind == OBJECT_END) {
                self.rest = self.rest.get(1..).unwrap_or_default();
                break;
            }
            properties.push((name, self.value(depth)?));
        }
        Ok(properties)
    }
}

/// Appends values.
pub fn write(values: &[Value], out: &mut Vec<u8>) {
    for value in values {
        match value {
            Value::Number(number) => {
                out.push(NUMBER);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Value::Boolean(is_true) => out.extend_from_slice(&[BOOLEAN, u8::from(*is_true)]),
            Value::String(text) => match u16::try_from(text.len()) {
                Ok(length) => {
                    out.push(STRING);
                    out.extend_from_slice(&length.to_be_bytes());
                    out.extend_from_slice(text.as_bytes());
                }
                Err(_) => {
                    out.push(LONG_STRING);
                    out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(0).to_be_bytes());
                    out.extend_from_slice(text.as_bytes());
                }
            },
            Value::Object(properties) => {
                out.push(OBJECT);
                write_properties(properties, out);
            }
            Value::Array(values) => {
                out.push(STRICT_ARRAY);
                out.extend_from_slice(&u32::try_from(values.len()).unwrap_or(0).to_be_bytes());
                write(values, out);
            }
            Value::Null => out.push(NULL),
        }
    }
}

/// Appends an ECMA array of these properties: what metadata has, where commands have an object.
pub fn write_ecma_array(properties: &[(String, Value)], out: &mut Vec<u8>) {
    out.push(ECMA_ARRAY);
    out.extend_from_slice(&u32::try_from(properties.len()).unwrap_or(0).to_be_bytes());
    write_properties(properties, out);
}

fn write_properties(properties: &[(String, Value)], out: &mut Vec<u8>) {
    for (name, value) in properties {
        out.extend_from_slice(&u16::try_from(name.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        write(std::slice::from_ref(value), out);
    }
    out.extend_from_slice(&[0, 0, OBJECT_END]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_connect_command_is_read() {
        let mut bytes = b"\x02\0\x07connect\0\x3f\xf0\0\0\0\0\0\0\x03\0\x03app\x02\0\x04live".to_vec();
        bytes.extend_from_slice(b"\0\x04fpad\x01\0\0\x0bvideoCodecs\0\x40\x6f\x80\0\0\0\0\0\0\0\x09");
        let values = read_all(&bytes).unwrap();
        assert_eq!(values[0].as_str(), Some("connect"));
        assert_eq!(values[1].as_number(), Some(1.0));
        assert_eq!(values[2].property("app").and_then(Value::as_str), Some("live"));
        assert_eq!(values[2].property("fpad"), Some(&Value::Boolean(false)));
        assert_eq!(values[2].property("videoCodecs").and_then(Value::as_number), Some(252.0));
        assert_eq!(values.len(), 3);
    }

    #[test]
    fn metadata_with_arrays_dates_and_no_end_mark_is_read() {
        // An ECMA array that says it had no properties, an array, a date, XML, a reference; the end is left out.
        let bytes = b"\x08\0\0\0\0\0\x05times\x0a\0\0\0\x02\x05\x06\0\x01d\x0b\0\0\0\0\0\0\0\0\0\0\
            \0\x01x\x0f\0\0\0\x02hi\0\x01r\x07\0\x01\0\x01t\x10\0\x01T\0\0\x09";
        let [value] = &read_all(bytes).unwrap()[..] else { panic!("one value") };
        assert_eq!(value.property("times"), Some(&Value::Array(vec![Value::Null, Value::Null])));
        assert_eq!(value.property("d"), Some(&Value::Null));
        assert_eq!(value.property("x").and_then(Value::as_str), Some("hi"));
        assert_eq!(value.property("t"), Some(&Value::Object(Vec::new())));
    }

    #[test]
    fn a_nesting_bomb_and_a_count_that_is_not_there_end_at_their_bounds() {
        let deep = |depth: usize| [vec![10, 0, 0, 0, 1]; 1].concat().repeat(depth);
        let with_end = |depth| [deep(depth), vec![NULL]].concat();
        assert!(read_all(&with_end(DEPTH_MAX)).is_ok());
        assert_eq!(read_all(&with_end(DEPTH_MAX + 1)), Err(AmfError::TooDeep));
        assert_eq!(read_all(&deep(1_000_000)), Err(AmfError::TooDeep));
        assert_eq!(read_all(&b"\x03\0\x01a".repeat(1_000_000)), Err(AmfError::TooDeep));
        assert_eq!(read_all(b"\x0a\xff\xff\xff\xff"), Err(AmfError::CutOff));
        assert_eq!(read_all(&vec![NULL; VALUES_MAX + 1]), Err(AmfError::TooMany));
        let many = [&b"\x0a\xff\xff\xff\xff"[..], &vec![NULL; 100_000]].concat();
        assert_eq!(read_all(&many), Err(AmfError::TooMany));
        assert_eq!(read_all(b"\x0c\xff\xff\xff\xff1"), Err(AmfError::CutOff));
        assert_eq!(read_all(b"\x11\x0a\x0b\x01"), Err(AmfError::Kind { found: 0x11 }));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(|number| Value::Number(number.into())),
            any::<bool>().prop_map(Value::Boolean),
            ".{0,20}".prop_map(Value::String),
            Just(Value::Null),
            Just(Value::String("x".repeat(70_000))),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(("[a-z]{1,6}", inner.clone()), 0..5).prop_map(Value::Object),
                proptest::collection::vec(inner, 0..5).prop_map(Value::Array),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in proptest::collection::vec(value(), 0..5)) {
            let mut bytes = Vec::new();
            write(&values, &mut bytes);
            prop_assert_eq!(read_all(&bytes), Ok(values));
        }

        #[test]
        fn any_bytes_give_values_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_all(&bytes);
            let kinds: Vec<u8> = bytes.iter().map(|byte| byte % 17).collect();
            let _ = read_all(&kinds);
        }
    }
}
