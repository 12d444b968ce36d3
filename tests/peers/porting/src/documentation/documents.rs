//! Documents: inserts, queries, changes and counts.

use super::*;

pub(super) async fn inserts(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let docs = vec![
        doc! { "_id": 1, "title": "1984", "author": "George Orwell" },
        doc! { "_id": 2, "title": "Animal Farm", "author": "George Orwell" },
        doc! { "_id": 3, "title": "The Great Gatsby", "author": "F. Scott Fitzgerald" },
    ];
    let result: InsertManyResult = books.insert_many(docs).await?;
    let mut ids: Vec<_> = result.inserted_ids.into_iter().collect();
    ids.sort_by_key(|(index, _)| *index);
    println!("insert_many: {ids:?}");

    let result: InsertOneResult = books
        .insert_one(doc! { "_id": "four", "title": "Emma", "author": "Jane Austen" })
        .await?;
    println!("insert_one: {}", result.inserted_id);
    let result = books.insert_one(doc! { "title": "Persuasion" }).await?;
    println!("generated: {}", result.inserted_id.as_object_id().is_some());
    books
        .insert_one(doc! { "_id": 6, "title": "Ulysses", "author": "James Joyce" })
        .write_concern(WriteConcern::majority())
        .bypass_document_validation(true)
        .comment(Bson::String("by hand".to_string()))
        .await?;
    // A list of references.
    let more = [doc! { "_id": 7, "title": "Dubliners", "author": "James Joyce" }];
    let result = books.insert_many(&more).ordered(false).await?;
    println!("{:?}", result.inserted_ids.get(&0));
    println!("{}", books.count_documents(doc! {}).await?);
    Ok(())
}

pub(super) async fn finds(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let filter = doc! { "author": "George Orwell" };
    let find_options = FindOptions::builder().sort(doc! { "title": 1 }).build();
    let mut cursor = books
        .find(filter.clone())
        .with_options(find_options)
        .await?;
    while let Some(book) = cursor.try_next().await? {
        println!("title: {}", book.get_str("title").unwrap_or("?"));
    }

    let mut cursor: Cursor<Document> = books
        .find(filter)
        .sort(doc! { "title": -1 })
        .projection(doc! { "title": 1, "_id": 0 })
        .limit(1)
        .skip(0)
        .batch_size(1)
        .max_time(Duration::from_secs(30))
        .allow_disk_use(true)
        .hint(Hint::Name("_id_".to_string()))
        .comment("a comment")
        .cursor_type(CursorType::NonTailable)
        .await?;
    while let Some(book) = cursor.next().await {
        println!("{}", book?);
    }

    let one = books.find_one(doc! { "_id": 3 }).await?;
    println!("{:?}", one);
    let none = books.find_one(doc! { "_id": 99 }).await?;
    println!("{:?}", none);
    let one = books
        .find_one(doc! {})
        .with_options(
            FindOneOptions::builder()
                .sort(doc! { "title": 1 })
                .skip(1)
                .build(),
        )
        .await?;
    println!(
        "{:?}",
        one.map(|book| book.get_str("title").map(str::to_string))
    );
    let collation = Collation::builder()
        .locale("en")
        .strength(CollationStrength::Secondary)
        .build();
    let emma = books
        .find_one(doc! { "title": "EMMA" })
        .collation(collation)
        .await?;
    println!("{}", emma.is_some());
    Ok(())
}

pub(super) async fn cursors(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let by_title = || {
        books
            .find(doc! { "_id": { "$type": "int" } })
            .sort(doc! { "_id": 1 })
    };
    // A `Stream` has `next`, and `collect` gives a list of results.
    let cursor = by_title().await?;
    let all: Vec<Result<Document>> = cursor.collect().await;
    println!("collect: {}", all.len());
    // A `TryStream` has `try_next` and `try_collect`.
    let cursor = by_title().await?;
    let all: Vec<Document> = cursor.try_collect().await?;
    println!("try_collect: {}", all.len());
    let titles: Vec<String> = by_title()
        .batch_size(2)
        .await?
        .map_ok(|book| book.get_str("title").unwrap_or_default().to_string())
        .try_collect()
        .await?;
    println!("{titles:?}");
    let first: Vec<_> = by_title().await?.take(2).try_collect().await?;
    println!("take: {}", first.len());
    let typed = by_title().await?.with_type::<bson::RawDocumentBuf>();
    let sizes: Vec<bool> = typed
        .map_ok(|raw| raw.as_bytes().len() > 5)
        .try_collect()
        .await?;
    println!("{sizes:?}");
    let mut sum = 0;
    by_title()
        .await?
        .try_for_each(|book| {
            sum += book.get_i32("_id").unwrap_or(0);
            futures::future::ok(())
        })
        .await?;
    println!("sum: {sum}");
    Ok(())
}

