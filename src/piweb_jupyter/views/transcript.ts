// The page's copy of the conversation: it applies the kernel's operations verbatim, in order.
// Pure: no document. `host/transcript.py` says what the operations are.

import type { Json } from "./model";

export interface Part {
  type: "text" | "thinking" | "tool" | "image" | "notice";
  text?: string;
  done?: boolean;
  id?: string;
  name?: string;
  args?: Json;
  argsText?: string;
  status?: "pending" | "running" | "done" | "error" | "aborted";
  output?: string;
  details?: Json;
  cut?: boolean;
  durationMs?: number;
  images?: Part[];
  /** How often the same notice came in a row. */
  count?: number;
  level?: "info" | "warning" | "error";
  mimeType?: string;
  data?: string;
  attachmentId?: string;
}

export interface Message {
  id: string;
  role: "user" | "assistant" | "bash" | "custom" | "summary" | "notice";
  parts: Part[];
  status: "streaming" | "done" | "error" | "aborted";
  error?: string;
  model?: string;
  time?: number;
}

export interface Meta {
  title?: string;
  busy?: boolean;
  model?: string;
  thinkingLevel?: string;
  queue?: { steering: string[]; followUp: string[] };
  usage?: { [name: string]: number } | null;
  status?: { [key: string]: string };
  widgets?: { [key: string]: { lines: string[]; placement: string } };
  editorText?: { n: number; text: string } | null;
  compacting?: string | null;
}

export interface Present {
  messages: Message[];
  meta: Meta;
}

/** `reset`: every message is another one. `from`: nothing before that message has changed. */
export interface Change {
  reset: boolean;
  dirty: Set<number>;
}

export class Transcript {
  messages: Message[] = [];
  meta: Meta = {};
  #change: Change = { reset: false, dirty: new Set() };

  load(present: Present): void {
    this.messages = present.messages;
    this.meta = present.meta;
    this.#change.reset = true;
  }

  /** False for an operation that does not fit: something was missed. */
  apply(op: Json[]): boolean {
    switch (op[0]) {
      case "append": {
        const [, i, p, field, text] = op as ["append", number, number, "text", string];
        const part = this.messages[i]?.parts[p];
        if (!part) return false;
        part[field] = (part[field] ?? "") + text;
        this.#change.dirty.add(i);
        return true;
      }
      case "part": {
        const [, i, p, part] = op as unknown as ["part", number, number, Part];
        const parts = this.messages[i]?.parts;
        if (!parts || p > parts.length) return false;
        parts[p] = part;
        this.#change.dirty.add(i);
        return true;
      }
      case "message": {
        const [, i, message] = op as unknown as ["message", number, Message];
        if (i > this.messages.length) return false;
        this.messages[i] = message;
        this.#change.dirty.add(i);
        return true;
      }
      case "meta":
        Object.assign(this.meta, op[1]);
        return true;
      case "clear":
        this.messages = [];
        this.#change.reset = true;
        return true;
      default:
        return true;
    }
  }

  /** What has changed since it was asked for the last time. */
  takeChange(): Change {
    const change = this.#change;
    this.#change = { reset: false, dirty: new Set() };
    return change;
  }

  get streaming(): boolean {
    return this.meta.busy === true || this.messages.at(-1)?.status === "streaming";
  }
}
