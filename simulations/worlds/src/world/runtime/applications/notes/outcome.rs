//! The outcomes of writes, as results and errors tell them.

use super::{
    book::{Fate, Sent, Sum, Told},
    known::{Answer, Change},
};
use bson::Bson;
use onionskin::results::{
    BulkWriteResult, SummaryBulkWriteResult, UpdateResult, VerboseBulkWriteResult,
};
use onionskin_core::error::{
    BulkWriteError, Error, ErrorKind, InsertManyError, PartialBulkWriteResult, WriteFailure,
};
use std::collections::BTreeMap;

/// The description of a result that does not match the writes that were sent.
pub(super) type Misfit = String;

/// Returns the answer to an update or a replacement of one document.
pub(super) fn updated(sent: &Sent, result: &UpdateResult) -> Result<Answer, Misfit> {
    let UpdateResult {
        matched_count,
        modified_count,
        upserted_id,
        ..
    } = result;
    match (matched_count, modified_count, upserted_id) {
        (1, 1, None) => Ok(Answer::Matched),
        (0, 0, None) => Ok(Answer::Missed),
        (0, 0, Some(Bson::Int64(id))) if *id == sent.key.1 => Ok(Answer::Added),
        _ => Err(format!("{result:?} of {sent:?}")),
    }
}

/// Returns the answer to a delete of one document.
pub(super) fn deleted(count: u64) -> Result<Answer, Misfit> {
    match count {
        0 => Ok(Answer::Missed),
        1 => Ok(Answer::Matched),
        _ => Err(format!("{count} documents were deleted")),
    }
}

/// Returns the outcome of writes that each had one of these answers.
pub(super) fn answered(answers: impl IntoIterator<Item = Answer>) -> Told {
    let fates = answers.into_iter().map(|a| Fate::Executed(Some(a)));
    Told {
        fates: fates.collect(),
        ..Told::default()
    }
}

/// Checks that the `_id`s of inserted documents are those that were sent.
pub(super) fn check_ids(sent: &[Sent], ids: &BTreeMap<usize, Bson>) -> Result<(), Misfit> {
    let is_right =
        |(place, id): (&usize, &Bson)| sent.get(*place).map(|sent| sent.key.1) == id.as_i64();
    match ids.iter().all(is_right) {
        true => Ok(()),
        false => Err(format!("{ids:?} are not the ids of {sent:?}")),
    }
}

const fn updates(sent: &Sent) -> bool {
    matches!(
        sent.write.change,
        Change::Push { .. } | Change::Replace { .. }
    )
}

fn count(sent: &[Sent], fits: impl Fn(&Sent) -> bool) -> u64 {
    sent.iter().filter(|one| fits(one)).count() as u64
}

fn places(sent: &[Sent], fits: impl Fn(&Sent) -> bool) -> Vec<usize> {
    let all = sent.iter().enumerate();
    all.filter(|(_, one)| fits(one)).map(|(i, _)| i).collect()
}

/// Returns the outcome of a bulk write without an error, from its sums.
pub(super) fn summed(sent: &[Sent], sums: &SummaryBulkWriteResult) -> Result<Told, Misfit> {
    let number = |n: i64| u64::try_from(n).unwrap_or(u64::MAX);
    let inserts = |one: &Sent| one.write.change == Change::Insert;
    let deletes = |one: &Sent| one.write.change == Change::Delete;
    let is_right = number(sums.inserted_count) == count(sent, inserts)
        && sums.matched_count == sums.modified_count;
    if !is_right {
        return Err(format!("{sums:?} of {sent:?}"));
    }
    let fates = sent
        .iter()
        .map(|one| Fate::Executed(inserts(one).then_some(Answer::Added)));
    let sum = |places, answer, n| Sum {
        places,
        answer,
        count: number(n),
    };
    Ok(Told {
        fates: fates.collect(),
        sums: vec![
            sum(places(sent, updates), Answer::Matched, sums.matched_count),
            sum(
                places(sent, Sent::upserts),
                Answer::Added,
                sums.upserted_count,
            ),
            sum(places(sent, deletes), Answer::Matched, sums.deleted_count),
        ],
        image: None,
    })
}

/// Returns the outcome of the bulk write of a collection without an error.
pub(super) fn of_collection(sent: &[Sent], result: &BulkWriteResult) -> Result<Told, Misfit> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut sums = SummaryBulkWriteResult::default();
    sums.inserted_count = number(result.inserted_count);
    sums.matched_count = number(result.matched_count);
    sums.modified_count = number(result.modified_count);
    sums.upserted_count = number(result.upserted_count);
    sums.deleted_count = number(result.deleted_count);
    let mut told = summed(sent, &sums)?;
    check_ids(sent, &result.inserted_ids)?;
    check_ids(sent, &result.upserted_ids)?;
    let is_whole = result.inserted_ids.len() as u64 == result.inserted_count
        && result.upserted_ids.len() as u64 == result.upserted_count;
    if !is_whole {
        return Err(format!("{result:?} of {sent:?}"));
    }
    for place in places(sent, Sent::upserts) {
        let is_new = result.upserted_ids.contains_key(&place);
        let answer = if is_new {
            Answer::Added
        } else {
            Answer::Matched
        };
        told.fates[place] = Fate::Executed(Some(answer));
    }
    Ok(told)
}

