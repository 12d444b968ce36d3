// Parses connection strings with the npm package mongodb-connection-string-url.
//
// Usage: node parse_uris.js FILE
// FILE has a JSON list of connection strings. Prints a JSON list with an object for each of them:
// its parts, or the error.

import { readFileSync } from 'node:fs';
import { ConnectionString } from 'mongodb-connection-string-url';

// The package gives each host as it is written. The comparison needs host and port.
function shownHost(host, isSrv) {
  const decoded = decodeURIComponent(host);
  if (decoded.endsWith('.sock') && decoded.includes('/')) return decoded;
  const name = decoded.toLowerCase();
  return isSrv || /:[0-9]+$/.test(name.replace(/^\[.*\]/, '')) ? name : `${name}:27017`;
}

function parse(text) {
  try {
    const parsed = new ConnectionString(text);
    const options = [...parsed.searchParams.entries()];
    // The package keeps names and values of these parts encoded.
    return {
      hosts: parsed.hosts.map((host) => shownHost(host, parsed.isSRV)),
      username: parsed.username === '' ? null : decodeURIComponent(parsed.username),
      password: parsed.password === '' ? null : decodeURIComponent(parsed.password),
      database: parsed.pathname === '/' ? null : decodeURIComponent(parsed.pathname.slice(1)),
      options: options.map(([name, value]) => [name.toLowerCase(), value]),
    };
  } catch (error) {
    return { error: `${error.name}: ${error.message}` };
  }
}

const texts = JSON.parse(readFileSync(process.argv[2], 'utf8'));
console.log(JSON.stringify(texts.map(parse)));
