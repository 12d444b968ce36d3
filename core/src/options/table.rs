//! Tables of options: each row declares one option with its name, type, place in the command and
//! documentation. The struct, its builder, its serde form and its place in the command follow from
//! the row.

use crate::{bson::DocumentWriter, error::Error};
use bson::{Bson, Document};

/// Where an option stands in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the body.
    Body,
    /// In the statement of a write, or in the document of an index.
    Statement,
    /// In the document `cursor` of the body.
    Cursor,
    /// In the stage `$changeStream` of a pipeline.
    Stage,
}

/// A type of option that can be written into a command.
pub(crate) trait OptionValue {
    /// Appends the value to `body`. Fails if the value cannot be encoded.
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error>;
}

impl OptionValue for bool {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.bool(key, *self);
        Ok(())
    }
}

impl OptionValue for i32 {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.i32(key, *self);
        Ok(())
    }
}

/// A number is sent as an `int` if it fits, and as a `long` otherwise.
impl OptionValue for u32 {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        match i32::try_from(*self) {
            Ok(n) => body.i32(key, n),
            Err(_) => body.i64(key, (*self).into()),
        };
        Ok(())
    }
}

impl OptionValue for u64 {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.i64(key, i64::try_from(*self).unwrap_or(i64::MAX));
        Ok(())
    }
}

impl OptionValue for f64 {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.tree_value(key, &Bson::Double(*self)).map(drop)
    }
}

impl OptionValue for String {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.str(key, self);
        Ok(())
    }
}

impl OptionValue for Document {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.subtree(key, self).map(drop)
    }
}

impl OptionValue for Vec<Document> {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.trees(key, self).map(drop)
    }
}

impl OptionValue for Bson {
    fn write(&self, key: &str, body: &mut DocumentWriter<'_>) -> Result<(), Error> {
        body.tree_value(key, self).map(drop)
    }
}

/// Declares structs of options. Each row of a struct is
///
/// ```text
/// /// Documentation.
/// name: Type => Place "nameInTheCommand" (form),
/// ```
///
/// The place is a variant of [`Place`], or `Kept` for an option that the code of the command
/// handles. The form decides what the setters of calls take: `(into)` means `impl Into<Type>`,
/// `(list)` means any iterator of the items of a list, `(option)` means `impl
/// Into<Option<Type>>`, and without a form they take the type itself. The setters of builders take
/// `impl Into<Option<Type>>`, or `impl Into<Type>` with the form `(text)`. `as "module"` before the
/// form names a module of serde functions.
///
/// A struct with `listed by NAME` has a macro of this name, which passes the rows on to another
/// macro. The crates of the client declare the setters of their calls with it.
macro_rules! options {
    (($d:tt) $(
        $(#[$about:meta])*
        $name:ident, built by $builder:ident $(, listed by $table:ident)? => $rows:tt
    )*) => {$(
        $crate::options::options! { @struct [$(#[$about])*] $name $builder $rows }
        $($crate::options::options! { @list ($d) $table $name $rows })?
    )*};
    (@struct [$($about:tt)*] $name:ident $builder:ident {
        $(
            $(#[doc = $doc:literal])*
            $field:ident: $type:ty => $place:ident $key:literal $(as $with:literal)?
                $(($form:ident))?,
        )*
    }) => {
        $($about)*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                #[serde(rename = $key, skip_serializing_if = "Option::is_none" $(, with = $with)?)]
                pub $field: Option<$type>,
            )*
        }

        impl $name {
            /// Returns a builder in which no option is set.
            pub fn builder() -> $builder {
                $builder::default()
            }

            /// Returns the options of a call, or for a call without options those of which none is
            /// set.
            // For the calls of the crate `onionskin`.
            #[doc(hidden)]
            #[must_use]
            pub fn or_unset(options: Option<&Self>) -> &Self {
                options.unwrap_or(Self::UNSET)
            }

            /// The options of which none is set.
            const UNSET: &'static Self = {
                static UNSET: $name = $name { $($field: None,)* };
                &UNSET
            };

            /// Appends the options of a place to a part of a command.
            #[allow(dead_code, unused_variables, reason = "a struct can have no option there")]
            pub(crate) fn write(
                &self,
                place: $crate::options::Place,
                body: &mut $crate::bson::DocumentWriter<'_>,
            ) -> Result<(), $crate::error::Error> {
                if std::ptr::eq(self, Self::UNSET) {
                    return Ok(());
                }
                $($crate::options::options! { @write $place, self.$field, $key, place, body })*
                Ok(())
            }
        }

        $crate::options::options! {
            @built $name $builder { $([$($doc)*] $field: $type $(, $form)?;)* }
        }
    };
    (@built $name:ident $builder:ident {
        $([$($doc:literal)*] $field:ident: $type:ty $(, $form:ident)?;)*
    }) => {
        #[doc = concat!("A builder of [`", stringify!($name), "`].")]
        #[derive(Clone, Debug, Default)]
        #[must_use = "a builder does nothing before `build`"]
        pub struct $builder($name);

        impl $builder {
            $($crate::options::options! {
                @builder [$($doc)*] $field: $type $(, $form)?
            })*

            /// Returns the options.
            #[must_use]
            pub fn build(self) -> $name {
                self.0
            }
        }
    };
    (@list ($d:tt) $table:ident $name:ident {
        $(
            $(#[doc = $doc:literal])*
            $field:ident: $type:ty => $place:ident $key:literal $(as $with:literal)?
                $(($form:ident))?,
        )*
    }) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $table {
            ($d callback:ident $d ($d args:tt)*) => {
                $d callback! {
                    $d ($d args)* $name {
                        $([$($doc)*] $field: $type $(, $form)?;)*
                    }
                }
            };
        }
    };
    // A text that is always there, as in the official driver.
    (@builder [$($doc:literal)*] $field:ident: $type:ty, text) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, value: impl Into<$type>) -> Self {
            self.0.$field = Some(value.into());
            self
        }
    };
    (@builder [$($doc:literal)*] $field:ident: $type:ty $(, $form:ident)?) => {
        $(#[doc = $doc])*
        pub fn $field(mut self, value: impl Into<Option<$type>>) -> Self {
            self.0.$field = value.into();
            self
        }
    };
    (@write Kept, $value:expr, $key:literal, $wanted:ident, $body:ident) => {};
    (@write $place:ident, $value:expr, $key:literal, $wanted:ident, $body:ident) => {
        if $wanted == $crate::options::Place::$place && let Some(value) = &$value {
            $crate::options::OptionValue::write(value, $key, $body)?;
        }
    };
}

pub(crate) use options;

/// Times in the options as whole milliseconds, for serde.
pub(crate) mod millis {
    use crate::time::whole_millis;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(whole_millis).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let millis = Option::<u64>::deserialize(deserializer)?;
        Ok(millis.map(Duration::from_millis))
    }
}

/// Times in the options as whole seconds, for serde.
pub(crate) mod seconds {
    use crate::time::whole_seconds;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(whole_seconds).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<u64>::deserialize(deserializer)?;
        Ok(seconds.map(Duration::from_secs))
    }
}
