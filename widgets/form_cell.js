// The `%%provision` cell that a form's answers make.

/** @typedef {import("./types").FormAnswers} FormAnswers */

const NAME = /^[A-Za-z][\w-]*$/;

/**
 * Return the cell of these answers; what was left open is left out.
 * @param {FormAnswers} answers
 */
export function cellOfAnswers({ name, gpu, count, cpus, places, market, most, idle }) {
  /** @type {string[]} */
  const lines = [];
  if (gpu) lines.push(`accelerators: ${gpu}:${count || "1"}`);
  else lines.push(`cpus: ${cpus || "2"}+`);
  const [place] = places;
  if (places.length > 1) lines.push(`region: [${places.join(", ")}]`);
  else if (place) lines.push(`region: ${place}`);
  if (market === "spot") lines.push("use_spot: true");
  if (market === "prefer") lines.push("use_spot: prefer");
  if (Number(most) > 0) lines.push(`max_hourly_cost: ${most}`);
  if (Number(idle) > 0) lines.push(`autostop: ${idle}`);
  const words = NAME.test(name) ? `%%provision ${name}` : "%%provision";
  return [words, "resources:", ...lines.map((line) => `  ${line}`), ""].join("\n");
}
