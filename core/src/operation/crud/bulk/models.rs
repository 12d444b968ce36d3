//! The operations of bulk writes (Bulk Write Specification, *Write Models*).

use super::super::{Namespace, UpdateModifications, write::REPLACEMENT_WITH_OPERATORS};
use crate::{bson::DocumentWriter, error::Error, options::OptionValue};
use bson::{Array, Bson, Document};

/// Declares models: a struct, its builder and its variant of [`WriteModel`]. The first fields have
/// to be set; those after the semicolon are options. A macro passes the options on to another
/// macro, as that of a struct of [`options`](crate::options::options) does.
macro_rules! models {
    (($d:tt) $(
        $(#[$about:meta])*
        $name:ident, built by $builder:ident, $variant:ident, listed by $table:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty,)*;
            $($(#[$option_doc:meta])* $option:ident: $option_type:ty,)*
        }
    )*) => {
        /// An operation of a bulk write.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum WriteModel {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $variant($name),
            )*
        }

        impl WriteModel {
            /// Returns the collection of the operation.
            pub(super) const fn namespace(&self) -> &Namespace {
                match self {
                    $(Self::$variant(model) => &model.namespace,)*
                }
            }
        }

        $(
            $(#[$about])*
            #[derive(Clone, Debug, Default, PartialEq)]
            #[non_exhaustive]
            pub struct $name {
                /// The collection. The bulk write of a collection also takes operations without
                /// one.
                pub namespace: Namespace,
                $($(#[$doc])* pub $field: $type,)*
                $($(#[$option_doc])* pub $option: Option<$option_type>,)*
            }

            impl $name {
                /// Returns a builder without values.
                pub fn builder() -> $builder {
                    $builder::default()
                }
            }

            #[doc = concat!("A builder of [`", stringify!($name), "`].")]
            #[derive(Clone, Debug, Default)]
            #[must_use = "a builder does nothing before `build`"]
            pub struct $builder {
                namespace: Option<Namespace>,
                $($field: Option<$type>,)*
                $($option: Option<$option_type>,)*
            }

            impl $builder {
                /// Sets the collection. The bulk write of a client fails without one. That of a
                /// collection needs none.
                ///
                /// ```
                /// use bson::doc;
                /// use onionskin_core::operation::crud::{InsertOneModel, Namespace};
                ///
                /// let people = Namespace::new("app", "people");
                /// let insert = InsertOneModel::builder().namespace(people).document(doc! {});
                /// assert_eq!(insert.build().namespace.coll, "people");
                /// # Ok::<(), onionskin_core::error::Error>(())
                /// ```
                pub fn namespace(mut self, value: impl Into<Namespace>) -> Self {
                    self.namespace = Some(value.into());
                    self
                }

                $(
                    $(#[$doc])*
                    pub fn $field(mut self, value: impl Into<$type>) -> Self {
                        self.$field = Some(value.into());
                        self
                    }
                )*

                $(
                    $(#[$option_doc])*
                    pub fn $option(mut self, value: impl Into<Option<$option_type>>) -> Self {
                        self.$option = value.into();
                        self
                    }
                )*

                /// Returns the operation.
                #[must_use]
                pub fn build(self) -> $name {
                    $name {
                        namespace: self.namespace.unwrap_or_default(),
                        $($field: self.$field.unwrap_or_default(),)*
                        $($option: self.$option,)*
                    }
                }
            }

            impl From<$name> for WriteModel {
                fn from(model: $name) -> Self {
                    Self::$variant(model)
                }
            }

            #[doc(hidden)]
            #[macro_export]
            macro_rules! $table {
                ($d callback:ident $d ($d args:tt)*) => {
                    $d callback! { $d ($d args)* $name { $([] $option: $option_type;)* } }
                };
            }
        )*
    };
}

models! { ($)
    /// Inserts a document. If it has no `_id`, the driver adds an ObjectId.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{InsertOneModel, WriteModel};
    ///
    /// let insert = InsertOneModel::builder().document(doc! { "name": "Ada" }).build();
    /// let operations: Vec<WriteModel> = vec![insert.into()];
    /// ```
    InsertOneModel, built by InsertOneModelBuilder, InsertOne,
    listed by insert_one_model_options {
        /// The document.
        document: Document,;
    }

    /// Changes the first document that matches a filter.
    ///
    /// ```
    /// use bson::{Bson, doc};
    /// use onionskin_core::operation::crud::UpdateOneModel;
    ///
    /// let update = UpdateOneModel::builder()
    ///     .filter(doc! { "name": "Ada" })
    ///     .update(doc! { "$set": { "active": true } })
    ///     .upsert(true)
    ///     .build();
    /// // Raises the low grades of the first student of a city.
    /// let update = UpdateOneModel::builder()
    ///     .filter(doc! { "city": "Berlin" })
    ///     .update(doc! { "$set": { "grades.$[low]": 5 } })
    ///     .array_filters(vec![Bson::from(doc! { "low": { "$lt": 5 } })])
    ///     .collation(doc! { "locale": "de" })
    ///     .hint(Bson::from("city_1"))
    ///     .sort(doc! { "_id": 1 })
    ///     .build();
    /// ```
    UpdateOneModel, built by UpdateOneModelBuilder, UpdateOne,
    listed by update_one_model_options {
        /// The filter.
        filter: Document,
        /// The operators or the pipeline.
        update: UpdateModifications,;
        /// The filters of the array elements that the operators `$[name]` change.
        array_filters: Array,
        /// The rules by which texts are compared.
        collation: Document,
        /// The index that the server uses: its keys or its name.
        hint: Bson,
        /// Whether a document is inserted if none matches. Default: false.
        upsert: bool,
        /// The order of the documents, of which the first is changed. From server 8.0 on.
        sort: Document,
    }

    /// Changes all documents that match a filter.
    ///
    /// ```
    /// use bson::{Bson, doc};
    /// use onionskin_core::operation::crud::UpdateManyModel;
    ///
    /// let update = UpdateManyModel::builder()
    ///     .filter(doc! { "city": "Berlin" })
    ///     .update(doc! { "$set": { "grades.$[low]": 5 } })
    ///     .array_filters(vec![Bson::from(doc! { "low": { "$lt": 5 } })])
    ///     .collation(doc! { "locale": "de" })
    ///     .hint(Bson::from("city_1"))
    ///     .upsert(false)
    ///     .build();
    /// ```
    UpdateManyModel, built by UpdateManyModelBuilder, UpdateMany,
    listed by update_many_model_options {
        /// The filter.
        filter: Document,
        /// The operators or the pipeline.
        update: UpdateModifications,;
        /// The filters of the array elements that the operators `$[name]` change.
        array_filters: Array,
        /// The rules by which texts are compared.
        collation: Document,
        /// The index that the server uses: its keys or its name.
        hint: Bson,
        /// Whether a document is inserted if none matches. Default: false.
        upsert: bool,
    }

    /// Replaces the first document that matches a filter.
    ///
    /// ```
    /// use bson::{Bson, doc};
    /// use onionskin_core::operation::crud::ReplaceOneModel;
    ///
    /// let replace = ReplaceOneModel::builder()
    ///     .filter(doc! { "name": "ada" })
    ///     .replacement(doc! { "name": "Ada", "born": 1815 })
    ///     .collation(doc! { "locale": "en", "strength": 2 })
    ///     .hint(Bson::from("name_1"))
    ///     .sort(doc! { "_id": 1 })
    ///     .upsert(true)
    ///     .build();
    /// ```
    ReplaceOneModel, built by ReplaceOneModelBuilder, ReplaceOne,
    listed by replace_one_model_options {
        /// The filter.
        filter: Document,
        /// The new document.
        replacement: Document,;
        /// The rules by which texts are compared.
        collation: Document,
        /// The index that the server uses: its keys or its name.
        hint: Bson,
        /// Whether a document is inserted if none matches. Default: false.
        upsert: bool,
        /// The order of the documents, of which the first is replaced. From server 8.0 on.
        sort: Document,
    }

    /// Deletes the first document that matches a filter.
    ///
    /// ```
    /// use bson::{Bson, doc};
    /// use onionskin_core::operation::crud::{DeleteOneModel, Namespace};
    ///
    /// let delete = DeleteOneModel::builder()
    ///     .namespace(Namespace::new("app", "people"))
    ///     .filter(doc! { "name": "ada" })
    ///     .collation(doc! { "locale": "en", "strength": 2 })
    ///     .hint(Bson::from("name_1"))
    ///     .build();
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    DeleteOneModel, built by DeleteOneModelBuilder, DeleteOne,
    listed by delete_one_model_options {
        /// The filter.
        filter: Document,;
        /// The rules by which texts are compared.
        collation: Document,
        /// The index that the server uses: its keys or its name.
        hint: Bson,
    }

    /// Deletes all documents that match a filter.
    ///
    /// ```
    /// use bson::{Bson, doc};
    /// use onionskin_core::operation::crud::{DeleteManyModel, Namespace};
    ///
    /// let delete = DeleteManyModel::builder()
    ///     .namespace(Namespace::new("app", "people"))
    ///     .filter(doc! { "name": "ada" })
    ///     .collation(doc! { "locale": "en", "strength": 2 })
    ///     .hint(Bson::from("name_1"))
    ///     .build();
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    DeleteManyModel, built by DeleteManyModelBuilder, DeleteMany,
    listed by delete_many_model_options {
        /// The filter.
        filter: Document,;
        /// The rules by which texts are compared.
        collation: Document,
        /// The index that the server uses: its keys or its name.
        hint: Bson,
    }
}

/// The kind of an operation, for its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Insert,
    Update,
    Delete,
}

/// The form in which a command has its operations.
pub(super) struct Form {
    filter: &'static str,
    update: &'static str,
    /// True if a delete has a `limit` instead of `multi`.
    has_limit: bool,
}

/// The form of the command `bulkWrite`.
pub(super) const OPERATION: Form = Form {
    filter: "filter",
    update: "updateMods",
    has_limit: false,
};

/// The form of the commands `update` and `delete`.
pub(super) const STATEMENT: Form = Form {
    filter: "q",
    update: "u",
    has_limit: true,
};

impl WriteModel {
    /// Returns the kind of the operation.
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::InsertOne(_) => Kind::Insert,
            Self::UpdateOne(_) | Self::UpdateMany(_) | Self::ReplaceOne(_) => Kind::Update,
            Self::DeleteOne(_) | Self::DeleteMany(_) => Kind::Delete,
        }
    }

    /// True if the operation has a hint.
    pub(super) const fn has_hint(&self) -> bool {
        match self {
            Self::InsertOne(_) => false,
            Self::UpdateOne(model) => model.hint.is_some(),
            Self::UpdateMany(model) => model.hint.is_some(),
            Self::ReplaceOne(model) => model.hint.is_some(),
            Self::DeleteOne(model) => model.hint.is_some(),
            Self::DeleteMany(model) => model.hint.is_some(),
        }
    }

    /// True if the operation can affect several documents.
    pub(super) const fn is_multi(&self) -> bool {
        matches!(self, Self::UpdateMany(_) | Self::DeleteMany(_))
    }
}

impl UpdateOneModel {
    pub(super) fn write(&self, writer: &mut DocumentWriter<'_>, form: &Form) -> Result<(), Error> {
        form.update(writer, &self.filter, &self.update, false)?;
        option(writer, "upsert", self.upsert.as_ref())?;
        option(writer, "sort", self.sort.as_ref())?;
        let filters = self.array_filters.clone().map(Bson::Array);
        option(writer, "arrayFilters", filters.as_ref())?;
        option(writer, "hint", self.hint.as_ref())?;
        option(writer, "collation", self.collation.as_ref())
    }
}

impl UpdateManyModel {
    pub(super) fn write(&self, writer: &mut DocumentWriter<'_>, form: &Form) -> Result<(), Error> {
        form.update(writer, &self.filter, &self.update, true)?;
        option(writer, "upsert", self.upsert.as_ref())?;
        let filters = self.array_filters.clone().map(Bson::Array);
        option(writer, "arrayFilters", filters.as_ref())?;
        option(writer, "hint", self.hint.as_ref())?;
        option(writer, "collation", self.collation.as_ref())
    }
}

impl ReplaceOneModel {
    pub(super) fn write(&self, writer: &mut DocumentWriter<'_>, form: &Form) -> Result<(), Error> {
        let first = self.replacement.keys().next();
        if first.is_some_and(|key| key.starts_with('$')) {
            return Err(Error::argument(REPLACEMENT_WITH_OPERATORS));
        }
        writer
            .subtree(form.filter, &self.filter)?
            .subtree(form.update, &self.replacement)?
            .bool("multi", false);
        option(writer, "upsert", self.upsert.as_ref())?;
        option(writer, "sort", self.sort.as_ref())?;
        option(writer, "hint", self.hint.as_ref())?;
        option(writer, "collation", self.collation.as_ref())
    }
}

impl DeleteOneModel {
    pub(super) fn write(&self, writer: &mut DocumentWriter<'_>, form: &Form) -> Result<(), Error> {
        form.delete(writer, &self.filter, false)?;
        option(writer, "hint", self.hint.as_ref())?;
        option(writer, "collation", self.collation.as_ref())
    }
}

impl DeleteManyModel {
    pub(super) fn write(&self, writer: &mut DocumentWriter<'_>, form: &Form) -> Result<(), Error> {
        form.delete(writer, &self.filter, true)?;
        option(writer, "hint", self.hint.as_ref())?;
        option(writer, "collation", self.collation.as_ref())
    }
}

impl Form {
    fn update(
        &self,
        writer: &mut DocumentWriter<'_>,
        filter: &Document,
        changes: &UpdateModifications,
        multi: bool,
    ) -> Result<(), Error> {
        changes.check()?;
        writer.subtree(self.filter, filter)?;
        changes.write(self.update, writer)?;
        writer.bool("multi", multi);
        Ok(())
    }

    fn delete(
        &self,
        writer: &mut DocumentWriter<'_>,
        filter: &Document,
        multi: bool,
    ) -> Result<(), Error> {
        writer.subtree(self.filter, filter)?;
        match self.has_limit {
            true => writer.i32("limit", if multi { 0 } else { 1 }),
            false => writer.bool("multi", multi),
        };
        Ok(())
    }
}

fn option(
    writer: &mut DocumentWriter<'_>,
    key: &str,
    value: Option<&impl OptionValue>,
) -> Result<(), Error> {
    value.map_or(Ok(()), |value| value.write(key, writer))
}
