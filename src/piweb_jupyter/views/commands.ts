// The commands of this page: each has an id, a stage and an end; one that got no answer is sent
// again under the same id, which runs once.

import { PATIENCE, decode, type Json, type Link, type Version } from "./model";

export type Stage =
  | "sent"
  | "received"
  | "written"
  | "running"
  | "done"
  | "failed"
  | "cancelled"
  | "lost";

export interface Failure {
  code: string;
  message: string;
  details?: Json;
}

export type Outcome = { ok: true; data: Json } | { ok: false; error: Failure };

export interface Command {
  readonly id: string;
  readonly action: string;
  readonly args: Json | undefined;
  readonly sentAt: number;
  stage: Stage;
  /** The kernel has not said that it has it, for longer than it should take. */
  waiting: boolean;
  outcome: Outcome | undefined;
  readonly end: Promise<Outcome>;
}

export interface RunOptions {
  /** The state that the click was made on; by default the one that is drawn. */
  ifRev?: number;
}

// A click that is answered by then was never seen to be under way.
const NOTICE = 200;
const FINAL: ReadonlySet<Stage> = new Set(["done", "failed", "cancelled", "lost"]);
// After this long without a word the same message goes again, later twice as late.
const RESEND = 4000;
const RESEND_MOST = 32_000;
// An acknowledgement costs the server three messages; events are acknowledged in bunches.
const ACK_PAUSE = 250;
// Finished commands that are kept for the forms to look at.
const KEPT = 50;

interface Entry extends Command {
  epoch: number;
  ifRev: number | undefined;
  settle: (outcome: Outcome) => void;
  timer: ReturnType<typeof setTimeout> | undefined;
  pause: number;
}

export function isDone(command: Command): boolean {
  return FINAL.has(command.stage);
}

export class Commands {
  readonly #link: Link;
  readonly #entries = new Map<string, Entry>();
  readonly #watchers = new Set<() => void>();
  #seq = -1;
  #acking: ReturnType<typeof setTimeout> | undefined;

