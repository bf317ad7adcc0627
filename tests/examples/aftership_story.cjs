// The same story through AfterShip's own Node SDK: node aftership_story.cjs ADDRESS KEY SLUG NUMBER.
// Signed where AES or RSA and a secret or a private key follow.
// NODE_PATH names the folder of modules in which it is installed. Writes a line of JSON a step.
"use strict";

const { AfterShip } = require("@aftership/tracking-sdk");

const [address, key, slug, number, auth_type, api_secret] = process.argv.slice(2);
const UNKNOWN = "0".repeat(32);
const TRIES_MOST = 500;

const say = (step, what) => console.log(JSON.stringify({ step, ...what }));

const refusalOf = (error) => ({
  raised: error.constructor.name,
  code: error.code,
  meta_code: error.meta_code,
  status: error.status_code,
});

async function refusal(step) {
  try {
    await step();
  } catch (error) {
    return refusalOf(error);
  }
  return { raised: null };
}

async function limited(step) {
  for (let tries = 0; tries < TRIES_MOST; tries += 1) {
    try {
      await step();
    } catch (error) {
      const headers = error.response_headers;
      const milliseconds = Number(headers["x-ratelimit-reset"]) * 1000 - Date.now();
      await new Promise((resume) => setTimeout(resume, Math.max(0, milliseconds)));
      return { ...refusalOf(error), remaining: [headers["x-ratelimit-remaining"]] };
    }
  }
  return { raised: null };
}

async function main() {
  const open = { api_key: key, domain: address, max_retry: 0 };
  const client = new AfterShip(auth_type ? { ...open, auth_type, api_secret } : open);
  const { tracking, courier } = client;

  const couriers = (await courier.getCouriers()).data;
  say("couriers", { total: couriers.total === couriers.couriers.length });
  const found = (await courier.detectCourier({ tracking_number: number })).data;
  say("detect", { slug: found.couriers[0].slug });
  const wanted = { tracking_number: number, title: "Order 7", customers: [{ name: "A. Buyer" }] };
  const made = (await tracking.createTracking(wanted)).data;
  say("create", { slug: made.slug, number: made.tracking_number, title: made.title });
  const listed = (await tracking.getTrackings({ keyword: "order 7", limit: 10, slug })).data;
  const ids = listed.trackings.map((each) => each.id === made.id);
  say("list", { ids, total: listed.pagination.total });
  const got = (await tracking.getTrackingById(made.id)).data;
  const at = got.checkpoints[got.checkpoints.length - 1].checkpoint_time;
  say("get", { tag: got.tag, at, name: got.customers[0].name });
  const changed = (await tracking.updateTrackingById(made.id, { note: "fragile" })).data;
  say("update", { note: changed.note, title: changed.title });
  say("duplicate", await refusal(() => tracking.createTracking({ ...wanted, slug })));
  say("unknown", await refusal(() => tracking.getTrackingById(UNKNOWN)));
  say("not offered", await refusal(() => client.courierConnection.getCourierConnections()));
  const reason = { reason: "DELIVERED" };
  const ended = (await tracking.markTrackingCompletedById(made.id, reason)).data;
  say("complete", { tag: ended.tag, active: ended.active });
  const again = (await tracking.retrackTrackingById(made.id)).data;
  say("retrack", { tag: again.tag, active: again.active });
  say("limited", await limited(() => tracking.getTrackingById(made.id)));
  say("delete", { id: (await tracking.deleteTrackingById(made.id)).data.id === made.id });
  say("gone", await refusal(() => tracking.getTrackingById(made.id)));
  const nobody = new AfterShip({ api_key: "tk_nobody", domain: address, max_retry: 0 });
  say("no key", await refusal(() => nobody.courier.getCouriers()));
  say("unsigned", await refusal(() => new AfterShip(open).courier.getCouriers()));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
