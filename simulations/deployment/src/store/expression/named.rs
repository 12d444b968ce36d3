//! The named arguments of the operators of expressions that take a document.

use bson::{Bson, Document};

use crate::store::Answer;
use crate::store::error::StoreError;

/// The arguments of an operator, and the codes of the errors for a wrong operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// The code for an operand that is no document.
    no_document: i32,
    /// The code for an argument that the operator does not have.
    unknown: i32,
    /// The arguments that must be given, each with the code for its absence.
    required: &'static [(&'static str, i32)],
    optional: &'static [&'static str],
}

impl Named {
    /// Returns the arguments of an operator if it has all that it needs, and no others.
    pub(super) fn check<'a>(&self, operator: &str, operand: &'a Bson) -> Answer<&'a Document> {
        let Bson::Document(given) = operand else {
            let text = format!("{operator} only supports an object as its argument");
            return Err(StoreError::new(self.no_document, text));
        };
        let is_known = |name: &str| {
            let mut required = self.required.iter();
            required.any(|(known, _)| *known == name) || self.optional.contains(&name)
        };
        if let Some(other) = given.keys().find(|name| !is_known(name)) {
            let text = match operator {
                "$cond" | "$filter" | "$let" | "$map" => {
                    format!("Unrecognized parameter to {operator}: {other}")
                }
                "$firstN" | "$lastN" | "$minN" | "$maxN" => {
                    format!("Unknown argument for 'n' operator: {other}")
                }
                "$top" | "$bottom" | "$topN" | "$bottomN" => {
                    format!("Unknown argument to {operator} '{other}'")
                }
                _ if operator.starts_with("$date") => {
                    format!("Unrecognized argument to {operator}: {other}")
                }
                _ => format!("{operator} found an unknown argument: {other}"),
            };
            return Err(StoreError::new(self.unknown, text));
        }
        let mut required = self.required.iter();
        match required.find(|(name, _)| !given.contains_key(name)) {
            None => Ok(given),
            Some((name, code)) => {
                let text = match operator {
                    "$cond" | "$filter" | "$let" | "$map" | "$convert" => {
                        format!("Missing '{name}' parameter to {operator}")
                    }
                    "$top" | "$bottom" | "$topN" | "$bottomN" | "$firstN" | "$lastN" | "$minN"
                    | "$maxN" => format!("Missing value for '{name}'"),
                    "$switch" => "$switch requires at least one branch".to_owned(),
                    _ => format!("{operator} requires '{name}' to be specified"),
                };
                Err(StoreError::new(*code, text))
            }
        }
    }
}

pub(super) const FILTER: Named = Named {
    optional: &["as", "limit"],
    ..FILTER_ALL
};

/// The arguments of `$filter` before its `limit`.
pub(super) const FILTER_ALL: Named = Named {
    no_document: 28646,
    unknown: 28647,
    required: &[("input", 28648), ("cond", 28650)],
    optional: &["as"],
};

pub(super) const MAP: Named = Named {
    no_document: 16878,
    unknown: 16879,
    required: &[("input", 16880), ("in", 16882)],
    optional: &["as"],
};

pub(super) const REDUCE: Named = Named {
    no_document: 40075,
    unknown: 40076,
    required: &[("input", 40077), ("initialValue", 40078), ("in", 40079)],
    optional: &[],
};

pub(super) const LET: Named = Named {
    no_document: 16874,
    unknown: 16875,
    required: &[("vars", 16876), ("in", 16877)],
    optional: &[],
};

pub(super) const COND: Named = Named {
    no_document: 16020,
    unknown: 17083,
    required: &[("if", 17080), ("then", 17081), ("else", 17082)],
    optional: &[],
};

pub(super) const SWITCH: Named = Named {
    no_document: 40060,
    unknown: 40067,
    required: &[("branches", 40068)],
    optional: &["default"],
};

pub(super) const BRANCH: Named = Named {
    no_document: 40062,
    unknown: 40063,
    required: &[("case", 40064), ("then", 40065)],
    optional: &[],
};

pub(super) const CONVERT: Named = Named {
    no_document: 9,
    unknown: 9,
    required: &[("input", 9), ("to", 9)],
    optional: &["onError", "onNull"],
};

pub(super) const TRIM: Named = Named {
    no_document: 50696,
    unknown: 50694,
    required: &[("input", 50695)],
    optional: &["chars"],
};

