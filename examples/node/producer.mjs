// Asks for one parcel with jackd: cd examples/node && npm ci
//
//   node examples/node/producer.mjs usps 9405903699300184125060 order-1042

const giveUp = (why) => {
  console.error(why);
  process.exit(1);
};

// Imported late, so that its absence can be told.
const { default: Jackd } = await import("jackd").catch(() =>
  giveUp("jackd is not installed: cd examples/node && npm ci"),
);

if (process.argv.length !== 5) giveUp("usage: producer.mjs SLUG NUMBER ID");
const [slug, number, id] = process.argv.slice(2);
const address = process.env.BEANSTALKD ?? "127.0.0.1:11300";
const [, host, port] =
  address.match(/^(.+):(\d+)$/) ?? giveUp(`BEANSTALKD is '${address}': write host:port, like 127.0.0.1:11300`);

try {
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
} catch (error) {
  giveUp(`beanstalkd at ${address} (BEANSTALKD names another) did not take the job: ${error.message}`);
}
