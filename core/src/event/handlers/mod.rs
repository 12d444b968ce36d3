//! The events that the handlers of the client options get, in the form of the official driver: each
//! event is a struct. A shell makes them of the events of the core when it calls a handler.

pub mod cmap;
pub mod command;
pub mod sdam;

use bson::{Document, RawDocument};
use onionskin_bson::{MAX_DEPTH, document_from_slice};

/// The maximum nesting depth of a document in an event. Converting a much deeper document to a tree
/// of values could exhaust the stack.
pub const MAX_DOCUMENT_DEPTH: usize = MAX_DEPTH;

/// Returns the document; an empty one if it is malformed or nested deeper than
/// [`MAX_DOCUMENT_DEPTH`].
fn document(raw: &RawDocument) -> Document {
    document_from_slice(raw.as_bytes()).unwrap_or_default()
}

/// Returns the number of a connection, which the events have as 32 bits.
fn connection_id(id: u64) -> u32 {
    u32::try_from(id).unwrap_or(u32::MAX)
}

/// Defines the struct of an event. The word `incomparable` before its name leaves out `PartialEq`.
macro_rules! event {
    (
        $(#[$doc:meta])*
        incomparable $Event:ident { $( $(#[$field_doc:meta])* $field:ident: $Type:ty, )* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $Event { $( $(#[$field_doc])* pub $field: $Type, )* }
    };
    ($(#[$doc:meta])* $Event:ident $fields:tt) => {
        $crate::event::handlers::event! {
            $(#[$doc])* #[derive(PartialEq)] incomparable $Event $fields
        }
    };
}

use event;

/// Defines the trait of the handlers of a family of events, with a method for each event that does
/// nothing by default, and the [`EventHandler`](crate::options::EventHandler) of such a handler.
macro_rules! handler {
    (
        $(#[$doc:meta])*
        $Handler:ident of $Family:ident $(without $ignored:ident)? {
            $(
                $(#[$method_doc:meta])*
                $method:ident: $Variant:ident($Event:ty) $(as $unboxed:tt)?;
            )*
        }
    ) => {
        $(#[$doc])*
        pub trait $Handler: Send + Sync {
            $(
                $(#[$method_doc])*
                fn $method(&self, _event: $Event) {}
            )*
        }

        /// Returns a handler that passes each event to the method for it.
        impl<H: $Handler + 'static> From<std::sync::Arc<H>>
            for crate::options::EventHandler<$Family>
        {
            fn from(handler: std::sync::Arc<H>) -> Self {
                Self::callback(move |event| match event {
                    $( $Family::$Variant(event) => handler.$method($($unboxed)? event), )*
                    $( $Family::$ignored(_) => {} )?
                })
            }
        }
    };
}

use handler;

#[cfg(test)]
mod tests;