pub(super) async fn lending_cursors(db: &Database) -> Result<()> {
    let books = db.collection::<Title<'_>>("books");
    let mut cursor = books
        .find(doc! { "_id": { "$in": [1, 2] } })
        .sort(doc! { "_id": 1 })
        .await?;
    while cursor.advance().await? {
        println!("title: {:?}", cursor.deserialize_current()?.title);
        println!("{:?}", cursor.current());
    }
    Ok(())
}

pub(super) async fn raw_batches(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let mut cursor = books
        .find(doc! { "_id": { "$type": "int" } })
        .batch_size(2)
        .batch()
        .await?;
    let mut number = 0;
    while let Some(batch) = cursor.next().await {
        let batch = batch?;
        for raw in batch.doc_slices()? {
            let raw = raw?;
            number += usize::from(raw.as_document().is_some());
        }
    }
    println!("raw batches: {number} documents");
    Ok(())
}

pub(super) async fn typed_collections(db: &Database) -> Result<()> {
    let books = db.collection::<Book>("typed");
    books
        .insert_many(vec![
            Book::new("The Grapes of Wrath", "John Steinbeck", 1939),
            Book::new("To Kill a Mockingbird", "Harper Lee", 1960),
        ])
        .await?;
    books
        .insert_one(Book::new("East of Eden", "John Steinbeck", 1952))
        .await?;
    let mut cursor = books
        .find(doc! { "author": "John Steinbeck" })
        .sort(doc! { "year": 1 })
        .await?;
    while let Some(book) = cursor.try_next().await? {
        println!("{} ({}), {}", book.title, book.year, book.id.is_some());
    }
    let replaced = books
        .replace_one(
            doc! { "title": "East of Eden" },
            Book::new("East of Eden", "J. Steinbeck", 1952),
        )
        .await?;
    println!("{} {}", replaced.matched_count, replaced.modified_count);
    let found = books.find_one(doc! { "year": 1952 }).await?;
    println!("{:?}", found.map(|book| book.author));
    // A document that does not have the form of the type.
    books
        .clone_with_type::<Document>()
        .insert_one(doc! { "title": 3 })
        .await?;
    match books.find_one(doc! { "title": 3 }).await {
        Ok(book) => println!("{book:?}"),
        Err(error) => println!("bson: {}", matches!(*error.kind, ErrorKind::Bson(_))),
    }
    books.drop().await
}

pub(super) async fn updates(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let result: UpdateResult = books
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "year": 1949 } })
        .await?;
    println!(
        "{} {} {:?}",
        result.matched_count, result.modified_count, result.upserted_id
    );
    let result = books
        .update_many(
            doc! { "author": "George Orwell" },
            doc! { "$inc": { "copies": 2 } },
        )
        .await?;
    println!("{result:?}");
    let result = books
        .update_one(doc! { "_id": 50 }, doc! { "$set": { "title": "New" } })
        .upsert(true)
        .await?;
    println!("{:?}", result.upserted_id);
    // A pipeline.
    let pipeline = vec![doc! { "$set": { "label": { "$concat": ["$title", "!"] } } }];
    let result = books
        .update_one(doc! { "_id": 2 }, pipeline.clone())
        .await?;
    println!("{}", result.modified_count);
    let update = UpdateModifications::Pipeline(pipeline);
    books.update_one(doc! { "_id": 3 }, update).await?;
    let options = UpdateOptions::builder()
        .array_filters(vec![doc! { "price": { "$gt": 10 } }])
        .build();
    books
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "prices": [5, 15] } })
        .await?;
    books
        .update_one(
            doc! { "_id": 1 },
            doc! { "$set": { "prices.$[price]": 10 } },
        )
        .with_options(options)
        .await?;
    println!("{:?}", books.find_one(doc! { "_id": 1 }).await?);
    let replaced = books
        .replace_one(doc! { "_id": 51 }, doc! { "title": "Replaced" })
        .upsert(true)
        .await?;
    println!("{replaced:?}");
    // An update without an operator.
    match books.update_one(doc! {}, doc! { "title": "wrong" }).await {
        Ok(result) => println!("{result:?}"),
        Err(error) => println!(
            "invalid argument: {}",
            matches!(*error.kind, ErrorKind::InvalidArgument { .. })
        ),
    }
    Ok(())
}

pub(super) async fn deletes(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let result: DeleteResult = books.delete_one(doc! { "_id": 50 }).await?;
    println!("{}", result.deleted_count);
    let result = books
        .delete_many(doc! { "title": "Replaced" })
        .with_options(
            DeleteOptions::builder()
                .hint(Hint::Keys(doc! { "_id": 1 }))
                .build(),
        )
        .await?;
    println!("{result:?}");
    Ok(())
}

