//! Values that people choose by name, on the command line and in the configuration: each stands once, with its name and with what
//! help says of it.

use std::fmt;
use thiserror::Error;

/// A value with its name. [`choice!`](crate::choice!) makes such types.
pub trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// All values, in the order in which help lists them.
    const CHOICES: &'static [Named<Self>];

    /// The name of this value.
    #[must_use]
    fn name(self) -> &'static str {
        Self::CHOICES.iter().find(|named| named.value == self).map_or("", |named| named.name)
    }

    /// The value of this name.
    ///
    /// # Errors
    /// [`UnknownChoice`], which lists the names.
    fn of_name(name: &str) -> Result<Self, UnknownChoice> {
        let named = Self::CHOICES.iter().find(|named| named.name == name);
        named.map(|named| named.value).ok_or_else(|| UnknownChoice {
            name: name.to_owned(),
            known: Self::CHOICES.iter().map(|named| named.name).collect(),
        })
    }
}

/// A value, its name, and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Named<T> {
    /// The value.
    pub value: T,
    /// What people write.
    pub name: &'static str,
    /// The documentation of the value: for help, [`Named::help`] has it as a line.
    pub documentation: &'static str,
}

impl<T> Named<T> {
    /// What the value means, as a line of help: without the full stop of a single sentence.
    #[must_use]
    pub fn help(&self) -> &'static str {
        let text = self.documentation.trim();
        text.strip_suffix('.').filter(|line| !line.contains(". ")).unwrap_or(text)
    }
}

/// A name that no value has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct UnknownChoice {
    name: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not known; one of {}", self.name, self.known.join(", "))
    }
}

/// Declares an enum with values that people choose by name: `Variant = "name"`, and `as default` behind the one that
/// `derive(Default)` takes. It is a [`Choice`] with the variants' documentation as help, and has `Display` and `FromStr` by the names.
///
/// ```
/// use glassline_media::{Choice, choice};
///
/// choice! {
///     /// How fast it goes.
///     #[derive(Clone, Copy, Debug, Default, PartialEq)]
///     pub enum Speed {
///         /// As slow as it may be.
///         Slow = "slow" as default,
///         /// As fast as it can.
///         Fast = "fast",
///     }
/// }
/// assert_eq!("fast".parse(), Ok(Speed::Fast));
/// assert_eq!(Speed::default().to_string(), "slow");
/// assert_eq!(Speed::CHOICES[1].help(), "As fast as it can");
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $Type:ident {
            $(
                $(#[doc = $text:literal])+
                $(#[cfg($condition:meta)])?
                $Variant:ident = $name:literal $(as $default:ident)?,
            )+
        }
    ) => {
        $(#[$meta])*
        $visibility enum $Type {
            $(
                $(#[doc = $text])+
                $(#[cfg($condition)])?
                $(#[$default])?
                $Variant,
            )+
        }

        impl $crate::Choice for $Type {
            const CHOICES: &'static [$crate::choice::Named<$Type>] = &[
                $(
                    $(#[cfg($condition)])?
                    $crate::choice::Named {
                        value: $Type::$Variant,
                        name: $name,
                        documentation: concat!($($text),+),
                    },
                )+
            ];
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::Choice::name(*self))
            }
        }

        impl std::str::FromStr for $Type {
            type Err = $crate::choice::UnknownChoice;

            fn from_str(name: &str) -> Result<$Type, $crate::choice::UnknownChoice> {
                $crate::Choice::of_name(name)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    choice! {
        /// What to do with it.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        enum Fate {
            /// Keep it,
            /// as it is.
            Keep = "keep",
            /// Drop it. It is counted.
            Drop = "drop" as default,
            /// Send it back.
            #[cfg(not(test))]
            Return = "return",
        }
    }

    #[test]
    fn names_lead_to_values_and_back() {
        assert_eq!(Fate::default(), Fate::Drop);
        for named in Fate::CHOICES {
            assert_eq!(named.name.parse(), Ok(named.value));
            assert_eq!(named.value.to_string(), named.name);
        }
        let unknown = "keeps".parse::<Fate>().unwrap_err();
        assert_eq!(unknown.to_string(), "\"keeps\" is not known; one of keep, drop");
    }

    #[test]
    fn the_documentation_is_the_help() {
        let help: Vec<_> = Fate::CHOICES.iter().map(Named::help).collect();
        assert_eq!(help, ["Keep it, as it is", "Drop it. It is counted."]);
    }
}
