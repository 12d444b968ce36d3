//! Calls with values that no server accepts: each adapter refuses them and sends nothing. Values
//! that only the server checks are sent, and the server refuses them.

use super::{
    super::wire::Sent,
    is, on_each_adapter,
    sessions::{all_calls, delete, index, insert, search_index, set},
    start_simulated,
};
use bson::{Document, doc};
use onionskin::{
    Client, Collection, Database, Error, Namespace, Runtime,
    error::ErrorKind,
    options::{
        DeleteManyModel, DeleteOneModel, IndexModel, InsertOneModel, ReplaceOneModel,
        UpdateManyModel, UpdateModifications, UpdateOneModel, WriteModel,
    },
};
use onionskin_core::bson::MAX_DEPTH;
use onionskin_tests::conformance::Host;
use serde::{Deserialize, Serialize, Serializer, ser::Error as _};

/// The kind of error of a call that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Argument,
    Bson,
    Limit,
    /// The error of the server, to which a command was sent.
    Server,
}

use Fault::{Argument, Server};

impl Fault {
    fn of(error: &Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::InvalidArgument { .. } => Some(Self::Argument),
            ErrorKind::Bson(_) => Some(Self::Bson),
            ErrorKind::Limit { .. } => Some(Self::Limit),
            ErrorKind::Command(_) | ErrorKind::Write(_) | ErrorKind::BulkWrite(_) => {
                Some(Self::Server)
            }
            _ => None,
        }
    }
}

/// The handles with which the calls are made.
struct Stage<R: Runtime> {
    sent: Sent<R>,
    client: Client<R>,
    database: Database<R>,
    things: Collection<R, Document>,
    /// The calls that were not refused as expected.
    wrong: Vec<String>,
}

impl<R: Runtime> Stage<R> {
    fn new(sent: Sent<R>) -> Self {
        let client = sent.client.clone();
        let database = client.database("promises");
        Self {
            sent,
            things: database.collection("things"),
            client,
            database,
            wrong: Vec::new(),
        }
    }

    /// Checks that a call has failed with a kind of error, and that nothing was sent unless the
    /// error is that of the server.
    async fn check(&mut self, case: &str, expected: Fault, result: Result<(), Error>) {
        let sent = std::mem::take(&mut *self.sent.flushed().await);
        let sent: Vec<_> = sent.iter().filter_map(|sent| sent.keys().next()).collect();
        let fault = result.as_ref().err().and_then(Fault::of);
        if fault != Some(expected) || sent.is_empty() == (expected == Server) {
            let wrong = format!("{case}: {result:?} after {sent:?}; expected {expected:?}");
            self.wrong.push(wrong);
        }
    }
}

/// Makes calls of the handles in a stage, which must be refused.
macro_rules! refused {
    ($stage:ident, $fault:ident: $($($call:ident).+ ($($argument:expr),*);)*) => {$(
        let result = $stage.$($call).+($($argument),*).await.map(drop);
        $stage.check(stringify!($($call).+ ($($argument),*)), $fault, result).await;
    )*};
}

/// Makes each call that has a name of the stage in its command.
async fn names<R: Runtime>(stage: &mut Stage<R>) {
    let is_of_database = !stage.database.name().eq("promises");
    macro_rules! check {
        ($stage:ident $kind:ident $call:ident $command:literal:
            client.bulk_write($($models:tt)*)) => {
            refused!($stage, Argument: client.bulk_write($($models)*););
        };
        ($stage:ident $kind:ident $call:ident $command:literal: client.$($rest:tt)*) => {};
        ($stage:ident $kind:ident $call:ident $command:literal:
            database.$method:ident($($argument:expr),*)) => {
            if is_of_database {
                refused!($stage, Argument: database.$method($($argument),*););
            }
        };
        ($stage:ident $kind:ident $call:ident $command:literal:
            things.$method:ident($($argument:expr),*)) => {
            refused!($stage, Argument: things.$method($($argument),*););
        };
    }
    all_calls!(check stage);
}

