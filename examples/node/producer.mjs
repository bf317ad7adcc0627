// Asks for one parcel with jackd: cd examples/node && npm ci
//
//   node examples/node/producer.mjs usps 9405903699300184125060 order-1042

import Jackd from "jackd";

const [host, port] = (process.env.BEANSTALKD ?? "127.0.0.1:11300").split(":");
const [slug, number, id] = process.argv.slice(2);

const client = new Jackd();
await client.connect({ host, port: Number(port) });
await client.use("requests_flow");
// The same priority from every producer: the smaller number always wins, and defaults differ.
const jobId = await client.put(
  { type: "requests_flow", payload: { slug, number, id } },
  { priority: 65536, ttr: 60 },
);
await client.disconnect();
console.log(`put job ${jobId}; now: python examples/read_result.py ${slug} ${number} ${id}`);
