//! Tests of expressions that convert values.

use super::expressions::{check, check_errors, evaluated};
use super::*;

fn dec(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}

#[test]
fn numbers_are_printed_and_parsed_as_the_server_does() {
    check([
        (bson!({ "$toString": 1e20 }), bson!("1e+20")),
        (bson!({ "$toString": 1.5 }), bson!("1.5")),
        (bson!({ "$toString": 100_000.0 }), bson!("100000")),
        (bson!({ "$toString": 0.1 }), bson!("0.1")),
        (bson!({ "$toString": -0.000_012 }), bson!("-1.2e-05")),
        (bson!({ "$toString": f64::INFINITY }), bson!("Infinity")),
        (
            bson!({ "$toString": f64::NEG_INFINITY }),
            bson!("-Infinity"),
        ),
        (bson!({ "$toString": f64::NAN }), bson!("NaN")),
        (bson!({ "$toDouble": "-0x10" }), bson!(-16.0)),
        (bson!({ "$toDouble": "0X1f" }), bson!(31.0)),
        (bson!({ "$toDouble": "1e3" }), bson!(1000.0)),
        (
            bson!({ "$toDouble": "-Infinity" }),
            bson!(f64::NEG_INFINITY),
        ),
        (bson!({ "$toDecimal": at(5) }), dec("5")),
        (bson!({ "$toDecimal": "1.50" }), dec("1.50")),
        (
            bson!({ "$toDecimal": "-1.23456789012345678901234567890123456" }),
            dec("-1.234567890123456789012345678901235"),
        ),
        (bson!({ "$toLong": at(5) }), bson!(5_i64)),
        (bson!({ "$toDouble": at(5) }), bson!(5.0)),
    ]);
    check_errors([
        (bson!({ "$toDouble": "1e400" }), 241),
        (bson!({ "$toDecimal": "" }), 241),
        (bson!({ "$toDecimal": "1.5x" }), 241),
        (bson!({ "$toDecimal": "1E+7000" }), 241),
        (bson!({ "$toDecimal": "1E-7000" }), 241),
        (bson!({ "$toDouble": "0x10" }), 241),
        (bson!({ "$toDouble": "0X" }), 241),
        (bson!({ "$toInt": at(5) }), 241),
    ]);
}

#[test]
fn conversions_that_fail_name_the_value_and_the_reason() {
    let large = 1_i64 << 40;
    for (expression, expected) in [
        (
            bson!({ "$toInt": large }),
            "Conversion would overflow target type in $convert with no onError value: \
             1099511627776",
        ),
        (
            bson!({ "$toLong": 1e20 }),
            "Conversion would overflow target type in $convert with no onError value: 1e+20",
        ),
        (
            bson!({ "$toInt": f64::NAN }),
            "Attempt to convert NaN value to integer type in $convert with no onError value",
        ),
        (
            bson!({ "$toLong": f64::INFINITY }),
            "Attempt to convert infinity value to integer type in $convert with no onError value",
        ),
        (
            bson!({ "$toObjectId": "x" }),
            "Failed to parse objectId 'x' in $convert with no onError value: Invalid string \
             length for parsing to OID, expected 24 but found 1",
        ),
        (
            bson!({ "$toObjectId": "z".repeat(24) }),
            "Invalid character found in hex string: z",
        ),
        (
            bson!({ "$toInt": at(5) }),
            "Unsupported conversion from date to int in $convert with no onError value",
        ),
    ] {
        let error = evaluated(expression.clone()).expect_err("an error");
        assert_eq!(error.code, 241, "{expression}");
        assert!(error.message.ends_with(expected), "{expression}: {error}");
    }
    for (name, text, expected) in [
        ("$toInt", "", "No digits"),
        ("$toInt", "1099511627776", "Overflow"),
        ("$toLong", "12,50", "Did not consume whole string."),
        ("$toDouble", "", "Empty string"),
        ("$toDouble", " 5", "Leading whitespace"),
        ("$toDouble", "abc", "Did not consume any digits"),
        ("$toDouble", "1_000", "Did not consume whole string."),
        ("$toDouble", "1e400", "Out of range"),
        ("$toDecimal", "1.5x", "Failed to parse string to decimal"),
    ] {
        let error = evaluated(doc! { name: text }.into()).expect_err("an error");
        let expected = format!(
            "Failed to parse number '{text}' in $convert with no onError value: {expected}"
        );
        assert!(error.message.ends_with(&expected), "{error}");
    }
    let error = evaluated(bson!({ "$toInt": "0x10" })).expect_err("an error");
    let expected = "Illegal hexadecimal input in $convert with no onError value: 0x10";
    assert!(error.message.ends_with(expected), "{error}");
}

