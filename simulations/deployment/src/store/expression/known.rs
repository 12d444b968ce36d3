//! The operators of expressions, and what each takes as its operand.

use super::named::{self, Named};
use crate::store::release::{Name, Release, name};

/// The form of an operator's operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
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
    /// Any value, because a server has the operator and the simulated server does not.
    Refused,
}

/// How many operands an operator takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
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
pub(crate) const OPERATORS: &[Name<Form>] = &[
    name("$abs", ONE),
    name("$acos", ONE),
    name("$acosh", ONE),
    name("$add", ANY),
    name("$allElementsTrue", ONE),
    name("$and", ANY),
    name("$anyElementTrue", ONE),
    name("$arrayElemAt", TWO),
    name("$arrayToObject", ONE),
    name("$asin", ONE),
    name("$asinh", ONE),
    name("$atan", ONE),
    name("$atan2", TWO),
    name("$atanh", ONE),
    name("$avg", ANY),
    name("$binarySize", ONE).since(4, 4, 0),
    name("$bitAnd", Form::Refused).since(6, 3, 0),
    name("$bitNot", Form::Refused).since(6, 3, 0),
    name("$bitOr", Form::Refused).since(6, 3, 0),
    name("$bitXor", Form::Refused).since(6, 3, 0),
    name("$bsonSize", ONE).since(4, 4, 0),
    name("$ceil", ONE),
    name("$cmp", TWO),
    name("$concat", ANY),
    name("$concatArrays", ANY),
    name("$cond", Form::Either(named::COND, Count::Exactly(3))),
    name("$convert", Form::Named(named::CONVERT)),
    name("$cos", ONE),
    name("$cosh", ONE),
    name("$dateAdd", Form::Named(named::DATE_ADD)).since(5, 0, 0),
    name("$dateDiff", Form::Named(named::DATE_DIFF)).since(5, 0, 0),
    name("$dateFromParts", Form::Named(named::DATE_FROM_PARTS)),
    name("$dateFromString", Form::Named(named::DATE_FROM_STRING)),
    name("$dateSubtract", Form::Named(named::DATE_ADD)).since(5, 0, 0),
    name("$dateToParts", Form::Named(named::DATE_TO_PARTS)),
    name("$dateToString", Form::Named(named::DATE_TO_STRING)),
    name("$dateTrunc", Form::Named(named::DATE_TRUNC)).since(5, 0, 0),
    name("$dayOfMonth", DATE_PART),
    name("$dayOfWeek", DATE_PART),
    name("$dayOfYear", DATE_PART),
    name("$degreesToRadians", ONE),
    name("$divide", TWO),
    name("$eq", TWO),
    name("$exp", ONE),
    name("$filter", Form::Named(named::FILTER_ALL)).until(5, 2, 0),
    name("$filter", Form::Named(named::FILTER)).since(5, 2, 0),
    name("$first", ONE).since(4, 4, 0),
    name("$firstN", Form::Named(named::FIRST_N)).since(5, 2, 0),
    name("$floor", ONE),
    name("$function", Form::Refused).since(4, 4, 0),
    name("$getField", Form::Either(named::GET_FIELD, Count::Any)).since(5, 0, 0),
    name("$gt", TWO),
    name("$gte", TWO),
    name("$hour", DATE_PART),
    name("$ifNull", TWO).until(5, 0, 0),
    name("$ifNull", Form::List(Count::AtLeastTwo(1_257_300))).since(5, 0, 0),
    name("$in", TWO),
    name("$indexOfArray", Form::List(Count::Between(2, 4))),
    name("$indexOfBytes", Form::List(Count::Between(2, 4))),
    name("$indexOfCP", Form::List(Count::Between(2, 4))),
    name("$isArray", ONE),
    name("$isNumber", ONE).since(4, 4, 0),
    name("$isoDayOfWeek", DATE_PART),
    name("$isoWeek", DATE_PART),
    name("$isoWeekYear", DATE_PART),
    name("$last", ONE).since(4, 4, 0),
    name("$lastN", Form::Named(named::FIRST_N)).since(5, 2, 0),
    name("$let", Form::Named(named::LET)),
    name("$literal", Form::Free),
    name("$ln", ONE),
    name("$log", TWO),
    name("$log10", ONE),
    name("$lt", TWO),
    name("$lte", TWO),
    name("$ltrim", Form::Named(named::TRIM)),
    name("$map", Form::Named(named::MAP)),
    name("$max", ANY),
    name("$maxN", Form::Named(named::MIN_N)).since(5, 2, 0),
    name("$median", Form::Refused).since(7, 0, 0),
    name("$mergeObjects", ANY),
    name("$meta", Form::Refused),
    name("$millisecond", DATE_PART),
    name("$min", ANY),
    name("$minN", Form::Named(named::MIN_N)).since(5, 2, 0),
    name("$minute", DATE_PART),
    name("$mod", TWO),
    name("$month", DATE_PART),
    name("$multiply", ANY),
    name("$ne", TWO),
    name("$not", ONE),
    name("$objectToArray", ONE),
    name("$or", ANY),
    name("$percentile", Form::Refused).since(7, 0, 0),
    name("$pow", TWO),
    name("$radiansToDegrees", ONE),
    name("$rand", Form::Nothing).since(4, 4, 2),
    name("$range", Form::List(Count::Between(2, 3))),
    name("$reduce", Form::Named(named::REDUCE)),
    name("$regexFind", Form::Named(named::REGEX)),
    name("$regexFindAll", Form::Named(named::REGEX)),
    name("$regexMatch", Form::Named(named::REGEX)),
    name("$replaceAll", Form::Named(named::REPLACE)).since(4, 4, 0),
    name("$replaceOne", Form::Named(named::REPLACE)).since(4, 4, 0),
    name("$reverseArray", ONE),
    name("$round", Form::List(Count::Between(1, 2))),
    name("$rtrim", Form::Named(named::TRIM)),
    name("$sampleRate", Form::Refused),
    name("$second", DATE_PART),
    name("$setDifference", TWO),
    name("$setEquals", Form::List(Count::AtLeastTwo(17045))),
    name("$setField", Form::Named(named::SET_FIELD)).since(5, 0, 0),
    name("$setIntersection", ANY),
    name("$setIsSubset", TWO),
    name("$setUnion", ANY),
    name("$sin", ONE),
    name("$sinh", ONE),
    name("$size", ONE),
    name("$slice", Form::List(Count::Between(2, 3))),
    name("$sortArray", Form::Named(named::SORT_ARRAY)).since(5, 2, 0),
    name("$split", TWO),
    name("$sqrt", ONE),
    name("$stdDevPop", ANY),
    name("$stdDevSamp", ANY),
    name("$strLenBytes", ONE),
    name("$strLenCP", ONE),
    name("$strcasecmp", TWO),
    name("$substr", THREE),
    name("$substrBytes", THREE),
    name("$substrCP", THREE),
    name("$subtract", TWO),
    name("$sum", ANY),
    name("$switch", Form::Named(named::SWITCH)),
    name("$tan", ONE),
    name("$tanh", ONE),
    name("$toBool", CONVERSION),
    name("$toDate", CONVERSION),
    name("$toDecimal", CONVERSION),
    name("$toDouble", CONVERSION),
    name("$toHashedIndexKey", Form::Refused),
    name("$toInt", CONVERSION),
    name("$toLong", CONVERSION),
    name("$toLower", ONE),
    name("$toObjectId", CONVERSION),
    name("$toString", CONVERSION),
    name("$toUUID", Form::Refused).since(8, 0, 0),
    name("$toUpper", ONE),
    name("$trim", Form::Named(named::TRIM)),
    name("$trunc", Form::List(Count::Between(1, 2))),
    name("$tsIncrement", ONE).since(5, 1, 0),
    name("$tsSecond", ONE).since(5, 1, 0),
    name("$type", ONE),
    name("$unsetField", Form::Named(named::UNSET_FIELD)).since(5, 0, 0),
    name("$week", DATE_PART),
    name("$year", DATE_PART),
    name("$zip", Form::Named(named::ZIP)),
];

/// Returns what an operator takes in a release, or `None` if there is no such operator.
pub(super) fn form_of(operator: &str, release: Release) -> Option<Form> {
    let start = OPERATORS.partition_point(|entry| entry.name < operator);
    Name::find(&OPERATORS[start..], operator, release)
}

impl Form {
    /// True for an operator that the simulated server has.
    #[cfg(test)]
    pub(crate) const fn is_known(&self) -> bool {
        !matches!(self, Self::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_found_in_the_order_of_their_names() {
        assert!(OPERATORS.is_sorted_by_key(|entry| entry.name));
        for operator in OPERATORS {
            assert!(form_of(operator.name, Release::default()).is_some());
        }
        assert!(form_of("$none", Release::default()).is_none());
    }
}
