// What a person does with a price table, each until its change has been drawn.

const { show, receive, frame, drawn, timed } = window.page;
const head = await (await fetch("/head.json")).json();
show(JSON.stringify({ title: "prices", version: 1, notes: [] }));

async function page(number) {
  const { start, end, sizes } = head.pages[number];
  const bytes = await (await fetch(`/page/${number}`)).arrayBuffer();
  let at = 0;
  const buffers = sizes.map((size) => new DataView(bytes, (at += size) - size, size));
  const content = { type: number ? "rows" : "table", view: "", version: 1, start, end };
  if (!number) content.table = head.table;
  receive({ method: "custom", content }, buffers);
}

const one = (selector) => document.querySelector(selector);
const headers = () => [...document.querySelectorAll(".nbprov-head button")];
async function type(text) {
  const box = one(".nbprov-search");
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
}

export async function measure() {
  const figures = {};
  figures.first = await timed(() => page(0));
  figures.all = figures.first;
  for (let i = 1; i < head.pages.length; i++) figures.all += await timed(() => page(i));
  const press = (label) => headers().find((b) => b.textContent.startsWith(label)).click();
  figures.sort = await timed(() => press("$/h"));
  figures.sort_words = await timed(() => press("region"));
  figures.search = await timed(() => type("h100 europe"));
  await type("");
  await drawn();
  one(".nbprov-menu-button").click();
  figures.facet = await timed(() => one(".nbprov-choice input").click());
  one(".nbprov-choice input").click();
  await drawn();
  const grid = one(".nbprov-grid");
  const frames = [];
  let before = await frame();
  for (let i = 0; i < 120; i++) {
    grid.scrollTop += 400;
    const now = await frame();
    frames.push(now - before);
    before = now;
  }
  frames.sort((a, b) => a - b);
  figures.frame = frames[60];
  figures.frame_95 = frames[113];
  return figures;
}