fn at(millis: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis(millis))
}

#[test]
fn dates_are_made_of_whole_numbers_but_not_of_an_int() {
    check([
        (bson!({ "$toDate": 5_i64 }), at(5)),
        (bson!({ "$toDate": -1.5 }), at(-1)),
        (bson!({ "$toDate": dec("1.5") }), at(1)),
    ]);
    check_errors([
        (bson!({ "$toDate": 1 }), 241),
        (bson!({ "$toDate": true }), 241),
        (bson!({ "$toDate": 1e300 }), 241),
    ]);
}

#[test]
fn dates_are_parsed_from_many_forms_of_text() {
    let last = 1_609_372_800_000;
    let first = 1_577_836_800_000;
    for (text, millis) in [
        ("12/31/2020", last),
        ("12/31/2020 10:30", last + 37_800_000),
        ("1/1/2020", first),
        ("2020/12/31", last),
        ("2020-1-1", first),
        ("2020-01", first),
        ("Dec 31 2020", last),
        ("DECEMBER 31, 2020", last),
        ("31 Dec 2020", last),
        ("@0", 0),
        ("@-1", -1000),
        ("@1577836800.5", first + 500),
        ("20200101T120000", first + 43_200_000),
        ("2020-W01-1", first - 2 * 86_400_000),
        ("2020-01-01T00", first),
        ("2020-01-01\t", first),
        ("2020-01-01T", first + 7 * 3_600_000),
        ("2020-01-01a", first - 3_600_000),
        ("2020-01-01 10:30:00.123456Z", first + 37_800_123),
    ] {
        check([(bson!({ "$toDate": text }), at(millis))]);
    }
    for text in [
        "31/12/2020",
        "12/32/2020",
        "2020-02-30",
        "2020-01-01J",
        "2020",
        "",
        "  ",
        "Dec",
        "@",
        "2020-W54-1",
        "not a date",
    ] {
        check_errors([(bson!({ "$toDate": text }), 241)]);
    }
}

#[test]
fn the_type_of_a_conversion_must_exist() {
    let to = |to: Bson| bson!({ "$convert": { "input": "1", "to": to } });
    check([
        (to(bson!(16.0)), bson!(1)),
        (to(bson!("double")), bson!(1.0)),
        (to(Bson::Null), Bson::Null),
        (
            bson!({ "$convert": { "input": "x", "to": "int", "onError": "bad" } }),
            bson!("bad"),
        ),
    ]);
    check_errors([
        (to(bson!("number")), 2),
        (to(bson!(true)), 9),
        (to(bson!(1.5)), 9),
        (to(bson!(99)), 9),
    ]);
}

#[test]
fn operators_on_strings_convert_some_types() {
    let time = Timestamp {
        time: 1,
        increment: 26,
    };
    check([
        (bson!({ "$toLower": time }), bson!("jan  1 00:00:01:1a")),
        (bson!({ "$toUpper": 1e20 }), bson!("1E+20")),
        (bson!({ "$toUpper": "$nothing" }), bson!("")),
        (bson!({ "$substr": [123, 1, 2] }), bson!("23")),
        (bson!({ "$strcasecmp": [1.5, 1] }), bson!(1)),
    ]);
    check_errors([
        (bson!({ "$toLower": true }), 16007),
        (bson!({ "$toUpper": "$inner" }), 16007),
        (bson!({ "$strcasecmp": ["a", "$list"] }), 16007),
    ]);
}
