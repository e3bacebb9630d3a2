// What this page knows of one conversation: the present it asked for, and every event after that.

import { decode, type Json, type Link, type PromptMode } from "./model";
import type { Question } from "./question";
import { Transcript, type Present } from "./transcript";

// An acknowledgement costs the server three messages; events are acknowledged in bunches.
const ACK_PAUSE = 250;
// A prompt that nobody has acknowledged by then goes again; the same id is asked once.
const RESEND = 4000;
const RESEND_MOST = 32_000;

/** A prompt on its way: until it shows up in the transcript, or is refused. */
export interface Sent {
  readonly id: string;
  readonly text: string;
  readonly mode: PromptMode;
  received: boolean;
  waiting: boolean;
}

export interface Refusal {
  id: string;
  code: string;
  message: string;
}

interface Pending extends Sent {
  timer: ReturnType<typeof setTimeout> | undefined;
  pause: number;
  seen: number;
}

export class ChatStore {
  readonly transcript = new Transcript();
  questions: Question[] = [];
  logs: string[] | undefined;
  /** Whether a present has come; before that there is nothing to show. */
  loaded = false;
  onRefused: (refusal: Refusal) => void = () => {};
  onReturned: (texts: string[]) => void = () => {};
  readonly #link: Link;
  readonly #watchers = new Set<() => void>();
  readonly #sent = new Map<string, Pending>();
  #seq = -1;
  #acking: ReturnType<typeof setTimeout> | undefined;
  #early: { first: number; items: Json[][] }[] = [];

  constructor(link: Link) {
    this.#link = link;
    link.onMessage("present", (content, buffers) => this.#takePresent(content, buffers));
    link.onMessage("events", (content, buffers) => this.#takeEvents(content, buffers));
    link.onMessage("pong", (content) => {
      if (this.loaded && (content["seq"] as number) > this.#seq) this.resync();
    });
    link.onMessage("logs", (content) => {
      this.logs = content["lines"] as string[];
      this.#tell();
    });
  }

  watch(fn: () => void): () => void {
    this.#watchers.add(fn);
    return () => this.#watchers.delete(fn);
  }

  get sent(): Sent[] {
    return [...this.#sent.values()];
  }

  say(text: string, mode: PromptMode): void {
    const pending: Pending = {
      id: this.#link.newId(),
      text,
      mode,
      received: false,
      waiting: false,
      timer: undefined,
      pause: RESEND,
      seen: this.#countSaid(text),
    };
    this.#sent.set(pending.id, pending);
    this.#send(pending);
    setTimeout(() => {
      if (pending.received || !this.#sent.has(pending.id)) return;
      pending.waiting = true;
      this.#tell();
    }, 1500);
    this.#tell();
  }

  #send(pending: Pending): void {
    const { id, text, mode } = pending;
    if (!this.#link.send({ kind: "prompt", page: this.#link.page, id, text, mode })) {
      this.#refuse(id, { code: "gone", message: "The kernel is gone." });
      return;
    }
    this.#link.expect(Date.now());
    pending.timer = setTimeout(() => this.#send(pending), pending.pause);
    pending.pause = Math.min(pending.pause * 2, RESEND_MOST);
  }

  #takePresent(content: Record<string, unknown>, buffers: DataView[]): void {
    const body = decode(buffers[0]) as unknown as { chat: Present; questions: Question[] };
    const seq = content["seq"] as number;
    // One of two presents that were asked for may be late.
    if (seq < this.#seq) return;
    this.transcript.load(body.chat);
    this.questions = body.questions;
    this.#seq = seq;
    this.loaded = true;
    for (const { first, items } of this.#early.splice(0)) this.#applyAll(first, items);
    this.#settle();
    this.#ack();
    this.#tell();
  }

  #takeEvents(content: Record<string, unknown>, buffers: DataView[]): void {
    const first = content["from"] as number;
    const items = (decode(buffers[0]) ?? []) as Json[][];
    if (!this.loaded) {
      // The present is on its way, and may be from before these.
      this.#early.push({ first, items });
      return;
    }
    if (first > this.#seq + 1) this.resync();
    else this.#applyAll(first, items);
    this.#ack();
    this.#tell();
  }

  #applyAll(first: number, items: Json[][]): void {
    items.forEach((item, offset) => {
      if (first + offset <= this.#seq) return;
      this.#seq = first + offset;
      if (!this.#apply(item)) this.resync();
    });
    this.#settle();
  }

  #apply(item: Json[]): boolean {
    switch (item[0]) {
      case "questions":
        this.questions = item[1] as unknown as Question[];
        return true;
      case "received": {
        const pending = this.#sent.get(item[1] as string);
        if (!pending) return true;
        this.#link.heard();
        clearTimeout(pending.timer);
        pending.received = true;
        pending.waiting = false;
        // Steering shows in the queue, not at once in the transcript.
        if (pending.mode !== "prompt") this.#sent.delete(pending.id);
        return true;
      }
      case "queued":
        this.#link.heard();
        this.#forget(item[1] as string);
        return true;
      case "refused":
        this.#refuse(item[1] as string, item[2] as unknown as { code: string; message: string });
        return true;
      case "settled":
        this.#forget(item[1] as string);
        return true;
      case "returned":
        if (item[1] === this.#link.page) this.onReturned(item[2] as string[]);
        return true;
      default:
        return this.transcript.apply(item);
    }
  }

  #forget(id: string): Pending | undefined {
    const pending = this.#sent.get(id);
    clearTimeout(pending?.timer);
    this.#sent.delete(id);
    return pending;
  }

  #refuse(id: string, error: { code: string; message: string }): void {
    const pending = this.#forget(id);
    if (pending && id.startsWith(`${this.#link.page}.`)) {
      this.onReturned([pending.text]);
      this.onRefused({ id, ...error });
    } else if (this.questions.some((question) => question.id === id)) {
      this.onRefused({ id, ...error });
    }
    this.#tell();
  }

  /** Prompts that have arrived in the transcript are no longer on their way. */
  #settle(): void {
    for (const pending of this.#sent.values()) {
      if (this.#countSaid(pending.text) > pending.seen) this.#forget(pending.id);
    }
  }

  #countSaid(text: string): number {
    return this.transcript.messages.filter(
      (message) => message.role === "user" && message.parts.some((part) => part.text?.trim() === text.trim()),
    ).length;
  }

  /** Ask for the present. */
  resync(): void {
    // The events that follow belong to a transcript that we do not have.
    this.loaded = false;
    this.#early = [];
    this.#link.send({ kind: "resync", page: this.#link.page });
  }

  #ack(): void {
    this.#acking ??= setTimeout(() => {
      this.#acking = undefined;
      this.#link.send({ kind: "ack", page: this.#link.page, seq: this.#seq });
    }, ACK_PAUSE);
  }

  #tell(): void {
    for (const fn of [...this.#watchers]) fn();
  }
}