pub(super) async fn find_and_modify(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    let before = books
        .find_one_and_update(doc! { "_id": 7 }, doc! { "$set": { "year": 1914 } })
        .await?;
    println!("{:?}", before);
    let options = FindOneAndUpdateOptions::builder()
        .return_document(ReturnDocument::After)
        .projection(doc! { "_id": 0, "year": 1 })
        .build();
    let after = books
        .find_one_and_update(doc! { "_id": 7 }, doc! { "$inc": { "year": 1 } })
        .with_options(options)
        .await?;
    println!("{:?}", after);
    let replaced = books
        .find_one_and_replace(doc! { "_id": 7 }, doc! { "title": "The Dead" })
        .return_document(ReturnDocument::After)
        .await?;
    println!("{:?}", replaced);
    let deleted = books
        .find_one_and_delete(doc! { "_id": 7 })
        .sort(doc! { "_id": 1 })
        .await?;
    println!(
        "{:?} {:?}",
        deleted,
        books.find_one_and_delete(doc! { "_id": 7 }).await?
    );
    Ok(())
}

pub(super) async fn counts(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("books");
    println!(
        "{}",
        books
            .count_documents(doc! { "author": "George Orwell" })
            .await?
    );
    println!("{}", books.estimated_document_count().await?);
    let options = CountOptions::builder().limit(2).skip(1).build();
    println!(
        "{}",
        books.count_documents(doc! {}).with_options(options).await?
    );
    let authors = books
        .distinct("author", doc! { "_id": { "$lt": 5 } })
        .await?;
    println!("{authors:?}");
    Ok(())
}

/// Filters and changes that use variables.
pub(super) async fn variables(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("variables");
    books
        .insert_many([
            doc! { "_id": 1, "author": "Jane Austen" },
            doc! { "_id": 2, "author": "James Joyce" },
            doc! { "_id": 3, "author": "Jane Austen" },
        ])
        .await?;
    let by_author = || doc! { "$expr": { "$eq": ["$author", "$$author"] } };
    let variables = || doc! { "author": "Jane Austen" };
    let mut found = books
        .find(by_author())
        .sort(doc! { "_id": 1 })
        .batch_size(1)
        .let_vars(variables())
        .await?;
    println!("has next: {}", found.has_next());
    while let Some(book) = found.try_next().await? {
        println!("{book}");
    }
    println!("has next: {}", found.has_next());
    let one = books.find_one(by_author()).let_vars(variables()).await?;
    println!("{}", one.is_some());
    let options = UpdateOptions::builder().let_vars(variables()).build();
    let label = vec![doc! { "$set": { "label": "$$author" } }];
    let updated = books
        .update_many(by_author(), label)
        .with_options(options)
        .await?;
    println!("{}", updated.modified_count);
    let after = books
        .find_one_and_update(by_author(), doc! { "$set": { "label": "first" } })
        .let_vars(variables())
        .sort(doc! { "_id": 1 })
        .return_document(ReturnDocument::After)
        .await?;
    println!("{after:?}");
    let projected = [doc! { "$project": { "is_hers": { "$eq": ["$author", "$$author"] } } }];
    let projected: Vec<Document> = books
        .aggregate(projected)
        .let_vars(variables())
        .await?
        .try_collect()
        .await?;
    println!("{}", projected.len());
    let deleted = books.delete_many(by_author()).let_vars(variables()).await?;
    println!("{}", deleted.deleted_count);
    Ok(())
}

/// Models of a bulk write that a typed collection makes.
pub(super) async fn models_of_types(client: &Client, db: &Database) -> Result<()> {
    let books = db.collection::<Book>("models");
    let emma = Book::new("Emma", "Jane Austen", 1815);
    let mut replacement = books.replace_one_model(
        doc! { "title": "Emma" },
        Book::new("Emma", "J. Austen", 1816),
    )?;
    println!("{} {}", replacement.namespace, replacement.filter);
    println!("{}", replacement.replacement);
    let models: [WriteModel; 2] = [
        books.insert_one_model(&emma)?.into(),
        replacement.clone().into(),
    ];
    let result = client.bulk_write(models).await?;
    println!("{} {}", result.inserted_count, result.modified_count);
    replacement.filter = doc! { "title": "Persuasion" };
    replacement.upsert = Some(true);
    let result = client.bulk_write([replacement]).await?;
    println!("{}", result.upserted_count);
    println!("{}", books.count_documents(doc! { "year": 1816 }).await?);
    Ok(())
}

/// Reads from a secondary, after a write that all members have.
pub(super) async fn secondaries(db: &Database) -> Result<()> {
    let books = db.collection::<Document>("everywhere");
    books
        .insert_one(doc! { "_id": 1, "title": "Emma" })
        .write_concern(WriteConcern::nodes(3))
        .await?;
    let secondary = ReadPreference::Secondary { options: None };
    let criteria = SelectionCriteria::from(secondary);
    let found = books
        .find_one(doc! { "_id": 1 })
        .selection_criteria(criteria.clone())
        .read_concern(ReadConcern::local())
        .await?;
    println!("{found:?}");
    let options = CountOptions::builder()
        .selection_criteria(criteria)
        .read_concern(ReadConcern::local())
        .build();
    println!(
        "{}",
        books.count_documents(doc! {}).with_options(options).await?
    );
    Ok(())
}
