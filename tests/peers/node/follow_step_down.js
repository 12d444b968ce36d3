// Follows a step-down with the Node.js driver.
//
// Usage: node follow_step_down.js URI [--without-step-down]
//
// Inserts documents and reads them back in small batches. Then asks the primary to step down while
// inserts continue as retryable writes, and reads every acknowledged document back. Prints one JSON
// object. The exit code is 0 on success, 1 if a document was lost or an operation failed, and 2 if
// the arguments are wrong.

import { MongoClient, MongoNetworkError } from "mongodb";

// Documents that each of the three phases inserts: before, during and after the step-down.
const DOCUMENTS_PER_PHASE = 100;
// Batch size of the cursor; does not divide the number of documents.
const BATCH_SIZE = 7;
// Time limit of the whole run, in milliseconds.
const RUN_TIMEOUT_MS = 120_000;
// Seconds for which the old primary cannot be elected again.
const STEP_DOWN_SECONDS = 10;

async function insert(collection, first, written) {
  for (let id = first; id < first + DOCUMENTS_PER_PHASE; id += 1) {
    try {
      await collection.insertOne({ _id: id, text: "x".repeat(64) });
      written.acknowledged.add(id);
    } catch (error) {
      written.errors.push(`${id}: ${error.message}`);
    }
  }
}

async function readBack(collection) {
  const ids = new Set();
  for await (const document of collection.find({}, { batchSize: BATCH_SIZE })) {
    if (ids.has(document._id)) throw new Error(`_id ${document._id} was returned twice`);
    ids.add(document._id);
  }
  return ids;
}

// A server before 4.2 closes every connection instead of sending a reply, so a network error counts
// as success.
async function askToStepDown(client) {
  try {
    await client.db("admin").command({ replSetStepDown: STEP_DOWN_SECONDS, force: true });
  } catch (error) {
    if (!(error instanceof MongoNetworkError)) throw error;
  }
}

const difference = (left, right) => [...left].filter((id) => !right.has(id));

async function run(client, stepDown) {
  const database = client.db("onionskin_peers");
  await database.collection("node").drop();
  const majority = { writeConcern: { w: "majority" }, readConcern: { level: "majority" } };
  const collection = database.collection("node", stepDown ? majority : {});
  const hello = () => client.db("admin").command({ hello: 1 });
  const written = { acknowledged: new Set(), errors: [] };

  const before = await hello();
  await insert(collection, 0, written);
  const batched = await readBack(collection);
  const batchesHold =
    batched.size === written.acknowledged.size &&
    difference(written.acknowledged, batched).length === 0;

  if (stepDown) {
    await Promise.all([askToStepDown(client), insert(collection, DOCUMENTS_PER_PHASE, written)]);
  }
  await insert(collection, 2 * DOCUMENTS_PER_PHASE, written);

  const read = await readBack(collection);
  const after = await hello();
  const missing = difference(written.acknowledged, read);
  const unexpected = difference(read, written.acknowledged);
  const hasOtherMembers = (before.hosts ?? []).length > 1;
  const followed = !stepDown || !hasOtherMembers || before.me !== after.me;
  return {
    ok:
      batchesHold &&
      followed &&
      written.errors.length === 0 &&
      missing.length === 0 &&
      unexpected.length === 0,
    driver: "mongodb (Node.js)",
    stepped_down: stepDown,
    primary_before: before.me ?? null,
    primary_after: after.me ?? null,
    acknowledged: written.acknowledged.size,
    read: read.size,
    missing,
    unexpected,
    batches_hold: batchesHold,
    errors: written.errors,
  };
}

const [uri, flag, ...rest] = process.argv.slice(2);
if (!uri || rest.length > 0 || (flag !== undefined && flag !== "--without-step-down")) {
  console.error("usage: node follow_step_down.js URI [--without-step-down]");
  process.exit(2);
}
setTimeout(() => {
  console.log(JSON.stringify({ ok: false, error: "the run did not end in time" }));
  process.exit(1);
}, RUN_TIMEOUT_MS).unref();

let summary;
try {
  const client = new MongoClient(uri);
  summary = await run(client, flag === undefined);
  await client.close();
} catch (error) {
  summary = { ok: false, error: error.message };
}
console.log(JSON.stringify(summary));
process.exit(summary.ok ? 0 : 1);
