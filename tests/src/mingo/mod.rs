//! Random queries, updates and pipelines, which the store of the simulated server and the npm
//! package mingo answer. The answers must be equal, except where a rule says why mingo differs from
//! a MongoDB server.
//!
//! mingo differs on the following, by the manual of the server, so they are not generated:
//!
//! - Filters: a path through an array that has other elements than documents (mingo takes the
//!   values at the path as one array); null as an operand of an order, and `$type`, `$size`,
//!   `$elemMatch` and `$all` through arrays; `$mod` and `$bitsAllSet`, for which mingo takes all
//!   values as numbers; arrays in `$in`, which mingo does not find.
//! - Orders: mingo sorts the elements of arrays and the fields of documents before it compares
//!   them, and has no place for ObjectIds.
//! - Projections: `$slice` and `$elemMatch` of mingo add null, and `$slice` includes only its
//!   field.
//! - Updates: `$push` with modifiers and `$addToSet` with `$each` on a missing field, which mingo
//!   does not sort, cut or rid of duplicates; `$min` and `$max` of arrays.
//! - Expressions: null and missing values, which mingo orders apart, keeps in documents, and
//!   refuses as arrays and dates; `$indexOfCP`, `$substr` with a negative length, empty texts in
//!   `$replaceOne` and `$replaceAll`, repeated matches of `$regexFindAll`, literal arrays in
//!   `$arrayToObject`, places of `$round` and `$trunc`, the digits of `$toString`, the deviation of
//!   no numbers.
//! - Dates: months and days that overflow, missing parts of `$dateFromParts`, years, quarters,
//!   months, weeks, bins and time zones of `$dateTrunc`, `$dateDiff` in seconds, `$isoWeekYear`,
//!   `$week`, and the formats `%%`, `%U`, `%w` and `%G`.
//! - Pipelines: `$top` and `$bottom` of mingo return arrays; `$unwind` drops empty texts; further
//!   fields of `$set` see the first one; `$lookup` of an array without a match finds null;
//!   `$redact` returns null for a pruned document.

mod compare;
mod dates;
mod expressions;
mod filters;
mod lists;
mod pipelines;
mod rules;
mod source;
mod store;
mod updates;

pub use compare::{Comparison, compare};

use bson::{Bson, Document};
use onionskin_bson::extjson::{self, Mode};
use source::Source;

/// The number of refused cases after which a refused case is returned.
const TRIES: usize = 8;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Filters.
    Filter,
    /// Queries with a sort pattern, a projection, a skip and a limit.
    Find,
    /// Updates.
    Update,
    /// Expressions in `$project`.
    Expression,
    /// Pipelines of several stages.
    Pipeline,
}

/// An operation and the documents to which it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The kind of the operation.
    pub kind: Kind,
    /// The documents of the collection.
    pub documents: Vec<Document>,
    /// The arguments of the operation, with the names that the commands of a server use.
    pub operation: Document,
}

impl Kind {
    /// Lists all kinds.
    pub const ALL: [Self; 5] = [
        Self::Filter,
        Self::Find,
        Self::Update,
        Self::Expression,
        Self::Pipeline,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Find => "find",
            Self::Update => "update",
            Self::Expression => "expression",
            Self::Pipeline => "pipeline",
        }
    }

    /// Returns random cases of this kind. Equal seeds give equal cases.
    #[must_use]
    pub fn cases(self, seed: u64, count: usize) -> Vec<Case> {
        let mut source = Source::new(self.name(), seed);
        (0..count).map(|_| self.case(&mut source)).collect()
    }

    /// Returns a case that the store does not refuse, unless several in a row are refused.
    fn case(self, source: &mut Source) -> Case {
        let mut case = self.any_case(source);
        for _ in 0..TRIES {
            if case.ours().is_ok() {
                break;
            }
            case = self.any_case(source);
        }
        case
    }

    fn any_case(self, source: &mut Source) -> Case {
        source.is_flat = self == Self::Find && source.once_in(2);
        source.is_regular = !source.is_flat && source.once_in(2);
        let mut id = 0;
        let typed = matches!(self, Self::Expression | Self::Pipeline);
        let alone = matches!(self, Self::Update | Self::Expression);
        let most = if alone { 1 } else { 5 };
        let mut documents = source.many(1, most, |source| {
            id += 1;
            match typed {
                true => source.typed_document(id),
                false => source.document(id),
            }
        });
        let operation = match self {
            Self::Filter => filters::query(source),
            Self::Find => filters::find(source),
            Self::Update => updates::update(source, &mut documents[0]),
            Self::Expression => pipelines::expression(source),
            Self::Pipeline => pipelines::pipeline(source),
        };
        Case {
            kind: self,
            documents,
            operation,
        }
    }
}

impl Case {
    /// Returns the case as a line of Extended JSON.
    #[must_use]
    pub fn line(&self) -> String {
        let documents: Vec<_> = self.documents.iter().cloned().map(Bson::from).collect();
        let all = bson::doc! {
            "kind": self.kind.name(),
            "documents": documents,
            "operation": self.operation.clone(),
        };
        extjson::document_to_string(&all, Mode::Canonical).expect("it is BSON")
    }

    /// Returns the documents with which the store of the simulated server answers, or the error.
    ///
    /// # Errors
    ///
    /// If the store refuses the operation.
    pub fn ours(&self) -> Result<Vec<Document>, String> {
        store::run(self).map_err(|error| format!("{} {}", error.code, error.message))
    }
}
