//! The operations of bulk writes (Bulk Write Specification, *Write Models*).

use super::super::{Namespace, UpdateModifications, check_name, encode_insert};
use crate::{bson::DocumentWriter, error::Error, operation::Operations, options::OptionValue};
use bson::{Array, Bson, Document, oid::ObjectId};
use std::collections::BTreeMap;

/// Declares models: a struct, its builder and its variant of [`WriteModel`]. The first fields have
/// to be set; those after the semicolon are options.
macro_rules! models {
    ($(
        $(#[$about:meta])*
        $name:ident, built by $builder:ident, $variant:ident {
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
            pub struct $builder($name);

            impl $builder {
                /// Sets the collection. The bulk write of a client fails without one. That of a
                /// collection needs none.
                pub fn namespace(mut self, value: impl Into<Namespace>) -> Self {
                    self.0.namespace = value.into();
                    self
                }

                $(
                    $(#[$doc])*
                    pub fn $field(mut self, value: impl Into<$type>) -> Self {
                        self.0.$field = value.into();
                        self
                    }
                )*

                $(
                    $(#[$option_doc])*
                    pub fn $option(mut self, value: impl Into<Option<$option_type>>) -> Self {
                        self.0.$option = value.into();
                        self
                    }
                )*

                /// Returns the operation.
                #[must_use]
                pub fn build(self) -> $name {
                    self.0
                }
            }

            impl From<$name> for WriteModel {
                fn from(model: $name) -> Self {
                    Self::$variant(model)
                }
            }
        )*
    };
}

models! {
    /// Inserts a document. If it has no `_id`, the driver adds an ObjectId.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{InsertOneModel, WriteModel};
    ///
    /// let insert = InsertOneModel::builder().document(doc! { "name": "Ada" }).build();
    /// let operations: Vec<WriteModel> = vec![insert.into()];
    /// ```
    InsertOneModel, built by InsertOneModelBuilder, InsertOne {
        /// The document.
        document: Document,;
    }

    /// Changes the first document that matches a filter.
    ///
    /// ```
    /// use bson::doc;
    /// use onionskin_core::operation::crud::UpdateOneModel;
    ///
    /// let update = UpdateOneModel::builder()
    ///     .filter(doc! { "name": "Ada" })
    ///     .update(doc! { "$set": { "active": true } })
    ///     .upsert(true)
    ///     .build();
    /// ```
    UpdateOneModel, built by UpdateOneModelBuilder, UpdateOne {
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
    ///     .filter(doc! { "born": { "$lt": 1900 } })
    ///     .update(doc! { "$set": { "active": false } })
    ///     .hint(Bson::from("born_1"))
    ///     .build();
    /// ```
    UpdateManyModel, built by UpdateManyModelBuilder, UpdateMany {
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
    /// use bson::doc;
    /// use onionskin_core::operation::crud::ReplaceOneModel;
    ///
    /// let replace = ReplaceOneModel::builder()
    ///     .filter(doc! { "name": "Ada" })
    ///     .replacement(doc! { "name": "Ada", "born": 1815 })
    ///     .upsert(true)
    ///     .build();
    /// ```
    ReplaceOneModel, built by ReplaceOneModelBuilder, ReplaceOne {
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
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{DeleteOneModel, Namespace};
    ///
    /// let people = Namespace::new("app", "people")?;
    /// let delete = DeleteOneModel::builder()
    ///     .namespace(people)
    ///     .filter(doc! { "name": "Ada" })
    ///     .build();
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    DeleteOneModel, built by DeleteOneModelBuilder, DeleteOne {
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
    /// use bson::doc;
    /// use onionskin_core::operation::crud::{DeleteManyModel, Namespace};
    ///
    /// let log = Namespace::new("app", "log")?;
    /// let delete = DeleteManyModel::builder().namespace(log).filter(doc! { "old": true }).build();
    /// # Ok::<(), onionskin_core::error::Error>(())
    /// ```
    DeleteManyModel, built by DeleteManyModelBuilder, DeleteMany {
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

/// The encoded operations of a bulk write.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) operations: Operations,
    pub(super) kinds: Vec<Kind>,
    /// The `_id` of each inserted document, by the index of its operation.
    pub(super) ids: BTreeMap<usize, Bson>,
    /// The place of each namespace that was used.
    places: BTreeMap<Namespace, u32>,
}

impl Encoded {
    /// Adds an operation. Fails for an invalid namespace, an update without operators, a
    /// replacement with operators, and a document that cannot be encoded.
    pub(super) fn add(
        &mut self,
        model: &WriteModel,
        new_id: impl FnOnce() -> ObjectId,
    ) -> Result<(), Error> {
        let place = self.place(model.namespace())?;
        let index = self.kinds.len();
        let mut id = None;
        let start = self.operations.bytes.len();
        let mut writer = DocumentWriter::begin(&mut self.operations.bytes);
        let at = i32::try_from(place).unwrap_or(i32::MAX);
        let (key, kind) = match model.kind() {
            kind @ Kind::Insert => ("insert", kind),
            kind @ Kind::Update => ("update", kind),
            kind @ Kind::Delete => ("delete", kind),
        };
        writer.i32(key, at);
        let written = match model {
            WriteModel::InsertOne(model) => {
                insert(&mut writer, model, new_id).map(|made| id = Some(made))
            }
            WriteModel::UpdateOne(model) => model.write(&mut writer, &OPERATION),
            WriteModel::UpdateMany(model) => model.write(&mut writer, &OPERATION),
            WriteModel::ReplaceOne(model) => model.write(&mut writer, &OPERATION),
            WriteModel::DeleteOne(model) => model.write(&mut writer, &OPERATION),
            WriteModel::DeleteMany(model) => model.write(&mut writer, &OPERATION),
        };
        match written {
            Ok(()) => {
                writer.end();
                self.kinds.push(kind);
                self.operations.places.push(place);
                self.ids.extend(id.map(|id| (index, id)));
                if model.is_multi() {
                    self.operations.multi.push(start);
                }
                Ok(())
            }
            Err(error) => {
                self.operations.bytes.truncate(start);
                Err(error)
            }
        }
    }

    fn place(&mut self, namespace: &Namespace) -> Result<u32, Error> {
        if let Some(&place) = self.places.get(namespace) {
            return Ok(place);
        }
        check_name("database", &namespace.db)?;
        check_name("collection", &namespace.coll)?;
        let place = u32::try_from(self.operations.namespaces.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::new();
        let mut writer = DocumentWriter::begin(&mut bytes);
        writer.str("ns", &namespace.to_string());
        writer.end();
        self.operations.namespaces.push(bytes);
        self.places.insert(namespace.clone(), place);
        Ok(place)
    }
}

fn insert(
    writer: &mut DocumentWriter<'_>,
    model: &InsertOneModel,
    new_id: impl FnOnce() -> ObjectId,
) -> Result<Bson, Error> {
    let mut bytes = Vec::new();
    let id = encode_insert(&model.document, &mut bytes, new_id)?;
    let document = bson::RawDocument::from_bytes(&bytes);
    let document = document.map_err(|error| Error::argument(error.to_string()))?;
    writer.document("document", document);
    Ok(id)
}

/// The form in which a command has its operations.
pub(super) struct Form {
    filter: &'static str,
    update: &'static str,
    /// True if a delete has a `limit` instead of `multi`.
    has_limit: bool,
}

/// The form of the command `bulkWrite`.
const OPERATION: Form = Form {
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
            let message = "a replacement is a document, not update operators";
            return Err(Error::argument(message));
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
