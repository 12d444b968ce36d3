//! Tests of expressions that compute with numbers.

use super::expressions::{check, check_errors};
use super::*;

fn dec(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}

#[test]
fn integers_stay_integers_or_are_refused() {
    check([
        (
            bson!({ "$pow": [3, 38] }),
            bson!(1_350_851_717_672_992_089_i64),
        ),
        (bson!({ "$pow": [2, 31] }), bson!(2_147_483_648_i64)),
        (bson!({ "$pow": [2, 10] }), bson!(1024)),
        (bson!({ "$pow": [2_i64, 10] }), bson!(1024_i64)),
        (bson!({ "$pow": [2, 63] }), bson!(2_f64.powi(63))),
        (bson!({ "$pow": [2, -1] }), bson!(0.5)),
        (bson!({ "$pow": [-1, -3] }), bson!(-1)),
        (bson!({ "$pow": [0, 0] }), bson!(1)),
        (bson!({ "$pow": [i64::MAX, 1] }), bson!(i64::MAX)),
        (
            bson!({ "$round": [i32::MAX, -1] }),
            bson!(2_147_483_650_i64),
        ),
        (bson!({ "$round": [25, -1] }), bson!(20)),
        (bson!({ "$round": [-35, -1] }), bson!(-40)),
        (bson!({ "$trunc": [-12_345, -1] }), bson!(-12_340)),
        (
            bson!({ "$trunc": [i64::MAX, -2] }),
            bson!(9_223_372_036_854_775_800_i64),
        ),
        (bson!({ "$round": [7, -20] }), bson!(0)),
        (bson!({ "$round": [2.345, 2] }), bson!(2.35)),
        (bson!({ "$round": [1.005, 2] }), bson!(1.0)),
        (bson!({ "$trunc": [-2.567, 2] }), bson!(-2.56)),
        (bson!({ "$round": [1234.5, -2] }), bson!(1200.0)),
        (bson!({ "$round": [7.5, 100] }), bson!(7.5)),
        (bson!({ "$round": [7.5, Bson::Null] }), Bson::Null),
        (
            bson!({ "$subtract": [i64::MIN, 1] }),
            bson!(-(2_f64.powi(63))),
        ),
        (bson!({ "$abs": i32::MIN }), bson!(2_147_483_648_i64)),
    ]);
    check_errors([
        (bson!({ "$pow": [0, -1] }), 28764),
        (bson!({ "$pow": [0.0, -1.5] }), 28764),
        (bson!({ "$round": [i64::MAX, -1] }), 51080),
        (bson!({ "$abs": i64::MIN }), 28680),
    ]);
}

#[test]
fn the_precision_of_a_rounding_is_checked() {
    let round = |places: Bson| bson!({ "$round": [7.5, places] });
    check_errors([
        (round(bson!(1.5)), 51082),
        (round(dec("1.5")), 51082),
        (round(bson!(1_i64 << 31)), 51082),
        (round(bson!(101)), 51083),
        (round(bson!(-21)), 51083),
        (round(bson!("x")), 16004),
        (round(bson!(true)), 16004),
        (round(bson!(f64::NAN)), 31109),
        (round(bson!(1e300)), 31109),
        (bson!({ "$trunc": [7.5, 101] }), 51083),
        (bson!({ "$trunc": ["x", "y"] }), 51081),
        (bson!({ "$round": "x" }), 51081),
    ]);
}

#[test]
fn sums_keep_the_digits_that_rounding_would_lose() {
    check([
        (bson!({ "$sum": [0.1, 0.2, 0.3] }), bson!(0.6)),
        (bson!({ "$avg": [0.1, 0.2, 0.3] }), bson!(0.6 / 3.0)),
        (bson!({ "$sum": [1e16, 1, -1e16] }), bson!(1.0)),
        (bson!({ "$sum": [i64::MAX, 1, -1] }), bson!(i64::MAX)),
        (bson!({ "$sum": [i64::MAX, 1] }), bson!(2_f64.powi(63))),
        (bson!({ "$sum": [i32::MAX, 1] }), bson!(2_147_483_648_i64)),
        (bson!({ "$sum": [f64::INFINITY, 1] }), bson!(f64::INFINITY)),
        (
            bson!({ "$sum": [f64::INFINITY, dec("1")] }),
            dec("Infinity"),
        ),
        (
            bson!({ "$sum": [0.1, dec("0.1"), 1] }),
            dec("1.200000000000000005551115123125783"),
        ),
    ]);
}