pub(super) const REGEX: Named = Named {
    no_document: 51103,
    unknown: 31024,
    required: &[("input", 31022), ("regex", 31023)],
    optional: &["options"],
};

pub(super) const REPLACE: Named = Named {
    no_document: 51751,
    unknown: 51750,
    required: &[("input", 51749), ("find", 51748), ("replacement", 51747)],
    optional: &[],
};

pub(super) const ZIP: Named = Named {
    no_document: 34460,
    unknown: 34464,
    required: &[("inputs", 34465)],
    optional: &["useLongestLength", "defaults"],
};

pub(super) const SORT_ARRAY: Named = Named {
    no_document: 2_942_500,
    unknown: 2_942_501,
    required: &[("input", 2_942_502), ("sortBy", 2_942_503)],
    optional: &[],
};

pub(crate) const FIRST_N: Named = Named {
    no_document: 5_787_801,
    unknown: 5_787_901,
    required: &[("n", 5_787_906), ("input", 5_787_907)],
    optional: &[],
};

pub(crate) const MIN_N: Named = Named {
    no_document: 5_787_900,
    unknown: 5_787_901,
    required: &[("n", 5_787_906), ("input", 5_787_907)],
    optional: &[],
};

pub(crate) const TOP: Named = Named {
    no_document: 5_788_001,
    unknown: 5_788_002,
    required: &[("output", 5_788_004), ("sortBy", 5_788_005)],
    optional: &[],
};

pub(crate) const TOP_N: Named = Named {
    required: &[
        ("n", 5_788_003),
        ("output", 5_788_004),
        ("sortBy", 5_788_005),
    ],
    ..TOP
};

pub(super) const GET_FIELD: Named = Named {
    no_document: 3_041_701,
    unknown: 3_041_701,
    required: &[("field", 3_041_702), ("input", 3_041_703)],
    optional: &[],
};

pub(super) const SET_FIELD: Named = Named {
    no_document: 4_161_100,
    unknown: 4_161_101,
    required: &[
        ("field", 4_161_102),
        ("value", 4_161_103),
        ("input", 4_161_109),
    ],
    optional: &[],
};

pub(super) const UNSET_FIELD: Named = Named {
    no_document: 4_161_100,
    unknown: 4_161_101,
    required: &[("field", 4_161_102), ("input", 4_161_109)],
    optional: &[],
};

pub(super) const DATE_PART: Named = Named {
    no_document: 40536,
    unknown: 40535,
    required: &[("date", 40539)],
    optional: &["timezone"],
};

pub(super) const DATE_TO_STRING: Named = Named {
    no_document: 18629,
    unknown: 18534,
    required: &[("date", 18628)],
    optional: &["format", "timezone", "onNull"],
};

pub(super) const DATE_TO_PARTS: Named = Named {
    no_document: 40524,
    unknown: 40520,
    required: &[("date", 40522)],
    optional: &["timezone", "iso8601"],
};

pub(super) const DATE_FROM_STRING: Named = Named {
    no_document: 40540,
    unknown: 40541,
    required: &[("dateString", 40542)],
    optional: &["format", "timezone", "onError", "onNull"],
};

pub(super) const DATE_FROM_PARTS: Named = Named {
    no_document: 40519,
    unknown: 40518,
    required: &[],
    optional: &[
        "year",
        "month",
        "day",
        "isoWeekYear",
        "isoWeek",
        "isoDayOfWeek",
        "hour",
        "minute",
        "second",
        "millisecond",
        "timezone",
    ],
};

pub(super) const DATE_ADD: Named = Named {
    no_document: 5_166_400,
    unknown: 5_166_401,
    required: &[
        ("startDate", 5_166_402),
        ("unit", 5_166_402),
        ("amount", 5_166_402),
    ],
    optional: &["timezone"],
};

pub(super) const DATE_DIFF: Named = Named {
    no_document: 5_166_301,
    unknown: 5_166_302,
    required: &[
        ("startDate", 5_166_303),
        ("endDate", 5_166_304),
        ("unit", 5_166_305),
    ],
    optional: &["timezone", "startOfWeek"],
};

pub(super) const DATE_TRUNC: Named = Named {
    no_document: 5_439_007,
    unknown: 5_439_008,
    required: &[("date", 5_439_009), ("unit", 5_439_010)],
    optional: &["binSize", "timezone", "startOfWeek"],
};
