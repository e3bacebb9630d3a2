// Splits a growing markdown text into blocks that are finished and the one that is not, so that
// only the open one is drawn again while the model writes. Pure: no document.

import { Marked, type Token, type TokensList } from "marked";

const marked = new Marked({ gfm: true, breaks: false });

// A fence that opens a line, and is not closed yet.
const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n`]*)\n/;

export interface Step {
  /** Tokens that will not change any more. */
  closed: Token[];
  /** The rest, as tokens; or the inside of a fence that is still open. */
  open: Token[];
  code: { language: string; text: string } | undefined;
  /** The text is another one: what was drawn before has to go. */
  reset: boolean;
}

export class Blocks {
  #text = "";
  #done = 0;

  /** Take the whole text as it is now; `isLast`: it grows no more. */
  update(raw: string, isLast: boolean): Step {
    const text = raw.includes("\r") ? raw.replaceAll(/\r\n?/g, "\n") : raw;
    const reset = text.length < this.#text.length || !text.startsWith(this.#text);
    if (reset) this.#done = 0;
    this.#text = text;
    const tail = text.slice(this.#done);
    const code = isLast ? undefined : openFence(tail);
    if (code) return { closed: [], open: [], code, reset };
    const tokens = lex(tail);
    if (isLast) {
      this.#done = text.length;
      return { closed: tokens, open: [], code: undefined, reset };
    }
    let last = tokens.length - 1;
    while (last > 0 && tokens[last]?.type === "space") last -= 1;
    const closed = tokens.slice(0, Math.max(0, last));
    for (const token of closed) this.#done += token.raw.length;
    return { closed, open: tokens.slice(closed.length), code: undefined, reset };
  }
}

/** The inside of a code block that has begun and not ended; it needs no parsing. */
export function openFence(tail: string): { language: string; text: string } | undefined {
  const match = FENCE.exec(tail.trimStart() === tail ? tail : tail.replace(/^\n+/, ""));
  if (!match) return undefined;
  const start = tail.indexOf(match[0]) + match[0].length;
  const fence = match[1] as string;
  const body = tail.slice(start);
  const close = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}[ \\t]*$`, "m");
  if (close.test(body)) return undefined;
  return { language: (match[2] ?? "").trim(), text: body };
}

function lex(text: string): TokensList {
  return marked.lexer(text);
}

export function toHtml(tokens: Token[]): string {
  return marked.parser(tokens);
}
