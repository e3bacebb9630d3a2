// The link between a page and the kernel: every message kind, who is there, and what that means.
//
// The kernel's half is `views/messages.py` (page to kernel) and `host/letters.py` (kernel to page).
// No trait is ever written here: the page asks, by messages.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Fields = Record<string, unknown>;

/** What anywidget gives us; also what the tests give us. */
export interface Model {
  get(name: string): unknown;
  send(content: Fields, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(name: string, fn: (...args: never[]) => void): void;
  widget_manager?: unknown;
}

export type PageToKernel =
  | { kind: "hello"; page: string }
  | { kind: "ack"; page: string; epoch: number; rev: number }
  | { kind: "ack"; page: string; seq: number }
  | { kind: "resync"; page: string }
  | { kind: "command"; page: string; id: string; action: string; args: Json | undefined; epoch: number; ifRev?: number }
  | { kind: "cancel" | "forget"; id: string }
  | { kind: "op"; page: string; id: string; [field: string]: Json }
  | { kind: "prompt"; page: string; id: string; text: string; mode: PromptMode }
  | { kind: "abort" | "queue" | "logs" | "view"; page: string }
  | { kind: "answer"; question: string; value: string | boolean | null }
  | { kind: "restart" | "stop" };

export type PromptMode = "prompt" | "steer" | "followUp";
export type Version = readonly [epoch: number, rev: number];

/** The trait that both views have. */
export interface Info {
  agent: string;
  title: string;
  lifecycle: "starting" | "ready" | "error" | "ended";
  detail: string;
  closed: boolean;
  epoch: number;
  busy: boolean;
  model: string;
  /** Files of the source that are newer than the agent. */
  changes?: string[];
  turns: number;
  available?: boolean;
  channel?: "prompt" | "command" | "unavailable";
  hint?: string;
}

/**
 * `live`: the kernel answers. `busy`: it has not answered yet, a cell is running. `silent`: it has
 * not answered, nobody knows why. `lost`: the connection is down. `gone`: this kernel will never
 * answer. `static`: there was none from the start.
 */
export type LinkStatus = "connecting" | "live" | "busy" | "silent" | "lost" | "gone" | "static";

/** A kernel that has not answered by then is busy, or not there. */
export const PATIENCE = 1500;
const LOOK = 1000;
// Each question makes the kernel busy for a moment, and JupyterLab shows that.
const LOOK_AGAIN = 10_000;

export function isNewer(a: Version, b: Version): boolean {
  return a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]);
}

export function randomId(): string {
  const words = crypto.getRandomValues(new Uint32Array(2));
  return Array.from(words, (word) => word.toString(36)).join("");
}

const decoder = new TextDecoder();

/** A buffer's JSON; undefined for an empty one. */
export function decode(buffer: DataView | undefined): Json | undefined {
  if (!buffer || buffer.byteLength === 0) return undefined;
  return JSON.parse(decoder.decode(buffer)) as Json;
}

export function decodeText(buffer: DataView | undefined): string {
  return buffer ? decoder.decode(buffer) : "";
}

type KernelState = "none" | "dead" | "busy" | "idle" | "lost" | "unknown";

/**
 * What JupyterLab's widget manager says of the kernel, where there is one that says something.
 * It is no public interface: everything is optional, and without it we only know who answers.
 */
function lookAtKernel(manager: unknown): KernelState {
  if (typeof manager !== "object" || manager === null || !("kernel" in manager)) return "unknown";
  let kernel: unknown;
  try {
    kernel = manager.kernel;
  } catch {
    return "unknown";
  }
  if (!kernel) return "none";
  const { status, connectionStatus, isDisposed } = kernel as Fields;
  if (isDisposed === true) return "none";
  if (status === "dead") return "dead";
  if (typeof connectionStatus === "string" && connectionStatus !== "connected") return "lost";
  if (status === "busy") return "busy";
  return typeof status === "string" ? "idle" : "unknown";
}

type Handler = (content: Fields, buffers: DataView[]) => void;

/** One per model and page, however often the model is displayed. */
export class Link {
  /** This page's name for itself. It names the model too: two views of one page differ. */
  readonly page = randomId();
  status: LinkStatus = "connecting";
  readonly #model: Model;
  readonly #handlers = new Map<string, Handler>();
  readonly #watchers = new Set<() => void>();
  #askedAt = 0;
  #answered = false;
  #displays = 0;
  #looker: ReturnType<typeof setInterval> | undefined;
  #ids = 0;

