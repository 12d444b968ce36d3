//! The operators of expressions, and what each takes as its operand.

use super::named::{self, Named};

/// The form of an operator's operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Any value, which is no expression.
    Free,
    /// An empty document or an empty array.
    Nothing,
    /// A list of operands, or one operand that is no list.
    List(Count),
    /// A document of named arguments.
    Named(Named),
    /// A document of named arguments, or a list of operands.
    Either(Named, Count),
}

/// How many operands an operator takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Any,
    Exactly(usize),
    /// One operand, with the code of the error for another number.
    One(i32),
    /// Two operands or more, with the code of the error for fewer.
    AtLeastTwo(i32),
    Between(usize, usize),
}

const ANY: Form = Form::List(Count::Any);
const ONE: Form = Form::List(Count::Exactly(1));
const TWO: Form = Form::List(Count::Exactly(2));
const THREE: Form = Form::List(Count::Exactly(3));
const DATE_PART: Form = Form::Either(named::DATE_PART, Count::One(40536));
const CONVERSION: Form = Form::List(Count::One(50723));

/// The operators of expressions, in the order of their names.
const OPERATORS: &[(&str, Form)] = &[
    ("$abs", ONE),
    ("$acos", ONE),
    ("$acosh", ONE),
    ("$add", ANY),
    ("$allElementsTrue", ONE),
    ("$and", ANY),
    ("$anyElementTrue", ONE),
    ("$arrayElemAt", TWO),
    ("$arrayToObject", ONE),
    ("$asin", ONE),
    ("$asinh", ONE),
    ("$atan", ONE),
    ("$atan2", TWO),
    ("$atanh", ONE),
    ("$avg", ANY),
    ("$binarySize", ONE),
    ("$bsonSize", ONE),
    ("$ceil", ONE),
    ("$cmp", TWO),
    ("$concat", ANY),
    ("$concatArrays", ANY),
    ("$cond", Form::Either(named::COND, Count::Exactly(3))),
    ("$convert", Form::Named(named::CONVERT)),
    ("$cos", ONE),
    ("$cosh", ONE),
    ("$dateAdd", Form::Named(named::DATE_ADD)),
    ("$dateDiff", Form::Named(named::DATE_DIFF)),
    ("$dateFromParts", Form::Named(named::DATE_FROM_PARTS)),
    ("$dateFromString", Form::Named(named::DATE_FROM_STRING)),
    ("$dateSubtract", Form::Named(named::DATE_ADD)),
    ("$dateToParts", Form::Named(named::DATE_TO_PARTS)),
    ("$dateToString", Form::Named(named::DATE_TO_STRING)),
    ("$dateTrunc", Form::Named(named::DATE_TRUNC)),
    ("$dayOfMonth", DATE_PART),
    ("$dayOfWeek", DATE_PART),
    ("$dayOfYear", DATE_PART),
    ("$degreesToRadians", ONE),
    ("$divide", TWO),
    ("$eq", TWO),
    ("$exp", ONE),
    ("$filter", Form::Named(named::FILTER)),
    ("$first", ONE),
    ("$firstN", Form::Named(named::FIRST_N)),
    ("$floor", ONE),
    ("$getField", Form::Either(named::GET_FIELD, Count::Any)),
    ("$gt", TWO),
    ("$gte", TWO),
    ("$hour", DATE_PART),
    ("$ifNull", Form::List(Count::AtLeastTwo(1_257_300))),
    ("$in", TWO),
    ("$indexOfArray", Form::List(Count::Between(2, 4))),
    ("$indexOfBytes", Form::List(Count::Between(2, 4))),
    ("$indexOfCP", Form::List(Count::Between(2, 4))),
    ("$isArray", ONE),
    ("$isNumber", ONE),
    ("$isoDayOfWeek", DATE_PART),
    ("$isoWeek", DATE_PART),
    ("$isoWeekYear", DATE_PART),
    ("$last", ONE),
    ("$lastN", Form::Named(named::FIRST_N)),
    ("$let", Form::Named(named::LET)),
    ("$literal", Form::Free),
    ("$ln", ONE),
    ("$log", TWO),
    ("$log10", ONE),
    ("$lt", TWO),
    ("$lte", TWO),
    ("$ltrim", Form::Named(named::TRIM)),
    ("$map", Form::Named(named::MAP)),
    ("$max", ANY),
    ("$maxN", Form::Named(named::MIN_N)),
    ("$mergeObjects", ANY),
    ("$millisecond", DATE_PART),
    ("$min", ANY),
    ("$minN", Form::Named(named::MIN_N)),
    ("$minute", DATE_PART),
    ("$mod", TWO),
    ("$month", DATE_PART),
    ("$multiply", ANY),
    ("$ne", TWO),
    ("$not", ONE),
    ("$objectToArray", ONE),
    ("$or", ANY),
    ("$pow", TWO),
    ("$radiansToDegrees", ONE),
    ("$rand", Form::Nothing),
    ("$range", Form::List(Count::Between(2, 3))),
    ("$reduce", Form::Named(named::REDUCE)),
    ("$regexFind", Form::Named(named::REGEX)),
    ("$regexFindAll", Form::Named(named::REGEX)),
    ("$regexMatch", Form::Named(named::REGEX)),
    ("$replaceAll", Form::Named(named::REPLACE)),
    ("$replaceOne", Form::Named(named::REPLACE)),
    ("$reverseArray", ONE),
    ("$round", Form::List(Count::Between(1, 2))),
    ("$rtrim", Form::Named(named::TRIM)),
    ("$second", DATE_PART),
    ("$setDifference", TWO),
    ("$setEquals", Form::List(Count::AtLeastTwo(17045))),
    ("$setField", Form::Named(named::SET_FIELD)),
    ("$setIntersection", ANY),
    ("$setIsSubset", TWO),
    ("$setUnion", ANY),
    ("$sin", ONE),
    ("$sinh", ONE),
    ("$size", ONE),
    ("$slice", Form::List(Count::Between(2, 3))),
    ("$sortArray", Form::Named(named::SORT_ARRAY)),
    ("$split", TWO),
    ("$sqrt", ONE),
    ("$stdDevPop", ANY),
    ("$stdDevSamp", ANY),
    ("$strLenBytes", ONE),
    ("$strLenCP", ONE),
    ("$strcasecmp", TWO),
    ("$substr", THREE),
    ("$substrBytes", THREE),
    ("$substrCP", THREE),
    ("$subtract", TWO),
    ("$sum", ANY),
    ("$switch", Form::Named(named::SWITCH)),
    ("$tan", ONE),
    ("$tanh", ONE),
    ("$toBool", CONVERSION),
    ("$toDate", CONVERSION),
    ("$toDecimal", CONVERSION),
    ("$toDouble", CONVERSION),
    ("$toInt", CONVERSION),
    ("$toLong", CONVERSION),
    ("$toLower", ONE),
    ("$toObjectId", CONVERSION),
    ("$toString", CONVERSION),
    ("$toUpper", ONE),
    ("$trim", Form::Named(named::TRIM)),
    ("$trunc", Form::List(Count::Between(1, 2))),
    ("$tsIncrement", ONE),
    ("$tsSecond", ONE),
    ("$type", ONE),
    ("$unsetField", Form::Named(named::UNSET_FIELD)),
    ("$week", DATE_PART),
    ("$year", DATE_PART),
    ("$zip", Form::Named(named::ZIP)),
];

/// The names of the operators of expressions.
#[cfg(test)]
pub(crate) const KNOWN: &[&str] = &names();

#[cfg(test)]
const fn names() -> [&'static str; OPERATORS.len()] {
    let mut names = [""; OPERATORS.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = OPERATORS[place].0;
        place += 1;
    }
    names
}

/// Returns what an operator takes, or `None` if there is no such operator.
pub(super) fn form_of(name: &str) -> Option<Form> {
    let place = OPERATORS.binary_search_by_key(&name, |(name, _)| *name);
    place.ok().map(|place| OPERATORS[place].1)
}

/// The operators that a server has and the simulated server does not.
pub(super) const REFUSED: &[&str] = &[
    "$function",
    "$meta",
    "$toHashedIndexKey",
    "$median",
    "$percentile",
    "$sampleRate",
    "$accumulator",
    "$bitAnd",
    "$bitOr",
    "$bitXor",
    "$bitNot",
    "$toUUID",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_is_found() {
        for name in KNOWN {
            assert!(form_of(name).is_some(), "{name}");
        }
        assert!(form_of("$none").is_none());
    }
}
