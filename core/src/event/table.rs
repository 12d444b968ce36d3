//! Tables of events. One entry of a table defines an event, its log message and its `Display` line.

use crate::{
    address::Address,
    description::{TopologyDescription, TopologyId},
    error::Error,
};
use bson::{RawDocument, RawDocumentBuf, oid::ObjectId};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// Defines a family of events.
///
/// ```text
/// /// What the event means.
/// Name {
///     /// The doc comment of the field.
///     field: Type => "logKey",
///     other: Type => ("logKey", expression over the fields),
///     unlogged: Type,
/// }
/// trace ("the line of traces: {field}")
/// log "message", "text of the message: {logKey}";
/// ```
///
/// Log fields have the order of the table. An event without `log` has no message. All variants are
/// `non_exhaustive`, so that a new field breaks no listener. With the feature `unstable-machines`
/// they are not, so that tests of listeners can construct events.
macro_rules! events {
    (
        $(#[$family_doc:meta])*
        pub enum $Family:ident {
            $(
                $(#[$doc:meta])*
                $Event:ident {
                    $( $(#[$field_doc:meta])* $field:ident: $Type:ty $(=> $log:tt)?, )*
                }
                trace ($($trace:tt)*)
                $(log $message:literal, $text:expr)?;
            )*
        }
    ) => {
        $(#[$family_doc])*
        #[non_exhaustive]
        pub enum $Family {
            $(
                $(#[$doc])*
                #[cfg_attr(not(feature = "unstable-machines"), non_exhaustive)]
                $Event { $( $(#[$field_doc])* $field: $Type, )* },
            )*
        }

        impl $Family {
            /// Returns the name of the log message and the template of its text. `None` if the
            /// event has no log message.
            pub(crate) const fn message(&self) -> Option<(&'static str, &'static str)> {
                match self {
                    $( Self::$Event { .. } => events!(@message $($message, $text)?), )*
                }
            }

            /// Calls `visit` with the key and the value of each log field.
            #[allow(unused_variables, reason = "not every field is logged")]
            pub(crate) fn visit(&self, visit: &mut Visit<'_>) {
                match self {
                    $(
                        Self::$Event { $($field),* } => {
                            $( $( events!(@visit visit, $field, $log); )? )*
                        }
                    )*
                }
            }
        }

        /// Writes the event as one line for traces, without its documents. The format can change.
        impl std::fmt::Display for $Family {
            #[allow(unused_variables, reason = "a line does not show every field")]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Peers choose some of the texts.
                let mut f = crate::text::Escaping(f);
                match self {
                    $( Self::$Event { $($field),* } => {
                        std::fmt::Write::write_fmt(&mut f, format_args!($($trace)*))
                    } )*
                }
            }
        }
    };
    (@message) => { None };
    (@message $message:literal, $text:expr) => { Some(($message, $text)) };
    (@visit $visit:ident, $field:ident, ($key:literal, $value:expr)) => {
        $value.visit($key, $visit)
    };
    (@visit $visit:ident, $field:ident, $key:literal) => { $field.visit($key, $visit) };
}

pub(super) use events;

/// The value of a log field.
#[derive(Clone, Debug)]
pub(crate) enum Field<'a> {
    /// A text, such as a name or an error message.
    Text(Cow<'a, str>),
    /// A whole number, such as an id or a count.
    Integer(i64),
    /// A flag, such as `awaited`.
    Boolean(bool),
    /// An address, which is logged as host and port, whatever its key.
    Server(&'a Address),
    /// A duration in milliseconds with a fraction.
    Duration(Duration),
    /// A duration in whole milliseconds.
    Millis(Duration),
    /// A document, which is logged as JSON up to a limit.
    Document(&'a RawDocument),
}

/// A function that takes the key and the value of a log field.
pub(crate) type Visit<'v> = dyn FnMut(&'static str, Field<'_>) + 'v;

/// A value of an event that stands for one or more log fields, or for none.
pub(crate) trait Fields {
    /// Calls `visit` with each field. Types with several fields ignore `key`.
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>);
}

impl<T: Fields> Fields for Option<T> {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        if let Some(value) = self {
            value.visit(key, visit);
        }
    }
}

impl<T: Fields + ?Sized> Fields for Arc<T> {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        (**self).visit(key, visit);
    }
}

impl<T: Fields + ?Sized> Fields for &T {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        (**self).visit(key, visit);
    }
}

impl Fields for str {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Text(self.into()));
    }
}

impl Fields for Address {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Server(self));
    }
}

impl Fields for bool {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Boolean(*self));
    }
}

impl Fields for i64 {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Integer(*self));
    }
}

impl Fields for u32 {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Integer(i64::from(*self)));
    }
}

/// A number above `i64::MAX` is logged as `i64::MAX`.
impl Fields for u64 {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(
            key,
            Field::Integer(i64::try_from(*self).unwrap_or(i64::MAX)),
        );
    }
}

impl Fields for Duration {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Duration(*self));
    }
}

/// A duration that is logged in whole milliseconds.
pub(super) struct Millis(pub(super) Duration);

impl Fields for Millis {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Millis(self.0));
    }
}

impl Fields for RawDocumentBuf {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Document(self));
    }
}

impl Fields for ObjectId {
    fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
        visit(key, Field::Text(self.to_hex().into()));
    }
}

/// Implements [`Fields`] for types that are logged as they are displayed.
macro_rules! displayed {
    ($($Type:ty),*) => {
        $(
            impl Fields for $Type {
                fn visit(&self, key: &'static str, visit: &mut Visit<'_>) {
                    visit(key, crate::event::Field::Text(self.to_string().into()));
                }
            }
        )*
    };
}

pub(super) use displayed;

displayed!(Error, TopologyId, TopologyDescription);
