//! A test file: its schema, and what it requires of a deployment.

use bson::{Bson, Document};
use jsonschema::Validator;
use onionskin_tests::specifications;
use serde_json::Value;
use std::{cell::RefCell, collections::BTreeMap, fs, rc::Rc};

/// The newest version of the schema that this runner knows.
const NEWEST_SCHEMA: (u32, u32) = (1, 28);

thread_local! {
    /// The schemas that files of this thread used. Compiling one takes longer than a test.
    static SCHEMAS: RefCell<BTreeMap<String, Rc<Validator>>> = RefCell::default();
}

/// A file that its schema allows.
#[derive(Debug)]
pub(crate) struct UnifiedFile {
    /// Requirements of which a deployment must meet one; empty if it need not meet any.
    pub(crate) requirements: Vec<Document>,
    pub(crate) entities: Vec<Document>,
    pub(crate) initial_data: Vec<Document>,
    pub(crate) tests: Vec<Test>,
}

/// One test of a file.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) description: String,
    pub(crate) requirements: Vec<Document>,
    /// The reason why no driver runs the test, or `None`.
    pub(crate) skip_reason: Option<String>,
    pub(crate) operations: Vec<Document>,
    pub(crate) events: Vec<Document>,
    pub(crate) messages: Vec<Document>,
    pub(crate) tracing: bool,
    pub(crate) outcome: Vec<Document>,
}

impl UnifiedFile {
    /// Reads a file, given as `json` and as text, whose documents are in order. Returns an error if
    /// its schema does not allow it.
    pub(crate) fn read(json: &Value, text: &str) -> Result<Self, String> {
        check_schema(json)?;
        let file: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let tests = list(&file, "tests")?;
        Ok(Self {
            requirements: list(&file, "runOnRequirements")?,
            entities: list(&file, "createEntities")?,
            initial_data: list(&file, "initialData")?,
            tests: tests.iter().map(Test::read).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the clients of all tests.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Document> {
        let entities = self.entities.iter();
        entities.filter_map(|entity| entity.get_document("client").ok())
    }

    /// Returns the names of the databases and collections of the collections without initial data.
    pub(crate) fn without_data(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_kind = |kind| {
            let entities = self.entities.iter();
            entities.filter_map(move |entity| entity.get_document(kind).ok())
        };
        let names = of_kind("collection").filter_map(move |collection| {
            let id = collection.get_str("database").ok()?;
            let mut databases = of_kind("database");
            let database = databases.find(|database| database.get_str("id").ok() == Some(id))?;
            let database = database.get_str("databaseName").ok()?;
            Some((database, collection.get_str("collectionName").ok()?))
        });
        names.filter(|&(database, collection)| {
            !self.initial_data.iter().any(|data| {
                data.get_str("databaseName").ok() == Some(database)
                    && data.get_str("collectionName").ok() == Some(collection)
            })
        })
    }
}

impl Test {
    fn read(test: &Document) -> Result<Self, String> {
        let text = |key| test.get_str(key).ok().map(str::to_owned);
        Ok(Self {
            description: text("description").ok_or("a test without a description")?,
            requirements: list(test, "runOnRequirements")?,
            skip_reason: text("skipReason"),
            operations: list(test, "operations")?,
            events: list(test, "expectEvents")?,
            messages: list(test, "expectLogMessages")?,
            tracing: test.contains_key("expectTracingMessages"),
            outcome: list(test, "outcome")?,
        })
    }

    pub(crate) fn sets_fail_points(&self) -> bool {
        let mut names = self
            .operations
            .iter()
            .map(|operation| operation.get_str("name"));
        names.any(|name| matches!(name, Ok("failPoint" | "targetedFailPoint")))
    }
}

/// Returns the documents of an array; none if there is no such field.
pub(crate) fn list(document: &Document, key: &str) -> Result<Vec<Document>, String> {
    let Some(value) = document.get(key) else {
        return Ok(Vec::new());
    };
    let elements = value
        .as_array()
        .ok_or_else(|| format!("{key} is no array"))?;
    let documents = elements.iter().map(|element| match element {
        Bson::Document(document) => Ok(document.clone()),
        other => Err(format!("{key} has {other}")),
    });
    documents.collect()
}

fn check_schema(json: &Value) -> Result<(), String> {
    let version = json["schemaVersion"]
        .as_str()
        .ok_or("the schemaVersion is missing")?;
    let mut parts = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return Err(format!("the schemaVersion {version} has another form"));
    };
    if major != NEWEST_SCHEMA.0 || minor > NEWEST_SCHEMA.1 {
        return Err(format!("the schemaVersion {version} is not known"));
    }
    let schema = schema(&format!("schema-{major}.{minor}.json"))?;
    let error = schema.iter_errors(json).next();
    error.map_or(Ok(()), |error| {
        let text = error.to_string();
        let text: String = text.chars().take(200).collect();
        Err(format!(
            "the schema refuses {}: {text}",
            error.instance_path()
        ))
    })
}

fn schema(name: &str) -> Result<Rc<Validator>, String> {
    if let Some(known) = SCHEMAS.with_borrow(|schemas| schemas.get(name).cloned()) {
        return Ok(known);
    }
    let path = specifications::folder("unified-test-format").join(name);
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let schema = jsonschema::validator_for(&json).map_err(|error| error.to_string())?;
    let schema = Rc::new(schema);
    SCHEMAS.with_borrow_mut(|schemas| schemas.insert(name.to_owned(), Rc::clone(&schema)));
    Ok(schema)
}
