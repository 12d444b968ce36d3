//! Each command of the table in each release: with each field missing, null, unknown, of each type,
//! and too small, also inside of statements and other objects.

use super::super::{Field, Kind, Release, Row, check, rows, types::type_name};
use crate::server::connection::Request;
use bson::{
    Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, cstr, doc, oid::ObjectId,
    spec::BinarySubtype,
};

const RELEASES: [[u16; 3]; 7] = [
    [4, 2, 25],
    [4, 4, 29],
    [5, 0, 31],
    [6, 0, 20],
    [7, 0, 24],
    [8, 0, 4],
    [8, 2, 0],
];

/// The codes of unknown fields: those of all releases, and of some commands before 5.0.
const UNKNOWN: [i32; 3] = [40415, 9, 51177];

const NUMBERS: [&str; 4] = ["int", "long", "double", "decimal"];

/// The code that stands for success.
const OK: i32 = 0;

fn binary(subtype: BinarySubtype) -> Bson {
    Bson::Binary(Binary {
        subtype,
        bytes: vec![1; 16],
    })
}

/// Returns a value of each type.
fn values() -> Vec<Bson> {
    vec![
        Bson::Double(1.5),
        "text".into(),
        doc! {}.into(),
        Bson::Array(vec![]),
        binary(BinarySubtype::Generic),
        binary(BinarySubtype::Uuid),
        ObjectId::from_bytes([1; 12]).into(),
        true.into(),
        DateTime::from_millis(0).into(),
        Bson::RegularExpression(Regex {
            pattern: cstr!("a").into(),
            options: cstr!("").into(),
        }),
        Bson::Int32(1),
        Bson::Int64(1),
        Bson::Timestamp(Timestamp {
            time: 1,
            increment: 1,
        }),
        Bson::Decimal128("1".parse::<Decimal128>().expect("a number")),
        Bson::MinKey,
        Bson::MaxKey,
    ]
}

/// Returns an object with the required fields of a release.
fn required(fields: &[Field], release: Release) -> Document {
    let needed = fields.iter().filter(|f| f.required && f.exists(release));
    let pairs = needed.map(|field| (field.name.to_owned(), sample(field.kind, release)));
    pairs.collect()
}

/// Returns a value of a kind.
fn sample(kind: Kind, release: Release) -> Bson {
    match kind {
        Kind::Any | Kind::Whole | Kind::Int | Kind::TextOrWhole => Bson::Int32(1),
        Kind::Bool | Kind::Flag | Kind::FlagOrObject | Kind::BoolOrUuid => true.into(),
        Kind::Long => Bson::Int64(1),
        Kind::Text
        | Kind::Collection
        | Kind::CollectionOrUuid
        | Kind::CollectionOrOne
        | Kind::TextOrObject
        | Kind::TextOrNumber
        | Kind::TextOrArrayOrObject => "c".into(),
        Kind::Object => doc! {}.into(),
        Kind::Array | Kind::Pipeline => Bson::Array(vec![]),
        Kind::Binary => binary(BinarySubtype::Generic),
        Kind::Uuid => binary(BinarySubtype::Uuid),
        Kind::OneOf(words) => words[0].into(),
        Kind::Nested(fields) => required(fields, release).into(),
        Kind::Tagged(variants) => {
            let (tag, fields) = variants[0];
            let mut object = doc! { tag: 1 };
            object.extend(required(fields, release));
            object.into()
        }
        Kind::ArrayOf(inner) => vec![sample(*inner, release)].into(),
    }
}

/// Returns the codes with which a value can fail, or [`OK`] if it is one of the kind.
fn codes(kind: Kind, value: &Bson, release: Release) -> Vec<i32> {
    let name = type_name(value);
    let typed = |names: &[&str]| vec![if names.contains(&name) { OK } else { 14 }];
    let is_uuid = matches!(value, Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid);
    let is_number = NUMBERS.contains(&name);
    let is_flag = is_number || name == "bool";
    let accepted = |is_accepted: bool| vec![if is_accepted { OK } else { 14 }];
    match kind {
        Kind::Any => vec![OK],
        Kind::Bool => typed(&["bool"]),
        Kind::Flag => accepted(is_flag),
        Kind::Whole => accepted(is_number),
        Kind::Int => typed(&["int"]),
        Kind::Long => typed(&["long"]),
        Kind::Text => typed(&["string"]),
        Kind::Object => typed(&["object"]),
        Kind::Array | Kind::ArrayOf(_) | Kind::Pipeline => typed(&["array"]),
        Kind::Binary => typed(&["binData"]),
        Kind::Uuid => accepted(is_uuid),
        Kind::TextOrObject => typed(&["string", "object"]),
        Kind::TextOrNumber | Kind::TextOrWhole => accepted(is_number || name == "string"),
        Kind::FlagOrObject => accepted(is_flag || name == "object"),
        // The subtype is not checked.
        Kind::BoolOrUuid => typed(&["bool", "binData"]),
        Kind::TextOrArrayOrObject => typed(&["string", "array", "object"]),
        Kind::Collection if name == "string" => vec![OK],
        Kind::CollectionOrUuid if name == "string" || is_uuid => vec![OK],
        Kind::Collection | Kind::CollectionOrUuid => vec![2, 14, 73],
        Kind::CollectionOrOne if name == "string" => vec![OK],
        // The only fraction is 1.5.
        Kind::CollectionOrOne => vec![match name {
            "double" => 9,
            _ if is_number => OK,
            _ => 14,
        }],
        Kind::OneOf(_) => vec![if name == "string" { 2 } else { 14 }],
        Kind::Nested(fields) => match value {
            Bson::Document(_) if required(fields, release).is_empty() => vec![OK],
            Bson::Document(_) => vec![40414],
            _ => vec![14],
        },
        Kind::Tagged(_) => typed(&["object"]),
    }
}

