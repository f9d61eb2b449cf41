//! Values with names, for clap: the names, and the help of each, are those of the type.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use glassline_media::Choice;

/// The parser of an option with such values.
pub(crate) fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    let values = T::CHOICES.iter().map(|named| PossibleValue::new(named.name).help(named.help()));
    PossibleValuesParser::new(values).try_map(|name| T::of_name(&name))
}
