// Numbers and durations as text. The tests of the static forms use the same cases, because both
// forms must write the same.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import {
  age,
  costAt,
  duration,
  localTime,
  localTimes,
  makeClock,
  otherDay,
  quantity,
  splitAddress,
  splitInstant,
  usd,
} from "../../../widgets/format.js";

const cases = JSON.parse(readFileSync(new URL("./format_cases.json", import.meta.url), "utf8"));
const now = Date.UTC(2026, 10, 21, 7, 9, 10);
const functions = { usd, duration, quantity, age: (text) => age(text, now) };

for (const [name, pairs] of Object.entries(cases)) {
  test(`${name} writes what the static forms write`, () => {
    for (const [value, words] of pairs) assert.equal(functions[name](value), words);
  });
}

test("only the address of a tunnel, where a line begins with it, is a link", () => {
  assert.deepEqual(splitAddress("http://127.0.0.1:6007 is port 6006 of dev"), [
    "http://127.0.0.1:6007",
    " is port 6006 of dev",
  ]);
  assert.equal(
    splitAddress("http://127.0.0.1:8787/status is Dask's dashboard of gang")[0],
    "http://127.0.0.1:8787/status",
  );
  assert.equal(
    splitAddress("http://203.0.113.7:41003 is public port 8000 of dev")[0],
    "http://203.0.113.7:41003",
  );
  assert.equal(
    splitAddress("https://[2001:db8::1]:8443 is public port 8443 of dev")[0],
    "https://[2001:db8::1]:8443",
  );
  for (const line of [
    "see http://127.0.0.1:1 is x",
    "http://127.0.0.1.evil.org is x",
    "https://host is x",
    "http://127.0.0.1:1@host is x",
    "http://a:1@host:2 is public port 1 of dev",
    "http://host:1/x is public port 1 of dev",
    "javascript:1 is x",
    "guards: none",
  ]) {
    assert.deepEqual(splitAddress(line), ["", line]);
  }
});

test("an unknown quantity is a dash", () => assert.equal(quantity(NaN), "–"));

test("a cost grows by its hourly price and never shrinks", () => {
  assert.equal(costAt(1000, 3_600_000, 100, 101), 2000);
  assert.equal(costAt(1000, 3_600_000, 100, 90), 1000);
});

test("the clock follows the browser's pace, not its time, and stops after an hour", () => {
  let pace = 5;
  const clock = makeClock(() => pace);
  clock.set(1_000_000);
  pace = 12;
  assert.equal(clock.now(), 1_000_007);
  pace = 90_000;
  assert.equal(clock.now(), 1_003_600);
});

test("instants are split from a text and shown in the reader's zone", () => {
  const text = "waiting until 2026-11-21 23:09:10 UTC; next";
  assert.deepEqual(splitInstant(text), ["waiting until ", "2026-11-21T23:09:10Z", "; next"]);
  assert.deepEqual(splitInstant("attempt 2"), ["attempt 2", "", ""]);
  assert.equal(localTime("2026-11-21T23:09:10Z", "UTC"), "2026-11-21 23:09:10 UTC");
  assert.match(localTime("2026-11-21T23:09:10Z", "Asia/Tokyo"), /^2026-11-22 08:09:10 GMT\+9$/);
  const two = `${text} at 2026-12-31 15:00:00 UTC`;
  assert.equal(
    localTimes(two, "Asia/Tokyo"),
    "waiting until 2026-11-22 08:09:10 GMT+9; next at 2027-01-01 00:00:00 GMT+9",
  );
  assert.equal(localTimes(two, "UTC"), two);
});

test("a reader whose days begin at another time than the kernel's is told when today began", () => {
  const midnight = Date.parse("2026-11-21T00:00:00Z") / 1000;
  assert.equal(otherDay(midnight, "UTC"), "");
  assert.equal(otherDay(midnight, "Africa/Abidjan"), "", "its name is another, its days are not");
  assert.equal(otherDay(midnight, "Asia/Tokyo"), "2026-11-21 00:00:00 UTC");
  assert.equal(otherDay(midnight - 9 * 3600, "Asia/Tokyo"), "");
});