  constructor(link: Link) {
    this.#link = link;
    link.onMessage("events", (content, buffers) => this.#takeEvents(content, buffers));
    link.onMessage("result", (content, buffers) => {
      this.#take(["result", content["of"] as string, decode(buffers[0]) ?? null]);
    });
    link.watch(() => {
      if (link.usable) return;
      for (const entry of this.#entries.values()) {
        this.#end(entry, "lost", fail("gone", "the kernel is gone"));
      }
    });
  }

  watch(fn: () => void): () => void {
    this.#watchers.add(fn);
    return () => this.#watchers.delete(fn);
  }

  /** The commands of one action, oldest first. */
  of(action: string): Command[] {
    return [...this.#entries.values()].filter((entry) => entry.action === action);
  }

  run(action: string, args: Json | undefined, drawn: Version, ifRev?: number): Command {
    const entry = this.#enter(action, args, drawn, ifRev);
    this.#send(entry);
    // Not told at once: drawing that a click was made would put off drawing what came of it.
    setTimeout(() => !isDone(entry) && this.#tell(), NOTICE);
    setTimeout(() => {
      if (entry.stage !== "sent") return;
      entry.waiting = true;
      this.#tell();
    }, PATIENCE);
    return entry;
  }

  #enter(action: string, args: Json | undefined, drawn: Version, ifRev: number | undefined): Entry {
    let settle!: (outcome: Outcome) => void;
    const end = new Promise<Outcome>((resolve) => (settle = resolve));
    const entry: Entry = {
      id: this.#link.newId(),
      action,
      args,
      sentAt: Date.now(),
      stage: "sent",
      waiting: false,
      outcome: undefined,
      end,
      epoch: drawn[0],
      ifRev,
      settle,
      timer: undefined,
      pause: RESEND,
    };
    this.#entries.set(entry.id, entry);
    this.#trim();
    return entry;
  }

  /** An operation of an own view: into the conversation, or as a command, as the kernel decides. */
  operate(fields: { [name: string]: Json }): Promise<Outcome> {
    const entry = this.#enter("", undefined, [0, -1], undefined);
    if (!this.#link.send({ kind: "op", page: this.#link.page, ...fields, id: entry.id })) {
      this.#end(entry, "lost", fail("gone", "the kernel is gone"));
    }
    return entry.end;
  }

  cancel(command: Command): void {
    this.#link.send({ kind: "cancel", id: command.id });
  }

  /** Stop waiting; the work may go on in the agent. */
  forget(command: Command): void {
    this.#link.send({ kind: "forget", id: command.id });
    const entry = this.#entries.get(command.id);
    if (entry) this.#end(entry, "lost", fail("ABORTED", "no longer waited for; it may still run"));
  }

  #send(entry: Entry): void {
    const { id, action, args, epoch, ifRev } = entry;
    const guard = ifRev === undefined ? {} : { ifRev };
    const left = this.#link.send({ kind: "command", page: this.#link.page, id, action, args, epoch, ...guard });
    if (!left) {
      this.#end(entry, "lost", fail("gone", "the kernel is gone"));
      return;
    }
    this.#link.expect(Date.now());
    entry.timer = setTimeout(() => this.#send(entry), entry.pause);
    entry.pause = Math.min(entry.pause * 2, RESEND_MOST);
  }

  #takeEvents(content: Record<string, unknown>, buffers: DataView[]): void {
    const first = content["from"] as number;
    const last = content["seq"] as number;
    const missed = this.#seq >= 0 && first > this.#seq + 1;
    this.#seq = Math.max(this.#seq, last);
    for (const item of (decode(buffers[0]) ?? []) as Json[][]) this.#take(item);
    this.#ack();
    // What was missed may have been about ours: ask again, at once.
    if (missed) for (const entry of this.#entries.values()) if (!isDone(entry)) this.#again(entry);
  }

  #ack(): void {
    this.#acking ??= setTimeout(() => {
      this.#acking = undefined;
      this.#link.send({ kind: "ack", page: this.#link.page, seq: this.#seq });
    }, ACK_PAUSE);
  }

  /** The number of the last event before this page came. */
  startAt(seq: number): void {
    if (this.#seq < 0) this.#seq = seq;
  }

  #again(entry: Entry): void {
    clearTimeout(entry.timer);
    this.#send(entry);
  }

  #take(item: Json[]): void {
    const [kind, id, what] = item;
    const entry = this.#entries.get(id as string);
    if (!entry || isDone(entry)) return;
    this.#link.heard();
    entry.waiting = false;
    clearTimeout(entry.timer);
    switch (kind) {
      case "stage":
        entry.stage = what as Stage;
        // A lost result would leave it here for ever: ask now and then.
        entry.timer = setTimeout(() => this.#send(entry), RESEND_MOST);
        break;
      case "result": {
        const { stage, ...outcome } = what as unknown as Outcome & { stage: Stage };
        this.#end(entry, stage, outcome);
        return;
      }
      case "refused":
        this.#end(entry, "failed", { ok: false, error: what as unknown as Failure });
        return;
      default:
    }
    this.#tell();
  }

  #end(entry: Entry, stage: Stage, outcome: Outcome): void {
    if (isDone(entry)) return;
    clearTimeout(entry.timer);
    entry.stage = stage;
    entry.waiting = false;
    entry.outcome = outcome;
    entry.settle(outcome);
    this.#tell();
  }

  #trim(): void {
    let spare = this.#entries.size - KEPT;
    for (const [id, entry] of this.#entries) {
      if (spare <= 0) break;
      if (!isDone(entry)) continue;
      this.#entries.delete(id);
      spare -= 1;
    }
  }

  #tell(): void {
    for (const fn of [...this.#watchers]) fn();
  }
}

function fail(code: string, message: string): Outcome {
  return { ok: false, error: { code, message } };
}