#[test]
fn decimals_keep_their_digits() {
    let third = dec("0.3333333333333333333333333333333333");
    check([
        (bson!({ "$divide": [dec("1"), 3] }), third.clone()),
        (bson!({ "$avg": [dec("1"), 0, 0] }), third),
        (bson!({ "$add": [dec("2.50"), 2] }), dec("4.50")),
        (
            bson!({ "$add": [dec("2.5"), 2.0] }),
            dec("4.50000000000000"),
        ),
        (bson!({ "$sum": [dec("2.5"), 2.0] }), dec("4.5")),
        (bson!({ "$multiply": [dec("2.5"), 2] }), dec("5.0")),
        (bson!({ "$subtract": [dec("2.5"), dec("0.5")] }), dec("2.0")),
        (bson!({ "$mod": [dec("5.5"), 2] }), dec("1.5")),
        (bson!({ "$pow": [dec("2"), 3] }), dec("8")),
        (bson!({ "$abs": dec("-1.10") }), dec("1.10")),
        (bson!({ "$round": [dec("2.5"), 2] }), dec("2.50")),
        (bson!({ "$round": dec("2.5") }), dec("2")),
        (bson!({ "$trunc": [dec("2.567"), 2] }), dec("2.56")),
        (bson!({ "$ceil": dec("2.00") }), dec("2")),
        (bson!({ "$floor": dec("-2.5") }), dec("-3")),
        (
            bson!({ "$sqrt": dec("2") }),
            dec("1.414213562373095048801688724209698"),
        ),
        (
            bson!({ "$exp": dec("1") }),
            dec("2.718281828459045235360287471352662"),
        ),
        (
            bson!({ "$ln": dec("2.5") }),
            dec("0.9162907318741550651835272117680111"),
        ),
        (bson!({ "$log10": dec("1E+400") }), dec("400")),
        (
            bson!({ "$degreesToRadians": dec("180") }),
            dec("3.141592653589793238462643383279503"),
        ),
        (
            bson!({ "$atan": dec("1") }),
            dec("0.7853981633974483096156608458198757"),
        ),
        (bson!({ "$toDecimal": 2.5 }), dec("2.50000000000000")),
        (
            bson!({ "$toLong": dec("9007199254740993") }),
            bson!(9_007_199_254_740_993_i64),
        ),
        (bson!({ "$toInt": dec("-1.9") }), bson!(-1)),
        (bson!({ "$toBool": dec("1E-6176") }), bson!(true)),
        (bson!({ "$toBool": dec("0E+3") }), bson!(false)),
        (
            bson!({ "$add": [dec("1E+6144"), 0] }),
            dec("1.000000000000000000000000000000000E+6144"),
        ),
        (bson!({ "$add": [dec("-Infinity"), 1] }), dec("-Infinity")),
    ]);
    check_errors([
        (bson!({ "$mod": [dec("2.5"), 0] }), 5_733_415),
        (bson!({ "$divide": [1, dec("0E+2")] }), 2),
        (bson!({ "$pow": [dec("0"), -1] }), 28764),
        (bson!({ "$ln": dec("0") }), 28766),
        (
            bson!({ "$acos": dec("1.000000000000000000000000000000001") }),
            50989,
        ),
        (bson!({ "$sin": dec("Infinity") }), 50989),
        (bson!({ "$log": [dec("2.5"), 1] }), 28759),
        (bson!({ "$sqrt": dec("-1E-6176") }), 28714),
    ]);
}

#[test]
fn operands_that_are_no_numbers_have_the_codes_of_their_operators() {
    let date = |millis| Bson::DateTime(DateTime::from_millis(millis));
    check([
        (bson!({ "$add": [Bson::Null, "x"] }), Bson::Null),
        (bson!({ "$divide": ["x", Bson::Null] }), Bson::Null),
        (bson!({ "$atan2": [Bson::Null, "x"] }), Bson::Null),
        (bson!({ "$add": [date(5), 1.6] }), date(7)),
        (bson!({ "$subtract": [date(5), 2] }), date(3)),
        (bson!({ "$subtract": [date(5), date(2)] }), bson!(3_i64)),
    ]);
    check_errors([
        (bson!({ "$add": ["x", Bson::Null] }), 14),
        (bson!({ "$add": [date(1), date(1)] }), 16612),
        (bson!({ "$add": [date(i64::MAX), 1] }), 15),
        (bson!({ "$subtract": [date(i64::MIN), 1] }), 15),
        (bson!({ "$multiply": [date(1), 2] }), 14),
        (bson!({ "$divide": ["x", 1] }), 14),
        (bson!({ "$subtract": [1, date(1)] }), 14),
        (bson!({ "$subtract": [date(1), "x"] }), 14),
        (bson!({ "$mod": [1, "x"] }), 16611),
        (bson!({ "$pow": ["x", 1] }), 28762),
        (bson!({ "$pow": [1, "x"] }), 28763),
        (bson!({ "$log": ["x", 1] }), 28756),
        (bson!({ "$log": [1, "x"] }), 28757),
        (bson!({ "$atan2": ["x", Bson::Null] }), 51044),
        (bson!({ "$atan2": [1, "x"] }), 51045),
        (bson!({ "$abs": "x" }), 28765),
    ]);
}
