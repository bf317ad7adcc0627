// Takes webhooks and checks their signatures; needs Node alone.
//
//   WEBHOOK_SECRET=whsec_… node examples/verify_webhook.js 8000

const { createHmac, timingSafeEqual } = require("node:crypto");
const { createServer } = require("node:http");

// A request that is older, or of the future, may be one that somebody recorded and sends again.
const TOLERANCE_SECONDS = 300;

const same = (one, other) => one.length === other.length && timingSafeEqual(one, other);

// `body` is what arrived, as a Buffer, before anything reads it.
function verify(secret, headers, body) {
  const id = headers["webhook-id"] ?? "";
  const sentAt = headers["webhook-timestamp"] ?? "";
  if (!/^\d+$/.test(sentAt) || Math.abs(Date.now() / 1000 - Number(sentAt)) > TOLERANCE_SECONDS) return false;
  const hmac = createHmac("sha256", Buffer.from(secret.replace(/^whsec_/, ""), "base64"));
  const expected = Buffer.from("v1," + hmac.update(`${id}.${sentAt}.`).update(body).digest("base64"));
  // Several while a secret is changed. Compared in constant time: no answer comes sooner.
  const given = (headers["webhook-signature"] ?? "").split(" ");
  return given.some((each) => same(Buffer.from(each), expected));
}

const giveUp = (why) => {
  console.error(why);
  process.exit(1);
};

const secret = process.env.WEBHOOK_SECRET ?? "";
if (!/^whsec_[A-Za-z0-9+/]+=*$/.test(secret)) {
  giveUp("WEBHOOK_SECRET is not set: write the whsec_… that was shown when the service was made");
}
if (process.argv.length !== 3) giveUp("usage: verify_webhook.js PORT");

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  if (!verify(secret, request.headers, body)) return response.writeHead(401).end();
  // The same webhook-id may come twice: do what it asks for once, after this answer.
  console.log(`${request.headers["webhook-id"]} ${JSON.parse(body).type}`);
  // Another answer than 2xx, and the webhook comes again.
  return response.writeHead(204).end();
}).listen(Number(process.argv[2]), "127.0.0.1");
