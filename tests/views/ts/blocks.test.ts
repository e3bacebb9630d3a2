import assert from "node:assert/strict";
import { test } from "node:test";
import { Blocks, toHtml } from "../../../src/piweb_jupyter/views/blocks";

const TEXT = `# Title

A paragraph with *words*
over two lines.

- one
- two

  still two

1. first
2. second

\`\`\`python
def f():

    return 1
\`\`\`

| a | b |
|---|---|
| 1 | 2 |

~~~~
~~~
not the end
~~~~

> quoted

end`;

/** Draws a text that grows by pieces, as the view does. */
function draw(pieces: string[]): string {
  const blocks = new Blocks();
  let closed = "";
  let text = "";
  for (const piece of pieces) {
    text += piece;
    const step = blocks.update(text, false);
    if (step.reset) closed = "";
    closed += toHtml(step.closed);
  }
  return closed + toHtml(blocks.update(text, true).closed);
}

const whole = draw([TEXT]);

test("a text that grows by single characters is drawn like the whole", () => {
  assert.equal(draw([...TEXT]), whole);
});

test("a text that grows by any pieces is drawn like the whole", () => {
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  for (let round = 0; round < 200; round += 1) {
    const pieces: string[] = [];
    for (let at = 0; at < TEXT.length; ) {
      const size = 1 + Math.floor(random() * 40);
      pieces.push(TEXT.slice(at, at + size));
      at += size;
    }
    assert.equal(draw(pieces), whole);
  }
});

test("a finished block is given once, and only the open one again", () => {
  const blocks = new Blocks();
  assert.equal(blocks.update("one\n\ntw", false).closed.length, 2); // the paragraph and the space
  const step = blocks.update("one\n\ntwo", false);
  assert.equal(step.closed.length, 0);
  assert.equal(toHtml(step.open), "<p>two</p>\n");
});

test("inside an open fence nothing is parsed", () => {
  const blocks = new Blocks();
  const step = blocks.update("```js\nconst a = '<b>';\n", false);
  assert.deepEqual(step.code, { language: "js", text: "const a = '<b>';\n" });
  assert.equal(blocks.update("```js\nconst a = '<b>';\n```\n\nafter", false).code, undefined);
});

test("another text starts over", () => {
  const blocks = new Blocks();
  blocks.update("one\n\ntwo", false);
  assert.equal(blocks.update("other", false).reset, true);
});

test("a block without an end is drawn in pieces, and as one when the text is complete", () => {
  const words = Array.from({ length: 5000 }, (_, n) => `word${n}`).join(" ");
  const blocks = new Blocks();
  let longest = 0;
  for (let at = 0; at < words.length; at += 500) {
    const step = blocks.update(words.slice(0, at), false);
    longest = Math.max(longest, ...step.open.map((token) => token.raw.length));
  }
  assert.ok(longest <= 4500);
  const last = blocks.update(words, true);
  assert.equal(last.reset, true);
  assert.equal(toHtml(last.closed), `<p>${words}</p>\n`);
});

test("carriage returns do not shift what is done", () => {
  assert.equal(draw([...TEXT.replaceAll("\n", "\r\n")]), whole);
});