async fn all_names<R: Runtime>(stage: &mut Stage<R>) {
    for name in ["", "a\0b"] {
        stage.things = stage.database.collection(name);
        names(stage).await;
        stage.things = stage.database.collection("things");
        refused!(stage, Argument:
            things.rename(name);
            database.create_collection(name);
        );
    }
    for name in ["", "a\0b", "a.b"] {
        stage.database = stage.client.database(name);
        stage.things = stage.database.collection("things");
        names(stage).await;
    }
    stage.database = stage.client.database("promises");
    stage.things = stage.database.collection("things");
}

/// Makes each update with a value that is no update, and each replacement with operators.
async fn modifications<R: Runtime>(stage: &mut Stage<R>) {
    let valid = [insert(&stage.things).into()];
    let updates: [UpdateModifications; 4] = [
        doc! {}.into(),
        doc! { "a": 1 }.into(),
        doc! { "a": 1, "$set": { "b": 1 } }.into(),
        Vec::<Document>::new().into(),
    ];
    for update in &updates {
        updated(stage, Argument, &valid, update).await;
    }
    let replacements = [
        doc! { "$set": { "a": 1 } },
        doc! { "$set": { "a": 1 }, "b": 1 },
    ];
    for replacement in &replacements {
        replaced(stage, Argument, &valid, replacement).await;
    }
}

/// Makes each update and each replacement with values that the driver does not check: the fields of
/// a document after the first one, and the stages of a pipeline (CRUD, *Update vs. Replace
/// Validation*; Bulk Write, *Update vs. replace document validation*).
async fn left_to_the_server<R: Runtime>(stage: &mut Stage<R>) {
    let updates: [UpdateModifications; 5] = [
        doc! { "$set": { "a": 1 }, "b": 1 }.into(),
        vec![set(), doc! { "$inc": { "a": 1 } }].into(),
        vec![set(), doc! { "b": 1 }].into(),
        vec![set(), doc! {}].into(),
        vec![doc! { "$set": { "a": 1 }, "$unset": "b" }].into(),
    ];
    for update in &updates {
        updated(stage, Server, &[], update).await;
    }
    replaced(stage, Server, &[], &doc! { "b": 1, "$set": { "a": 1 } }).await;
}

/// Makes each call that changes documents, with these changes. Bulk writes have the valid models
/// before.
async fn updated<R: Runtime>(
    stage: &mut Stage<R>,
    fault: Fault,
    valid: &[WriteModel],
    update: &UpdateModifications,
) {
    let update = || update.clone();
    let one = UpdateOneModel::builder().namespace(stage.things.namespace());
    let many = UpdateManyModel::builder().namespace(stage.things.namespace());
    let models = [
        WriteModel::from(one.update(update()).build()),
        many.update(update()).build().into(),
    ];
    refused!(stage, fault:
        things.update_one(doc! {}, update());
        things.update_many(doc! {}, update());
        things.find_one_and_update(doc! {}, update());
    );
    bulk_writes(stage, fault, valid, models).await;
}

/// Makes each call that replaces a document by this one. Bulk writes have the valid models before.
async fn replaced<R: Runtime>(
    stage: &mut Stage<R>,
    fault: Fault,
    valid: &[WriteModel],
    replacement: &Document,
) {
    let replacement = || replacement.clone();
    refused!(stage, fault:
        things.replace_one(doc! {}, replacement());
        things.find_one_and_replace(doc! {}, replacement());
    );
    let model = ReplaceOneModel::builder().namespace(stage.things.namespace());
    let model = model.replacement(replacement()).build();
    bulk_writes(stage, fault, valid, [model.into()]).await;
}

/// Makes bulk writes of the client and of the collection, each of one model after valid ones.
async fn bulk_writes<R: Runtime>(
    stage: &mut Stage<R>,
    fault: Fault,
    valid: &[WriteModel],
    models: impl IntoIterator<Item = WriteModel>,
) {
    for (index, model) in models.into_iter().enumerate() {
        let case = format!("model {index} of a bulk write");
        let models = [valid, &[model]].concat();
        let result = stage.client.bulk_write(models.clone()).await;
        stage.check(&case, fault, result.map(drop)).await;
        let result = stage.things.bulk_write(models).await;
        stage.check(&case, fault, result.map(drop)).await;
    }
}

