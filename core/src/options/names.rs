//! Options whose values have names or numbers of their own in commands.

/// Implements what all types with a function `as_str` share: they are shown and sent as this text.
macro_rules! shown_as_name {
    ($name:ident) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::options::OptionValue for $name {
            fn write(
                &self,
                key: &str,
                body: &mut $crate::bson::DocumentWriter<'_>,
            ) -> Result<(), $crate::error::Error> {
                body.str(key, self.as_str());
                Ok(())
            }
        }
    };
}

/// Declares enums whose variants have names in commands.
macro_rules! names {
    ($(
        $(#[$about:meta])*
        $name:ident {
            $($(#[$doc:meta])* $variant:ident = $text:literal,)*
        }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// Returns the name in commands.
            ///
            /// ```
            /// use onionskin_core::options::CollationAlternate;
            ///
            /// assert_eq!(CollationAlternate::Shifted.as_str(), "shifted");
            /// ```
            #[must_use]
            pub const fn as_str(&self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        /// Fails for a name that no value has. Letter case counts.
        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err($crate::error::Error::argument(format!(
                        "{text:?} is no value of {}: {}",
                        stringify!($name),
                        [$($text),*].join(", "),
                    ))),
                }
            }
        }

        $crate::options::shown_as_name! { $name }
    )*};
}

/// Declares enums of names, to which servers can add others. The last variant has any other name.
macro_rules! open_names {
    ($(
        $(#[$about:meta])*
        $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// Another name, which the driver does not know.
            Other(String),
        }

        impl $name {
            /// Returns the name that servers use.
            ///
            /// ```
            /// use onionskin_core::operation::crud::ValidationLevel;
            ///
            /// assert_eq!(ValidationLevel::Strict.as_str(), "strict");
            /// ```
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(name) => name,
                }
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                match name.as_str() {
                    $($text => Self::$variant,)*
                    _ => Self::Other(name),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        $crate::options::shown_as_name! { $name }
    )*};
}

/// Implements `FromStr` for a type with the functions `name` and `from_name`, and the list `ALL`.
macro_rules! parsed {
    ($name:ident) => {
        /// Fails for a name that no value has. Letter case counts.
        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let unknown = || {
                    $crate::error::Error::argument(format!(
                        "{text:?} is no value of {}: {}",
                        stringify!($name),
                        $name::ALL.map($name::name).join(", "),
                    ))
                };
                $name::from_name(text).ok_or_else(unknown)
            }
        }
    };
}

/// Declares enums whose variants have numbers in commands. The last variant has any other number.
macro_rules! numbers {
    ($(
        $(#[$about:meta])*
        $name:ident {
            $($(#[$doc:meta])* $variant:ident = $number:literal,)*
        }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// Another number, which is sent as it is.
            Custom(u32),
        }

        impl From<$name> for u32 {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => $number,)*
                    $name::Custom(number) => number,
                }
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Custom(other),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                i32::try_from(u32::from(*self)).unwrap_or(i32::MAX).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                u32::deserialize(deserializer).map(Self::from)
            }
        }

        impl $crate::options::OptionValue for $name {
            fn write(
                &self,
                key: &str,
                body: &mut $crate::bson::DocumentWriter<'_>,
            ) -> Result<(), $crate::error::Error> {
                u32::from(*self).write(key, body)
            }
        }
    )*};
}

pub(crate) use {names, numbers, open_names, parsed, shown_as_name};