/// Returns the outcome of the bulk write of a client without an error.
pub(super) fn verbose(sent: &[Sent], result: &VerboseBulkWriteResult) -> Result<Told, Misfit> {
    let mut told = summed(sent, &result.summary)?;
    for (place, answer) in single_answers(sent, result)? {
        told.fates[place] = Fate::Executed(Some(answer));
    }
    match told.fates.contains(&Fate::Executed(None)) {
        true => Err(format!("{result:?} is not all of {sent:?}")),
        false => Ok(told),
    }
}

fn single_answers(
    sent: &[Sent],
    result: &VerboseBulkWriteResult,
) -> Result<BTreeMap<usize, Answer>, Misfit> {
    let mut answers = BTreeMap::new();
    let strange = || format!("{result:?} of {sent:?}");
    for (place, insert) in &result.insert_results {
        let id = insert.inserted_id.clone();
        check_ids(sent, &BTreeMap::from([(*place, id)]))?;
        answers.insert(*place, Answer::Added);
    }
    for (place, update) in &result.update_results {
        let one = sent.get(*place).ok_or_else(strange)?;
        // Here `matched_count` has an upserted document as well (CRUD, client-bulkWrite-results).
        let mut update = update.clone();
        if update.upserted_id.is_some() {
            update.matched_count = update.matched_count.wrapping_sub(1);
        }
        answers.insert(*place, updated(one, &update)?);
    }
    for (place, delete) in &result.delete_results {
        answers.insert(*place, deleted(delete.deleted_count)?);
    }
    let all = result.insert_results.len() + result.update_results.len();
    match answers.len() == all + result.delete_results.len() {
        true => Ok(answers),
        false => Err(strange()),
    }
}

/// Returns the outcome of writes whose call failed.
pub(super) fn of_error(sent: &[Sent], error: &Error, is_ordered: bool) -> Told {
    let mut fates = vec![Fate::Unknown; sent.len()];
    match error.kind() {
        ErrorKind::Write(WriteFailure::WriteError(_)) if error.is_duplicate_key() => {
            fates.fill(Fate::Executed(Some(Answer::Refused)));
        }
        ErrorKind::InsertMany(fault) => fail_inserts(&mut fates, fault, error, is_ordered),
        ErrorKind::BulkWrite(fault) => fail_bulk_write(sent, &mut fates, fault, is_ordered),
        _ => {}
    }
    Told {
        fates,
        ..Told::default()
    }
}

fn set(fates: &mut [Fate], place: usize, to: Fate) {
    if let Some(fate) = fates.get_mut(place) {
        *fate = to;
    }
}

/// Notes the statements that failed, and with `is_ordered` those after them, which were not sent.
fn refuse(fates: &mut [Fate], failed: &[(usize, i32)], is_ordered: bool) {
    for (place, code) in failed {
        let fate = match *code {
            DUPLICATE_KEY => Fate::Executed(Some(Answer::Refused)),
            _ => Fate::Nothing,
        };
        set(fates, *place, fate);
        if is_ordered {
            let rest = fates.iter_mut().skip(place.saturating_add(1));
            rest.for_each(|fate| *fate = Fate::Nothing);
        }
    }
}

fn fail_inserts(fates: &mut [Fate], fault: &InsertManyError, error: &Error, is_ordered: bool) {
    // Without the write concern, a confirmed document can still be rolled back.
    let is_majority = fault.write_concern_error.is_none();
    let confirmed = error.partial_insert().filter(|_| is_majority);
    for place in confirmed
        .iter()
        .flat_map(|partial| partial.inserted_ids.keys())
    {
        set(fates, *place, Fate::Executed(Some(Answer::Added)));
    }
    let failed = fault.errors().iter().map(|e| (e.index, e.code));
    refuse(fates, &failed.collect::<Vec<_>>(), is_ordered);
}

fn fail_bulk_write(sent: &[Sent], fates: &mut [Fate], fault: &BulkWriteError, is_ordered: bool) {
    if fault.write_concern_errors.is_empty() {
        if let Some(PartialBulkWriteResult::Verbose(result)) = &fault.partial_result
            && let Ok(answers) = single_answers(sent, result)
        {
            for (place, answer) in answers {
                set(fates, place, Fate::Executed(Some(answer)));
            }
        }
        let of_collection = fault.collection_result.iter();
        let ids = of_collection.flat_map(|r| r.inserted_ids.keys().chain(r.upserted_ids.keys()));
        for place in ids {
            set(fates, *place, Fate::Executed(Some(Answer::Added)));
        }
    }
    let failed = fault.write_errors.iter().map(|(i, e)| (*i, e.code));
    refuse(fates, &failed.collect::<Vec<_>>(), is_ordered);
}

/// The code of an error about a duplicate key.
const DUPLICATE_KEY: i32 = 11_000;