/// Returns a model of each kind, with a document at each place that has one.
fn models(namespace: &Namespace, value: &Document) -> Vec<WriteModel> {
    let (of, value) = (|| namespace.clone(), || value.clone());
    let insert = InsertOneModel::builder().namespace(of());
    let one = UpdateOneModel::builder().namespace(of()).update(set());
    let many = UpdateManyModel::builder().namespace(of()).update(set());
    let replace = ReplaceOneModel::builder().namespace(of());
    let delete = DeleteOneModel::builder().namespace(of());
    let delete_many = DeleteManyModel::builder().namespace(of());
    let change = || doc! { "$set": value() };
    vec![
        insert.document(value()).build().into(),
        one.clone().filter(value()).build().into(),
        one.update(change()).build().into(),
        many.clone().filter(value()).build().into(),
        many.update(change()).build().into(),
        replace.clone().filter(value()).build().into(),
        replace.replacement(value()).build().into(),
        delete.filter(value()).build().into(),
        delete_many.filter(value()).build().into(),
    ]
}

/// Makes each call that sends a document with this one, which cannot be sent.
async fn documents<R: Runtime>(
    stage: &mut Stage<R>,
    fault: Fault,
    valid: &[WriteModel],
    bad: &Document,
) {
    let bad = || bad.clone();
    let change = || doc! { "$set": bad() };
    let keys = || IndexModel::builder().keys(bad()).build();
    macro_rules! refused {
        ($($($call:ident).+ ($($argument:expr),*) $(.$option:ident($value:expr))?;)*) => {$(
            let call = stage.$($call).+($($argument),*) $(.$option($value))?;
            let result = call.await.map(drop);
            let case = stringify!($($call).+ ($($argument),*) $(.$option($value))?);
            stage.check(case, fault, result).await;
        )*};
    }
    refused! {
        things.insert_one(bad());
        things.insert_many([bad()]);
        things.update_one(bad(), set());
        things.update_one(doc! {}, change());
        things.update_one(doc! {}, vec![change()]);
        things.update_many(doc! {}, change());
        things.update_one(doc! {}, set()).array_filters([bad()]);
        things.replace_one(bad(), doc! {});
        things.replace_one(doc! {}, bad());
        things.delete_one(bad());
        things.delete_many(bad());
        things.find_one_and_delete(bad());
        things.find_one_and_update(doc! {}, change());
        things.find_one_and_replace(doc! {}, bad());
        things.find(bad());
        things.find(doc! {}).sort(bad());
        things.find_one(bad());
        things.find_one(doc! {}).projection(bad());
        things.count_documents(bad());
        things.distinct("a", bad());
        things.aggregate([bad()]);
        things.create_index(keys());
        database.create_collection("more").validator(bad());
        database.run_command(doc! { "ping": bad() });
    }
    let models = models(&stage.things.namespace(), &bad());
    bulk_writes(stage, fault, valid, models).await;
}

/// A document whose number is too large for BSON.
#[derive(Serialize, Deserialize)]
struct Wide {
    n: u64,
}

/// A value that cannot be encoded.
#[derive(Deserialize)]
struct Broken;

impl Serialize for Broken {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("broken"))
    }
}

/// Makes each call that encodes a value of the application.
async fn values<R: Runtime, T>(stage: &mut Stage<R>, value: impl Fn() -> T)
where
    T: Serialize + for<'a> Deserialize<'a> + Send + Sync + 'static,
{
    let things = stage.database.collection::<T>("things");
    let results = [
        things.insert_one(value()).await.map(drop),
        things.insert_many([value()]).await.map(drop),
        things.replace_one(doc! {}, value()).await.map(drop),
        things
            .find_one_and_replace(doc! {}, value())
            .await
            .map(drop),
    ];
    for result in results {
        stage
            .check(std::any::type_name::<T>(), Fault::Bson, result)
            .await;
    }
}

