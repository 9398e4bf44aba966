// Perfetto's trace processor (WebAssembly) outside of a browser:
// node trace_processor.mjs FOLDER TRACE QUERIES, where FOLDER has trace_processor.wasm, engine_bundle.node.js and
// engine.mjs, and QUERIES is a JSON object of SQL texts. Prints a JSON object with the rows of each.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { runInThisContext } from "node:vm";

const [folder, trace, queries] = process.argv.slice(2);
const file = (name) => join(resolve(folder), name);

// What the bundle expects to find in a web worker: itself, its address, and a way to load the program.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function WorkerGlobalScope() {};
globalThis.location = { href: pathToFileURL(file("engine_bundle.node.js")).href };
const program = readFileSync(file("trace_processor.wasm"));
globalThis.XMLHttpRequest = class {
  open() {}
  send() {
    this.response = program;
  }
};
// stdout is for the answer.
console.log = console.info = console.warn = console.debug = () => {};

const { EngineBase } = await import(pathToFileURL(file("engine.mjs")).href);
runInThisContext(readFileSync(file("engine_bundle.node.js"), "utf8"));
const { port1, port2 } = new MessageChannel();
globalThis.onmessage({ data: port1 });

class Engine extends EngineBase {
  mode = "WASM";
  id = "trace_processor";
  rpcSendRequestBytes(bytes) {
    port2.postMessage(bytes);
  }
}
const engine = new Engine();
port2.onmessage = (message) => engine.onRpcResponseBytes(message.data);

await engine.parse(new Uint8Array(readFileSync(trace)));
await engine.notifyEof();
const answer = {};
for (const [name, sql] of Object.entries(JSON.parse(queries))) {
  const result = await engine.query(sql);
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(result.columns().map((column) => row.get(column)));
  }
  answer[name] = rows;
}
const text = JSON.stringify(answer, (_, value) => (typeof value === "bigint" ? Number(value) : value));
process.stdout.write(text, () => process.exit(0));
