// Writes and reads documents with compressed messages.
//
// Usage: node compressed.js URI

import assert from 'node:assert/strict';
import { MongoClient } from 'mongodb';

// Returns a text whose length grows with the number.
function text(number) {
  return 'onion '.repeat(number * number);
}

const numbers = Array.from({ length: 60 }, (_, number) => number);
const client = new MongoClient(process.argv[2], { serverSelectionTimeoutMS: 10_000 });
try {
  await client.db('admin').command({ ping: 1 });
  const things = client.db('app').collection('things');
  await things.insertMany(numbers.map((number) => ({ _id: number, text: text(number) })));
  const found = await things.find({}, { batchSize: 7 }).sort({ _id: 1 }).toArray();
  assert.deepEqual(found.map((each) => each._id), numbers);
  assert(found.every((each) => each.text === text(each._id)));
  await things.drop();
  console.log('read: 60');
} finally {
  await client.close();
}
