/** A page with a synthetic record: ?record=matmul|doubling|large, ?nodes=10000, ?theme=dark */
import { Session } from "../src/protocol/session.ts";
import { mountDebugger } from "../src/views/debugger.ts";
import { FakeHost } from "./host.ts";
import { doublingRecord, largeRecord, matmulRecord } from "./record.ts";

const query = new URLSearchParams(location.search);
document.body.dataset.jpThemeLight = String(query.get("theme") !== "dark");
if (query.get("theme") === "dark") document.body.style.background = "#111";

const kind = query.get("record") ?? "matmul";
const nodes = Number(query.get("nodes") ?? 10_000);
const record =
  kind === "large"
    ? largeRecord(nodes)
    : kind === "doubling"
      ? doublingRecord(100)
      : matmulRecord();
const host = new FakeHost(record);
const session = new Session(host, record.overview, null);
mountDebugger(document.querySelector<HTMLElement>("#view")!, session, new AbortController().signal);
Object.assign(globalThis, { host, session });
