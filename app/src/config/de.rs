//! From a table of TOML to a type. This works like toml's own deserializer except for its error: toml puts the
//! unknown key and the known keys into a sentence. Here they are separate, so that the nearest known key can be
//! named.

use serde::de::value::CowStrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use std::borrow::Cow;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// Why a table cannot be read as a type.
#[derive(Debug)]
pub(super) struct ReadError {
    /// The offset of the wrong key or value.
    pub(super) at: Option<usize>,
    pub(super) what: Problem,
}

/// What is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// A key that does not exist, and the keys that exist there.
    UnknownKey { key: String, known: &'static [&'static str] },
    /// A message.
    Other(String),
}

impl ReadError {
    fn or_at(self, at: usize) -> ReadError {
        ReadError { at: self.at.or(Some(at)), ..self }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Problem::UnknownKey { key, .. } => write!(f, "unknown key {key:?}"),
            Problem::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> ReadError {
        ReadError { at: None, what: Problem::Other(message.to_string()) }
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> ReadError {
        ReadError { at: None, what: Problem::UnknownKey { key: key.to_owned(), known } }
    }
}

/// Reads `table` as a `T`.
pub(super) fn from_table<'de, T: Deserialize<'de>>(table: DeTable<'de>) -> Result<T, ReadError> {
    T::deserialize(Table(table))
}

struct Table<'de>(DeTable<'de>);

impl<'de> Deserializer<'de> for Table<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_map(Entries { rest: self.0.into_iter(), value: None })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Value<'de>(Spanned<DeValue<'de>>);

impl<'de> Value<'de> {
    /// A value that is neither a table nor an array is read by toml.
    fn leaf<T>(
        value: Spanned<DeValue<'de>>,
        read: impl FnOnce(ValueDeserializer<'de>) -> Result<T, toml::de::Error>,
    ) -> Result<T, ReadError> {
        let at = value.span().start;
        read(ValueDeserializer::from(value))
            .map_err(|error| ReadError { at: Some(at), what: Problem::Other(error.message().to_owned()) })
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let at = self.0.span().start;
        let read = match self.0.get_ref() {
            DeValue::Table(_) | DeValue::Array(_) => match self.0.into_inner() {
                DeValue::Table(table) => Table(table).deserialize_any(visitor),
                DeValue::Array(array) => visitor.visit_seq(Elements(array.into_iter())),
                _ => Err(de::Error::custom("neither a table nor an array")),
            },
            _ => Value::leaf(self.0, |value| value.deserialize_any(visitor)),
        };
        read.map_err(|error| error.or_at(at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let at = self.0.span().start;
        if let DeValue::String(text) = self.0.get_ref() {
            let what = Problem::Other(format!("a list is wanted: write [{text:?}]"));
            return Err(ReadError { at: Some(at), what });
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        Value::leaf(self.0, |value| value.deserialize_enum(name, variants, visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct map struct identifier ignored_any
    }
}

struct Entries<'de> {
    rest: <DeTable<'de> as IntoIterator>::IntoIter,
    /// The value of the key that was read last.
    value: Option<Spanned<DeValue<'de>>>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let at = key.span().start;
        let key: Cow<'de, str> = key.into_inner();
        let read = seed.deserialize(CowStrDeserializer::<ReadError>::new(key));
        read.map(Some).map_err(|error| error.or_at(at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let value = self.value.take().ok_or_else(|| de::Error::custom("a value without a key"))?;
        let at = value.span().start;
        seed.deserialize(Value(value)).map_err(|error: ReadError| error.or_at(at))
    }
}

struct Elements<'de>(<toml::de::DeArray<'de> as IntoIterator>::IntoIter);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some(value) = self.0.next() else { return Ok(None) };
        let at = value.span().start;
        seed.deserialize(Value(value)).map(Some).map_err(|error: ReadError| error.or_at(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Section {
        count: u32,
        share: f64,
        name: Option<String>,
        kind: Kind,
        list: Vec<i64>,
        inner: BTreeMap<String, Section>,
    }

    #[derive(Debug, PartialEq, Default, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        #[default]
        First,
        SecondOne,
    }

    fn read(text: &str) -> Result<Section, ReadError> {
        from_table(DeTable::parse(text).unwrap().into_inner())
    }

    #[test]
    fn a_table_reads_as_with_toml_itself() {
        for text in [
            "",
            "count = 7\nshare = 0.5\nname = 'a'\nkind = 'second-one'\nlist = [1, -2, 0x10]",
            "[inner.one]\ncount = 1\n[inner.two.inner.three]\nname = \"x\\ty\"",
            "inner = { one = { list = [] } }",
        ] {
            assert_eq!(read(text).unwrap(), toml::from_str(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_in_tomls_words() {
        for text in
            ["count = 'many'", "count = -1", "kind = 'third'", "list = [1, 'two']", "name = 1", "inner = 3"]
        {
            let (ours, tomls) = (read(text).unwrap_err(), toml::from_str::<Section>(text).unwrap_err());
            assert_eq!(ours.to_string(), tomls.message(), "{text}");
            assert_eq!(ours.at, tomls.span().map(|span| span.start), "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_told_with_those_that_are_known() {
        for (text, at) in [("share = 1.5\ncuont = 1", 12), ("[inner.one]\nlist = []\ncuont = 1", 22)] {
            let error = read(text).unwrap_err();
            let known = &["count", "share", "name", "kind", "list", "inner"];
            assert_eq!(error.what, Problem::UnknownKey { key: "cuont".to_owned(), known });
            assert_eq!(error.at, Some(at));
        }
    }
}
