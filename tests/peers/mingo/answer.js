// Answers queries, updates and pipelines with mingo.
//
// Usage: node answer.js [FILE]
// Each line of FILE, or of the standard input, is a case in Extended JSON, with its documents and
// its operation. Writes a line for each case to FILE.answers, or to the standard output: the
// resulting documents in canonical Extended JSON, or an object with the field `error`.

import { createReadStream, createWriteStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { BSON } from 'bson';
import { Aggregator, Query, find, updateMany } from 'mingo';

// mingo knows the patterns of JavaScript only.
const withPatterns = (value) => {
  if (value instanceof BSON.BSONRegExp) return new RegExp(value.pattern, value.options);
  if (Array.isArray(value)) return value.map(withPatterns);
  if (value?.constructor !== Object) return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, withPatterns(v)]));
};

const answers = {
  filter: (documents, { filter }) => {
    const query = new Query(filter);
    return documents.filter((document) => query.test(document));
  },
  find: (documents, { filter, projection, sort, skip, limit }) => {
    let cursor = find(documents, filter, projection);
    if (sort) cursor = cursor.sort(sort);
    if (skip) cursor = cursor.skip(skip);
    if (limit) cursor = cursor.limit(limit);
    return cursor.all();
  },
  update: (documents, { update, filter, arrayFilters }) => {
    updateMany(documents, filter ?? {}, update, { arrayFilters, cloneMode: 'deep' });
    return documents;
  },
  expression: (documents, { pipeline }) => new Aggregator(pipeline).run(documents),
  pipeline: (documents, { pipeline, other }) =>
    new Aggregator(pipeline, { collectionResolver: () => other }).run(documents),
};

const [path] = process.argv.slice(2);
const input = path === undefined ? process.stdin : createReadStream(path);
const output = path === undefined ? process.stdout : createWriteStream(`${path}.answers`);
for await (const line of createInterface({ input })) {
  const { kind, documents, operation } = withPatterns(BSON.EJSON.parse(line, { relaxed: true }));
  let answer;
  try {
    const answered = answers[kind](documents, operation);
    answer = BSON.EJSON.stringify(answered, { relaxed: false, ignoreUndefined: true });
  } catch (error) {
    answer = JSON.stringify({ error: String(error.message) });
  }
  output.write(`${answer}\n`);
}
