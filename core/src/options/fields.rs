//! Structs of options that are not sent in a command, with their builders.

/// Declares a struct of options. Each row is
///
/// ```text
/// /// Documentation.
/// #[serde(skip)]
/// name: Type => (form),
/// ```
///
/// and becomes a public field `Option<Type>` and a setter of the builder. The setter takes `impl
/// Into<Option<Type>>`, or `impl Into<Type>` with the form `(text)`. The fields after `also` are
/// declared as they stand, and have no setter. The line of serde is optional.
macro_rules! fields {
    (
        $(#[$about:meta])*
        $name:ident, built by $builder:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)*)])?
                $field:ident: $type:ty $(=> ($form:ident))?,
            )*
        }
        also {
            $(
                $(#[$other_doc:meta])*
                $visibility:vis $other:ident: $other_type:ty,
            )*
        }
    ) => {
        $(#[$about])*
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde($($serde)*)])?
                pub $field: Option<$type>,
            )*
            $(
                $(#[$other_doc])*
                $visibility $other: $other_type,
            )*
        }

        impl $name {
            /// Returns a builder in which no option is set.
            pub fn builder() -> $builder {
                $builder::default()
            }
        }

        $crate::options::options! {
            @built $name $builder { $([$($doc)*] $field: $type $(, $form)?;)* }
        }
    };
}

pub(crate) use fields;
