// Decodes and encodes documents with the npm package bson.
//
// Usage: node documents.js FILE [EXTENDED_JSON]
// FILE has documents in BSON, one after the other. Writes FILE.bson with the documents as encoded
// again, and FILE.json with their canonical Extended JSON, one in each line. With EXTENDED_JSON, a
// file with a line for each document, also writes FILE.parsed with the documents that were parsed
// from it. Prints the number of documents.

import { readFileSync, writeFileSync } from 'node:fs';
import { BSON } from 'mongodb';

const [path, extendedJson] = process.argv.slice(2);
const all = readFileSync(path);
const documents = [];
for (let at = 0; at < all.length; ) {
  const size = all.readInt32LE(at);
  const one = all.subarray(at, at + size);
  documents.push(
    BSON.deserialize(one, { promoteValues: false, promoteBuffers: false, bsonRegExp: true }),
  );
  at += size;
}
const encode = (document) => BSON.serialize(document, { ignoreUndefined: false });
writeFileSync(`${path}.bson`, Buffer.concat(documents.map(encode)));
const lines = documents.map((d) => BSON.EJSON.stringify(d, { relaxed: false }) + '\n');
writeFileSync(`${path}.json`, lines.join(''));
if (extendedJson !== undefined) {
  const texts = readFileSync(extendedJson, 'utf8').split('\n').filter((line) => line !== '');
  const parsed = texts.map((text) => BSON.EJSON.parse(text, { relaxed: false }));
  writeFileSync(`${path}.parsed`, Buffer.concat(parsed.map(encode)));
}
console.log(documents.length);
