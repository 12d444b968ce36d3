//! What the server answers when it cannot do what it was asked.

use bson::{Bson, Document, doc};

/// A command's or a statement's failure, with the server's code, name and wording.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreError {
    /// The number that drivers compare.
    pub code: i32,
    /// The code's symbolic name, as in `codeName`.
    pub code_name: &'static str,
    /// The text, as in `errmsg`.
    pub message: String,
    /// Further top-level fields, such as `keyPattern` and `keyValue` of a duplicate key.
    pub details: Document,
}

impl StoreError {
    /// An error with a code and a message; the name follows from the code.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            code_name: code_name(code),
            message: message.into(),
            details: Document::new(),
        }
    }

    /// The body of a failed command's reply: `ok`, `errmsg`, `code`, `codeName` and details.
    #[must_use]
    pub fn to_reply(&self) -> Document {
        let mut reply = doc! {
            "ok": 0.0,
            "errmsg": self.message.as_str(),
            "code": self.code,
            "codeName": self.code_name,
        };
        reply.extend(self.details.clone());
        reply
    }

    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    pub(crate) fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(9, message)
    }

    pub(crate) fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(14, message)
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Bson>) -> Self {
        self.details.insert(key, value);
        self
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.code_name, self.code, self.message)
    }
}

impl std::error::Error for StoreError {}

/// One statement's failure within a write command, an entry of `writeErrors`.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteError {
    /// The statement's place in the command, from 0.
    pub index: usize,
    /// What was wrong with it.
    pub error: StoreError,
}

impl WriteError {
    /// The entry as it stands in `writeErrors`.
    #[must_use]
    pub fn to_document(&self) -> Document {
        let index = i32::try_from(self.index).unwrap_or(i32::MAX);
        let mut entry = doc! { "index": index, "code": self.error.code };
        entry.extend(self.error.details.clone());
        entry.insert("errmsg", self.error.message.as_str());
        entry
    }
}

/// The server's name for a code; codes without a name of their own are `Location<code>` there, and
/// the ones that this store raises are listed.
fn code_name(code: i32) -> &'static str {
    match code {
        1 => "InternalError",
        2 => "BadValue",
        9 => "FailedToParse",
        14 => "TypeMismatch",
        15 => "Overflow",
        17 => "InvalidLength",
        20 => "IllegalOperation",
        26 => "NamespaceNotFound",
        27 => "IndexNotFound",
        28 => "PathNotViable",
        40 => "ConflictingUpdateOperators",
        43 => "CursorNotFound",
        48 => "NamespaceExists",
        52 => "DollarPrefixedFieldName",
        53 => "InvalidIdField",
        54 => "NotSingleValueField",
        56 => "EmptyFieldName",
        57 => "DottedFieldName",
        61 => "ShardKeyNotFound",
        66 => "ImmutableField",
        67 => "CannotCreateIndex",
        68 => "IndexAlreadyExists",
        72 => "InvalidOptions",
        73 => "InvalidNamespace",
        85 => "IndexOptionsConflict",
        86 => "IndexKeySpecsConflict",
        166 => "CommandNotSupportedOnView",
        168 => "InvalidPipelineOperator",
        197 => "InvalidIndexSpecificationOption",
        241 => "ConversionFailure",
        11000 => "DuplicateKey",
        10334 => "BSONObjectTooLarge",
        _ => location::name(code),
    }
}

mod location {
    macro_rules! names {
        ($($code:literal)*) => {
            /// The name of an assertion's location.
            pub(super) fn name(code: i32) -> &'static str {
                match code {
                    $($code => concat!("Location", $code),)*
                    _ => "Location",
                }
            }
        };
    }

    names! {
        10065 10003 15947 15951 15952 15955 15956 15957 15958 15959 15969 15972 15973 15974 15976
        15981 15983 15998 16020 16406 16410 16436 16554 16555 16556 16608 16609 16610 16611 16702
        16867 16868 16869 16870 16871 16872 16873 16874 16875 16876 16877 16878 16879 16880 16882
        17040 17041 17042 17043 17044 17053 17080 17081 17082 17124 17276 17308 17312 28646 28647
        28648 28650 28651 28667 28680 28689 28690 28691 28714 28724 28727 28728 28745 28746 28747
        28748 28803 28808 28809 28810 28811 28812 28818 28822 31002 31022 31026 31032 31034 31047
        31048 31049 31109 31119 31120 31121 31249 31250 31253 31254 31255 31256 31271 31272 31273
        31274 31275 31276 31308 31324 31325 31394 31395 34435 34443 34444 34445 34446 34447 34448
        34449 34450 34451 34452 34453 34454 34455 34460 34461 34462 34463 34464 34465 34466 34467
        34468 34471 34473 40060 40061 40062 40063 40064 40065 40066 40067 40068 40075 40076 40077
        40078 40079 40080 40081 40085 40086 40087 40090 40091 40092 40093 40094 40096 40097 40100
        40101 40102 40147 40148 40149 40156 40157 40158 40160 40168 40169 40176 40177 40178 40179
        40180 40181 40185 40191 40228 40230 40231 40232 40234 40235 40236 40237 40238 40239 40240
        40272 40305 40306 40307 40308 40309 40313 40314 40316 40317 40318 40319 40320 40321 40322
        40323 40324 40352 40353 40386 40390 40391 40392 40393 40394 40397 40398 40400 40414 40415
        40454 40539 40540 40541 40542 40543 40544 40601 40602 40621 40674 40684 50692 50694 50696
        50700 50723 50752 50840 51024 51044 51045 51046 51047 51083 51091 51103 51104 51105 51106
        51107 51108 51109 51110 51111 51132 51156 51178 51183 51190 51191 51199 51246 51247 51270
        51271 51272 51276
    }
}
