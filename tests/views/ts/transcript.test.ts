import assert from "node:assert/strict";
import { test } from "node:test";
import { Transcript, type Message } from "../../../src/piweb_jupyter/views/transcript";

const message = (id: string): Message => ({ id, role: "assistant", parts: [{ type: "text", text: "a" }], status: "streaming" });

test("operations are applied verbatim and tell what they changed", () => {
  const transcript = new Transcript();
  transcript.load({ messages: [message("m1")], meta: { busy: true } });
  assert.deepEqual(transcript.takeChange(), { reset: true, dirty: new Set() });
  assert.ok(transcript.apply(["append", 0, 0, "text", "bc"]));
  assert.ok(transcript.apply(["message", 1, message("m2") as never]));
  assert.ok(transcript.apply(["part", 1, 1, { type: "notice", text: "x" }]));
  assert.ok(transcript.apply(["meta", { busy: false }]));
  assert.equal(transcript.messages[0]?.parts[0]?.text, "abc");
  assert.equal(transcript.messages[1]?.parts.length, 2);
  assert.equal(transcript.meta.busy, false);
  assert.deepEqual(transcript.takeChange(), { reset: false, dirty: new Set([0, 1]) });
});

test("an operation that does not fit says so", () => {
  const transcript = new Transcript();
  assert.equal(transcript.apply(["append", 0, 0, "text", "x"]), false);
  assert.equal(transcript.apply(["message", 3, message("m4") as never]), false);
  assert.equal(transcript.apply(["part", 0, 0, { type: "text" }]), false);
});

test("clear drops all messages, and an unknown operation is passed over", () => {
  const transcript = new Transcript();
  transcript.load({ messages: [message("m1")], meta: {} });
  assert.ok(transcript.apply(["clear"]));
  assert.ok(transcript.apply(["from-the-future", 1]));
  assert.equal(transcript.messages.length, 0);
  assert.ok(transcript.takeChange().reset);
});
