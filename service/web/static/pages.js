// What htmx must not do here, and the few things that pages do with a script. Without it they work.
"use strict";

// A hidden page asks for nothing; what it shows is asked for once it is seen again.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.elt.hasAttribute("data-live")) event.preventDefault();
});

// A live fragment is sent again only where it has changed.
document.addEventListener("htmx:configRequest", (event) => {
  const etag = event.detail.elt.dataset.etag;
  if (etag) event.detail.headers["If-None-Match"] = etag;
});
document.addEventListener("htmx:afterRequest", (event) => {
  const etag = event.detail.xhr && event.detail.xhr.getResponseHeader("ETag");
  if (etag && event.detail.elt.hasAttribute("data-live")) event.detail.elt.dataset.etag = etag;
});

// What a server did not answer stays as it was, and says so (style.css).
document.addEventListener("htmx:afterRequest", (event) => {
  event.detail.elt.classList.toggle("unanswered", !event.detail.successful);
});

// Times are written in UTC by the server, and here as the clock on the wall has them.
const wall = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
function writeTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]:not([title])")) {
    const at = new Date(each.dateTime);
    if (isNaN(at)) continue;
    each.title = each.textContent;
    each.textContent = wall.format(at);
  }
}
document.addEventListener("htmx:afterSettle", (event) => writeTimes(event.target));
writeTimes(document);

// A button that copies what stands in another element; without a script it is not there.
for (const each of document.querySelectorAll("button[data-copy]")) {
  each.hidden = !navigator.clipboard;
  each.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(each.dataset.copy).textContent);
    each.textContent = "Copied";
  });
}

// What somebody has chosen is not swapped for a suggestion that comes later.
document.addEventListener("change", (event) => {
  if (event.target.closest("[data-suggested]")) event.target.dataset.chosen = "";
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target } = event.detail;
  if (target.hasAttribute("data-suggested") && target.querySelector("[data-chosen]"))
    event.detail.shouldSwap = false;
});