  constructor(model: Model) {
    this.#model = model;
    model.on("msg:custom", (content: Fields, buffers: DataView[]) => {
      if (typeof content?.["kind"] !== "string") return;
      const to = content["to"];
      if (to !== undefined && to !== this.page && to !== "*") return;
      // What goes to everybody proves nothing: it also comes while our own messages have to wait.
      if (to === this.page) this.heard();
      this.#handlers.get(content["kind"])?.(content, buffers ?? []);
    });
    // The kernel was restarted or has died: this model's comm is gone for good.
    model.on("comm_live_update", () => this.#lose());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && this.#displays > 0) this.look();
    });
  }

  info(): Info {
    return this.#model.get("info") as Info;
  }

  get<T>(trait: string): T {
    return this.#model.get(trait) as T;
  }

  onTraits(names: string[], fn: () => void): void {
    for (const name of names) this.#model.on(`change:${name}`, fn);
  }

  onMessage(kind: string, fn: Handler): void {
    this.#handlers.set(kind, fn);
  }

  /** Have `fn` called when the status changes. Returns what ends it. */
  watch(fn: () => void): () => void {
    this.#watchers.add(fn);
    return () => this.#watchers.delete(fn);
  }

  newId(): string {
    return `${this.page}.${++this.#ids}`;
  }

  /** A person looks at it: ask, if that was not done just now. */
  look(): void {
    if (Date.now() - this.#askedAt > LOOK_AGAIN) this.hello();
  }

  /** A display is there; while there is one, we look after the kernel. */
  display(): () => void {
    this.#displays += 1;
    this.#looker ??= setInterval(() => this.#look(), LOOK);
    let shown = true;
    return () => {
      if (!shown) return;
      shown = false;
      this.#displays -= 1;
      if (this.#displays === 0) {
        clearInterval(this.#looker);
        this.#looker = undefined;
      }
    };
  }

  get usable(): boolean {
    return this.status !== "gone" && this.status !== "static";
  }

  /** Ask whether anybody is there. */
  hello(): void {
    this.#answered = false;
    this.#askedAt = Date.now();
    this.send({ kind: "hello", page: this.page });
    setTimeout(() => this.#look(), PATIENCE + 20);
  }

  /** False if it surely did not leave. */
  send(message: PageToKernel): boolean {
    if (this.status === "gone") return false;
    try {
      this.#model.send(message);
      return true;
    } catch {
      this.#lose();
      return false;
    }
  }

  /** Something waits for an answer since `since`: the kernel may be busy. */
  expect(since: number): void {
    if (!this.#answered) return;
    this.#answered = false;
    this.#askedAt = since;
    setTimeout(() => this.#look(), PATIENCE + 20);
  }

  /** Something that we have sent was answered. */
  heard(): void {
    this.#answered = true;
    if (this.status !== "gone") this.#become("live");
  }

  #lose(): void {
    this.#become("gone");
  }

  #look(): void {
    if (this.status === "gone") return;
    const kernel = lookAtKernel(this.#model.widget_manager);
    const wasAway = this.status === "lost" || this.status === "static";
    if (kernel === "none" || kernel === "dead") {
      this.#become(this.status === "connecting" || this.status === "static" ? "static" : "gone");
    } else if (kernel === "lost") {
      this.#become("lost");
    } else if (wasAway) {
      this.#become("connecting");
      this.hello();
    } else if (!this.#answered && Date.now() - this.#askedAt >= PATIENCE) {
      this.#become(kernel === "busy" ? "busy" : "silent");
    }
  }

  #become(status: LinkStatus): void {
    if (this.status === status) return;
    this.status = status;
    for (const fn of [...this.#watchers]) fn();
  }
}

/** What a person may know and do now. `live` and `pending` can be written to. */
export interface Standing {
  tone: "live" | "pending" | "stale" | "dead";
  label: string;
  writable: boolean;
  canRestart: boolean;
}

/** The truth in one sentence: first about the kernel, then about the agent. */
export function standingOf(link: LinkStatus, info: Info): Standing {
  const dead = { tone: "dead", writable: false, canRestart: false } as const;
  switch (link) {
    case "gone":
      return { ...dead, label: "The kernel is gone; this is the last picture. Run the cell again." };
    case "static":
      return { ...dead, label: "No kernel; this is the saved picture. Run the cell to go on." };
    case "lost":
      return { ...dead, label: "The connection to the kernel is lost; waiting for it." };
    case "busy":
      return { tone: "pending", label: "Waiting for the kernel (a cell is running)", writable: true, canRestart: false };
    case "silent":
      return { tone: "pending", label: "No answer from the kernel: it is busy, or does not know this view", writable: true, canRestart: false };
    default:
  }
  if (info.closed) return { ...dead, label: "Closed. Run %piweb again to go on." };
  switch (info.lifecycle) {
    case "starting":
      return { tone: "pending", label: info.detail ? `Starting: ${info.detail}` : "Starting", writable: true, canRestart: false };
    case "error":
    case "ended":
      return { ...dead, label: info.detail || "The agent is not running", canRestart: true };
    case "ready":
      break;
  }
  if (info.busy) return { tone: "live", label: "Working", writable: true, canRestart: false };
  return { tone: "live", label: "Live", writable: true, canRestart: false };
}
