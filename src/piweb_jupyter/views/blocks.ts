// Splits a growing markdown text into blocks that are finished and the one that is not, so that
// only the open one is drawn again while the model writes. Pure: no document.

import { Marked, type Token, type TokensList } from "marked";

const marked = new Marked({ gfm: true, breaks: false });

// A block that is longer is drawn in pieces until the text is complete: to lay it out again with
// every word would take the time that typing needs.
const LONGEST = 4000;

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
  #isCut = false;

  /** Take the whole text as it is now; `isLast`: it grows no more. */
  update(raw: string, isLast: boolean): Step {
    const text = raw.includes("\r") ? raw.replaceAll(/\r\n?/g, "\n") : raw;
    const isOther = text.length < this.#text.length || !text.startsWith(this.#text);
    const reset = isOther || (isLast && this.#isCut);
    if (reset) {
      this.#done = 0;
      this.#isCut = false;
    }
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
    const open = tokens.slice(closed.length);
    const rest = text.slice(this.#done);
    if (rest.length <= LONGEST) return { closed, open, code: undefined, reset };
    const piece = rest.slice(0, cutAt(rest));
    this.#done += piece.length;
    this.#isCut = true;
    return { closed: [...closed, ...lex(piece)], open: lex(rest.slice(piece.length)), code: undefined, reset };
  }
}

/** Where a block that is too long may be cut: after a line, else after a word. */
function cutAt(text: string): number {
  const half = text.length / 2;
  const line = text.lastIndexOf("\n") + 1;
  if (line > half) return line;
  const word = text.lastIndexOf(" ") + 1;
  return word > half ? word : text.length;
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
