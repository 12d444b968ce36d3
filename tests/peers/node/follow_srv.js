// Follows the SRV records of a deployment with the Node.js driver.
//
// Usage: node follow_srv.js URI NAME_SERVER_PORT
//
// Asks the name server at this port of 127.0.0.1. All hosts have the address 127.0.0.1. Prints
// "ready" and then, after each change, the ports of the hosts that the client knows. Reads all the
// time; an error ends the program.

import dns from "node:dns";
import { createRequire } from "node:module";

// The interval at which the driver looks up SRV records is a constant of 60 seconds.
const RESCAN_INTERVAL_MS = 60_000;
const SHORT_INTERVAL_MS = 300;

const require = createRequire(import.meta.url);
const timers = require("timers");
const setSystemTimeout = timers.setTimeout;
timers.setTimeout = (callback, delay, ...rest) =>
  setSystemTimeout(callback, delay === RESCAN_INTERVAL_MS ? SHORT_INTERVAL_MS : delay, ...rest);

const { MongoClient } = require("mongodb");

const [uri, port] = process.argv.slice(2);
const servers = [`127.0.0.1:${port}`];
dns.setServers(servers);
dns.promises.setServers(servers);

const lookup = (hostname, options, callback) => {
  const address = { address: "127.0.0.1", family: 4 };
  if (options.all) callback(null, [address]);
  else callback(null, address.address, address.family);
};

const client = new MongoClient(uri, { lookup, heartbeatFrequencyMS: 500 });
client.on("topologyDescriptionChanged", ({ newDescription }) => {
  const ports = [...newDescription.servers.keys()].map((address) => address.split(":")[1]);
  console.log(["hosts", ...ports.sort()].join(" "));
});
await client.connect();
console.log("ready");
for (;;) {
  await client.db("peer").collection("items").findOne({});
  await new Promise((resolve) => setSystemTimeout(resolve, 20));
}
