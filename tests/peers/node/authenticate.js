// Authenticates with the Node.js driver by each mechanism.
//
// Usage: node authenticate.js URI TOKEN_DIRECTORY
//
// The URI has no user, and the option tlsCAFile; client.pem is beside that file. Prints one JSON
// object with the result of each case: the name of the user, or the code of the error.

import { readFile } from "node:fs/promises";
import path from "node:path";

import { MongoClient } from "mongodb";

// Time limit of the whole run, in milliseconds.
const RUN_TIMEOUT_MS = 50_000;
const AWS_VARIABLES = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

const [uri, tokens] = process.argv.slice(2);
if (!uri || !tokens) {
  console.error("usage: node authenticate.js URI TOKEN_DIRECTORY");
  process.exit(2);
}

async function logIn(options, before = async () => {}, address = uri) {
  const client = new MongoClient(address, { serverSelectionTimeoutMS: 5000, ...options });
  try {
    await before(client);
    await client.db("peer").collection("items").findOne({});
    const status = await client.db("admin").command({ connectionStatus: 1 });
    return status.authInfo.authenticatedUsers[0].user;
  } catch (error) {
    return error.code ?? error.message;
  } finally {
    await client.close();
  }
}

const withPassword = (authMechanism, password = "pencil") => {
  const options = authMechanism ? { authMechanism } : {};
  if (authMechanism === "PLAIN") options.authSource = "$external";
  return logIn({ auth: { username: "ada", password }, ...options });
};

const aws = (...values) => {
  AWS_VARIABLES.forEach((name, place) => {
    if (values[place] === undefined) delete process.env[name];
    else process.env[name] = values[place];
  });
  return logIn({ authMechanism: "MONGODB-AWS" });
};

const oidc = (authMechanismProperties, { username, before } = {}) => {
  const address = username ? uri.replace("://", `://${username}@`) : uri;
  return logIn({ authMechanism: "MONGODB-OIDC", authMechanismProperties }, before, address);
};

const fromFile = (name) => {
  process.env.OIDC_TOKEN_FILE = path.join(tokens, name);
  return oidc({ ENVIRONMENT: "test" });
};

// Returns a callback with the token of a user, which counts its calls.
const callback = (name) => {
  const fetch = async ({ idpInfo }) => {
    fetch.calls += 1;
    fetch.issuer ??= idpInfo?.issuer;
    return { accessToken: await readFile(path.join(tokens, name), "utf8") };
  };
  fetch.calls = 0;
  return fetch;
};

const demandReauthentication = (client) =>
  client.db("admin").command({
    configureFailPoint: "failCommand",
    mode: { times: 1 },
    data: { failCommands: ["find"], errorCode: 391 },
  });

async function run() {
  const authority = new URL(uri.replace("mongodb:", "http:")).searchParams.get("tlsCAFile");
  const certificate = path.join(path.dirname(authority), "client.pem");
  const human = callback("test_user1");
  const again = callback("test_user2");
  const results = {
    negotiated: await withPassword(null),
    "negotiated wrong": await withPassword(null, "chalk"),
    x509: await logIn({ authMechanism: "MONGODB-X509", tlsCertificateKeyFile: certificate }),
    aws: await aws("AKIA1", "secret1"),
    "aws token": await aws("ASIA2", "secret2", "token/+="),
    "aws wrong": await aws("AKIA1", "secret2"),
    "aws without token": await aws("ASIA2", "secret2"),
    "oidc file": await fromFile("test_user1"),
    "oidc expired": await fromFile("test_expired"),
    "oidc machine": await oidc({ OIDC_CALLBACK: callback("test_machine") }),
    "oidc human": await oidc({ OIDC_HUMAN_CALLBACK: human }, { username: "test_user1" }),
    "oidc human issuer": human.issuer ?? null,
    "oidc again": await oidc({ OIDC_CALLBACK: again }, { before: demandReauthentication }),
    "oidc again calls": again.calls,
  };
  for (const mechanism of ["SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN"]) {
    results[mechanism] = await withPassword(mechanism);
    results[`${mechanism} wrong`] = await withPassword(mechanism, "chalk");
  }
  return results;
}

setTimeout(() => {
  console.error("the run did not end in time");
  process.exit(3);
}, RUN_TIMEOUT_MS).unref();
console.log(JSON.stringify(await run(), null, 2));
process.exit(0);
