// Numbers, durations and ages as text, exactly as the static forms write them.

export const DASH = "–";
export const MICROS = 1e6;

const CENTS = new Intl.NumberFormat("en-US", {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});
const FINE = new Intl.NumberFormat("en-US", { minimumFractionDigits: 4, maximumFractionDigits: 4 });
const COUNT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/**
 * Return micro-dollars as dollars, with more digits for small amounts.
 * @param {number} micros
 */
export function usd(micros) {
  const size = Math.abs(micros);
  const format = size === 0 || size >= MICROS / 10 ? CENTS : FINE;
  return `${micros < 0 ? "-" : ""}$${format.format(size / MICROS)}`;
}

/** @param {number} value */
export function count(value) {
  return COUNT.format(value);
}

/**
 * Return a number without trailing zeros, or a dash where it is unknown.
 * @param {number} value
 */
export function quantity(value) {
  return Number.isNaN(value) ? DASH : String(Number(value.toPrecision(6)));
}

/**
 * Return a duration as people say it.
 * @param {number} seconds
 */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return pair(minutes, "min", whole % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair(hours, "h", minutes % 60, "min");
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

/**
 * @param {number} big
 * @param {string} bigUnit
 * @param {number} small
 * @param {string} smallUnit
 */
function pair(big, bigUnit, small, smallUnit) {
  return small ? `${big} ${bigUnit} ${small} ${smallUnit}` : `${big} ${bigUnit}`;
}

const DAY_MS = 86_400_000;
const OLD_DAYS = 30;
const STALE_DAYS = 180;

/**
 * Return how many days ago a date was; NaN where the text is not a date.
 * @param {string} asOf
 * @param {number} nowMs
 */
function daysSince(asOf, nowMs) {
  return Math.floor(nowMs / DAY_MS) - Math.floor(Date.parse(asOf.slice(0, 10)) / DAY_MS);
}

/**
 * Return the age of a price of that date; the text itself where it is not a date.
 * @param {string} asOf
 * @param {number} nowMs
 */
export function age(asOf, nowMs) {
  const days = daysSince(asOf, nowMs);
  if (Number.isNaN(days)) return asOf || DASH;
  if (days <= 0) return "today";
  return `${days < OLD_DAYS ? "" : days < STALE_DAYS ? "△ old, " : "▲ stale, "}${days} d`;
}

/**
 * Return the tone of a price of that date: a price may have changed since.
 * @param {string} asOf
 * @param {number} nowMs
 */
export function ageTone(asOf, nowMs) {
  const days = daysSince(asOf, nowMs);
  return days >= STALE_DAYS ? "bad" : days >= OLD_DAYS ? "warn" : "";
}

/**
 * Return the value of a growing amount at a given time.
 * @param {number} cost micros at `at`
 * @param {number} hourly micros per hour
 * @param {number} at
 * @param {number} now
 */
export function costAt(cost, hourly, at, now) {
  return cost + (hourly * Math.max(0, now - at)) / 3600;
}

// Seconds without a message from the kernel after which costs stop growing, because the kernel may
// have ended and the guards may have acted.
const LONGEST_GUESS = 3600;

/**
 * Make a clock that follows the kernel's time. The browser's clock may be set wrong, so only its
 * pace is used.
 * @param {() => number} pace seconds since any moment
 */
export function makeClock(pace = () => performance.now() / 1000) {
  let base = 0;
  let at = 0;
  return {
    /** @param {number} now */
    set(now) {
      base = now;
      at = pace();
    },
    now: () => base + Math.min(pace() - at, LONGEST_GUESS),
  };
}

/**
 * Split a line into the address of a tunnel or public port at its start, and the rest.
 * No other address becomes a link, because lines may hold words of a machine.
 * @param {string} line
 * @returns {[string, string]}
 */
export function splitAddress(line) {
  const tunnel = /^http:\/\/127\.0\.0\.1:\d{1,5}(?:\/[A-Za-z0-9._/-]*)?(?= is )/.exec(line);
  const open =
    /^https?:\/\/(?:[A-Za-z0-9.-]{1,253}|\[[0-9a-f:]{2,39}\]):\d{1,5}(?= is public port \d)/.exec(
      line,
    );
  const address = (tunnel ?? open)?.[0] ?? "";
  return [address, line.slice(address.length)];
}

const INSTANT = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/;

/**
 * Split a text at its first instant: what is before it, the instant as ISO 8601, and the rest.
 * @param {string} text
 * @returns {[string, string, string]}
 */
export function splitInstant(text) {
  const found = INSTANT.exec(text);
  if (!found) return [text, "", ""];
  const rest = text.slice(found.index + found[0].length);
  return [text.slice(0, found.index), `${found[1]}T${found[2]}Z`, rest];
}

/**
 * Return an instant in the reader's own zone, which is named.
 * @param {string} iso
 * @param {string} [zone] the reader's zone by default
 */
export function localTime(iso, zone) {
  // Swedes write dates as ISO 8601 does.
  const style = { dateStyle: "short", timeStyle: "long", timeZone: zone };
  return new Date(iso).toLocaleString("sv-SE", /** @type {Intl.DateTimeFormatOptions} */ (style));
}

/**
 * Return a text with all its instants in the reader's own zone.
 * @param {string} text
 * @param {string} [zone] the reader's zone by default
 * @returns {string}
 */
export function localTimes(text, zone) {
  const [before, iso, rest] = splitInstant(text);
  return iso ? before + localTime(iso, zone) + localTimes(rest, zone) : before;
}

/**
 * Return when the kernel's day began, as it writes instants, where that was not at the reader's
 * midnight; empty where both have the same days.
 * @param {number} began seconds since the epoch
 * @param {string} [zone] the reader's zone by default
 */
export function otherDay(began, zone) {
  const iso = new Date(began * 1000).toISOString();
  if (localTime(iso, zone).slice(11, 19) === "00:00:00") return "";
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
}