fn refuses<H: Host>() {
    let deployment = start_simulated();
    H::block_on(async {
        let mut stage = Stage::new(Sent::new(H::runtime(), deployment.uri(), ""));
        let stage = &mut stage;
        all_names(stage).await;
        modifications(stage).await;
        let valid = [insert(&stage.things).into()];
        documents(stage, Fault::Bson, &valid, &doc! { "a\0b": 1 }).await;
        let deep = (0..MAX_DEPTH).fold(doc! {}, |inner, _| doc! { "a": inner });
        documents(stage, Fault::Limit, &valid, &deep).await;
        values(stage, || Wide { n: u64::MAX }).await;
        values(stage, || Broken).await;
        values(stage, || 5).await;
        refused!(stage, Argument:
            things.insert_many([""; 0].map(|_| doc! {}));
            things.bulk_write([""; 0].map(|_| delete()));
            client.bulk_write([""; 0].map(|_| delete()));
            client.bulk_write([delete()]);
            things.drop_index("*");
        );
        // The hello of the server limits documents to 16 MiB. Models before a larger one are sent.
        let large = doc! { "a": "x".repeat(17 << 20) };
        documents(stage, Fault::Limit, &[], &large).await;
        stage.client.clone().shutdown().await;
        assert_eq!(stage.wrong, [""; 0]);
    });
}

fn leaves_to_the_server<H: Host>() {
    let deployment = start_simulated();
    H::block_on(async {
        let mut stage = Stage::new(Sent::new(H::runtime(), deployment.uri(), ""));
        left_to_the_server(&mut stage).await;
        stage.client.clone().shutdown().await;
        assert_eq!(stage.wrong, [""; 0]);
    });
}

/// Numbers that a field cannot have are sent as the largest one that it can have. A negative limit
/// asks for one batch of its absolute value (CRUD, *FindOptions*). Negative numbers to skip and
/// negative batch sizes cannot be written: their types are unsigned.
fn sends_numbers_within_their_range<H: Host>() {
    let deployment = start_simulated();
    H::block_on(async {
        let sent = Sent::new(H::runtime(), deployment.uri(), "");
        let client = sent.client.clone();
        let things = client.database("promises").collection::<Document>("things");
        things.insert_one(doc! { "a": 1 }).await.expect("a reply");
        let limits = [(-3, 3, is(3)), (i64::MIN, i64::MAX, is(i64::MAX))];
        for (limit, absolute, size) in limits {
            let found = things.find(doc! {}).limit(limit).await;
            let found = found.expect("a cursor").into_vec().await;
            assert_eq!(found.expect("documents").len(), 1);
            assert_eq!(sent.field("find", "limit").await, is(absolute));
            assert_eq!(sent.field("find", "singleBatch").await, is(true));
            assert_eq!(sent.field("find", "batchSize").await, size);
        }
        let find = things.find(doc! {}).skip(u64::MAX).batch_size(u32::MAX);
        let found = find.await.expect("a cursor").into_vec().await;
        assert_eq!(found, Ok(Vec::new()));
        assert_eq!(sent.field("find", "skip").await, is(i64::MAX));
        let size = sent.field("find", "batchSize").await;
        assert_eq!(size, is(i64::from(u32::MAX)));
        let count = things.count_documents(doc! {}).skip(u64::MAX).await;
        assert_eq!(count, Ok(0));
        let skipped = sent.path("aggregate", "pipeline.1.$skip").await;
        assert_eq!(skipped, is(i64::MAX));
        client.shutdown().await;
    });
}

on_each_adapter! {
    bad_values_are_refused_and_nothing_is_sent: refuses;
    values_that_only_the_server_checks_are_sent: leaves_to_the_server;
    numbers_are_sent_within_the_range_of_their_field: sends_numbers_within_their_range;
}
