// The reference gateway's own detector, timed on loads that come as JSON lines on standard input.
//
// First line: {"dist": folder of the installed package}. Then {"define": name, "tool", "args": [...], "results": [...]}
// and {"time": name, "seconds": s}, which is answered with {"rate": calls a second}. One call is detect, record and
// record the outcome, in that order, in one session that is made anew for every timing. Its log goes nowhere.
import fs from "node:fs";
import { register } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const silent = `const log = () => new Proxy({ child: log, isEnabled: () => false }, { get: (own, name) => own[name] ?? (() => {}) });
export { log as a, log as i, log as n, log as r, log as t, log as createSubsystemLogger };`;
const sendsNothing = "const no = () => false; export { no as a, no as i, no as n, no as o, no as r, no as s, no as t };";
const asUrl = (text) => `data:text/javascript,${encodeURIComponent(text)}`;

// Two of its modules lead to the whole gateway: the logger and the list of channels. Imports for their effects alone
// lead to packages that a detector does not need.
const hooks = `let given;
export const initialize = (data) => { given = data; };
export const resolve = async (name, context, next) => {
  for (const [part, url] of Object.entries(given.stubs)) if (name.includes(part)) return { url, shortCircuit: true };
  return next(name, context);
};
export const load = async (url, context, next) => {
  const loaded = await next(url, context);
  if (url.startsWith(given.dist) && loaded.source) loaded.source = String(loaded.source).replace(/^import "[^"]*";$/gm, "");
  return loaded;
};`;

async function detector(dist) {
  const stubs = { "/subsystem-": asUrl(silent), "/embedded-agent-messaging-": asUrl(sendsNothing) };
  register(asUrl(hooks), { data: { dist: pathToFileURL(path.resolve(dist)).href, stubs } });
  const holds = (name) => fs.readFileSync(path.join(dist, name), "utf8");
  const file = fs.readdirSync(dist).find((name) => /^tool-loop-detection-.*\.m?js$/.test(name) && holds(name).includes("function detectToolCallLoop"));
  if (!file) throw new Error(`no tool-loop-detection module in ${dist}`);
  const exported = /export \{([^}]*)\}/.exec(holds(file))[1];
  const module = await import(pathToFileURL(path.resolve(dist, file)).href);
  const named = (name) => module[new RegExp(`\\b${name} as (\\w+)`).exec(exported)?.[1] ?? name];
  return ["detectToolCallLoop", "recordToolCall", "recordToolCallOutcome"].map(named);
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => JSON.parse((await lines.next()).value ?? "null");
const [detect, record, settle] = await detector((await read()).dist);
const config = { enabled: true }, scope = { runId: "run-1" }, loads = {};

function rate({ tool, args, results }, seconds) {
  const state = { lastActivity: 0, state: "processing", queueDepth: 0 };
  const start = performance.now();
  let calls = 0;
  while (performance.now() - start < seconds * 1000) {
    for (let batch = 0; batch < 32; batch++, calls++) {
      const toolParams = args[calls % args.length], toolCallId = `c${calls}`;
      detect(state, tool, toolParams, config, scope);
      record(state, tool, toolParams, toolCallId, config, scope);
      settle(state, { toolName: tool, toolParams, toolCallId, result: results[calls % results.length], runId: scope.runId, config });
    }
  }
  return calls / ((performance.now() - start) / 1000);
}

for (let asked = await read(); asked; asked = await read()) {
  if (asked.define) loads[asked.define] = asked;
  else console.log(JSON.stringify({ rate: rate(loads[asked.time], asked.seconds) }));
}
process.exit(0);