/// Returns the objects that a kind contains: each with its required fields, and the fields that it
/// can have.
fn objects(kind: Kind, release: Release) -> Vec<(Document, &'static [Field])> {
    match kind {
        Kind::Nested(fields) => vec![(required(fields, release), fields)],
        Kind::Tagged(variants) => {
            let tagged = variants.iter().map(|(tag, fields)| {
                let mut object = doc! { *tag: 1 };
                object.extend(required(fields, release));
                (object, *fields)
            });
            tagged.collect()
        }
        Kind::ArrayOf(inner) => objects(*inner, release),
        _ => Vec::new(),
    }
}

/// One command in one release.
struct Case {
    name: &'static str,
    version: [u16; 3],
    base: Document,
}

impl Case {
    fn new(row: &'static Row, name: &'static str, version: [u16; 3]) -> Self {
        let mut case = Self {
            name,
            version,
            base: Document::new(),
        };
        let release = case.release();
        let database = if row.admin { "admin" } else { "d" };
        case.base.insert(name, sample(row.value, release));
        case.base.extend(required(row.fields, release));
        case.base.insert("$db", database);
        case
    }

    const fn release(&self) -> Release {
        let [major, minor, _] = self.version;
        (major, minor)
    }

    /// True for a command that a server before 5.0 reads without a description.
    fn is_read_by_hand(&self) -> bool {
        self.name == "find" && self.release() < (5, 0)
    }

    fn assert(&self, command: &Document, expected: &[i32]) {
        let request = Request {
            id: 1,
            bytes: 100,
            compressor: None,
            legacy: false,
            reply_wanted: true,
            exhaust: false,
            name: self.name.to_owned(),
            database: self.base.get_str("$db").unwrap_or_default().to_owned(),
            command: command.clone(),
            progress: None,
            checked: None,
        };
        let found = check(&request, self.version);
        let code = found.as_ref().map_or_else(|fault| fault.error.code, |_| OK);
        let text = found.err().map(|fault| fault.error.message);
        let version = self.version;
        assert!(
            expected.contains(&code),
            "{version:?} {command}: {code} {text:?}, but expected {expected:?}"
        );
    }

    /// Tries a field of the command, or of an object in it. `put` returns the command with another
    /// object.
    fn try_field(
        &self,
        object: &Document,
        field: &Field,
        is_strict: bool,
        put: &dyn Fn(Document) -> Document,
    ) {
        let release = self.release();
        let with = |value: Bson| {
            let mut changed = object.clone();
            changed.insert(field.name, value);
            put(changed)
        };
        if !field.exists(release) {
            let command = with(sample(field.kind, release));
            return self.assert(&command, if is_strict { &UNKNOWN } else { &[OK] });
        }
        let missing = if field.required { 40414 } else { OK };
        self.assert(&with(Bson::Null), &[missing]);
        let mut without = object.clone();
        without.remove(field.name);
        self.assert(&put(without), &[missing]);
        let right: &[i32] = if field.refused { &UNKNOWN } else { &[OK] };
        self.assert(&with(sample(field.kind, release)), right);
        if !field.refused && field.is_too_small(&Bson::Int32(-1)) {
            let code = if release < (8, 0) { 51024 } else { 2 };
            self.assert(&with(Bson::Int32(-1)), &[code, 2]);
        }
        for value in values() {
            let mut expected = codes(field.kind, &value, release);
            if field.refused {
                expected = UNKNOWN.to_vec();
            } else if expected != [OK] && self.is_read_by_hand() {
                expected.push(9);
            }
            self.assert(&with(value), &expected);
        }
    }

    /// Tries the fields of the objects in the value of an element of the command.
    fn try_objects(&self, element: &str, kind: Kind) {
        let is_list = matches!(kind, Kind::ArrayOf(_));
        let put = |object: Document| {
            let mut command = self.base.clone();
            let value = if is_list {
                Bson::Array(vec![object.into()])
            } else {
                object.into()
            };
            command.insert(element, value);
            command
        };
        for (object, fields) in objects(kind, self.release()) {
            let is_name = |field: &Field| object.contains_key(field.name) && !field.required;
            let mut unknown = object.clone();
            unknown.insert("mutli", true);
            self.assert(&put(unknown), &[40415]);
            // The field that names an operation is none that can be missing.
            for field in fields.iter().filter(|field| !is_name(field)) {
                self.try_field(&object, field, true, &put);
            }
        }
    }
}

#[test]
fn commands_are_checked_by_their_rows_in_each_release() {
    for row in rows() {
        for (&name, version) in row
            .names
            .iter()
            .flat_map(|name| RELEASES.map(|version| (name, version)))
        {
            let case = Case::new(row, name, version);
            if case.release() < row.since {
                case.assert(&case.base, &[59]);
                continue;
            }
            case.assert(&case.base, &[OK]);
            let mut unknown = case.base.clone();
            unknown.insert("mutli", true);
            case.assert(&unknown, if row.strict { &UNKNOWN } else { &[OK] });
            for value in values() {
                let mut changed = case.base.clone();
                let expected = codes(row.value, &value, case.release());
                changed.insert(name, value);
                case.assert(&changed, &expected);
            }
            let put = |command: Document| command;
            for field in row.fields {
                case.try_field(&case.base, field, row.strict, &put);
                if field.exists(case.release()) && !field.refused {
                    case.try_objects(field.name, field.kind);
                }
            }
            case.try_objects(name, row.value);
        }
    }
}
