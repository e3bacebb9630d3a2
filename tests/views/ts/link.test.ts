import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { ChatStore } from "../../../src/piweb_jupyter/views/chatstore";
import { Commands } from "../../../src/piweb_jupyter/views/commands";
import { Link, standingOf, type Info } from "../../../src/piweb_jupyter/views/model";
import { Store } from "../../../src/piweb_jupyter/views/store";
import { FakeModel, quietDocument } from "./page";

Object.assign(globalThis, { document: quietDocument });

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
});

function open(manager?: unknown): { model: FakeModel; link: Link } {
  const model = new FakeModel();
  model.widget_manager = manager;
  const link = new Link(model);
  link.display();
  link.hello();
  return { model, link };
}

const pong = (link: Link) => ({ kind: "pong", to: link.page, epoch: 0, rev: -1, seq: 0 });

// ---------------------------------------------------------------- who is there

test("an answer makes it live, also a late one", () => {
  const { model, link } = open();
  mock.timers.tick(1600);
  assert.equal(link.status, "silent");
  model.tell(pong(link));
  assert.equal(link.status, "live");
});

test("a kernel that says that it is busy is believed", () => {
  const { link } = open({ kernel: { status: "busy", connectionStatus: "connected" } });
  mock.timers.tick(1600);
  assert.equal(link.status, "busy");
});

test("without a kernel it is static, and after one it is gone", () => {
  const manager: { kernel: unknown } = { kernel: null };
  const { link } = open(manager);
  mock.timers.tick(1600);
  assert.equal(link.status, "static");
  const other = { kernel: { status: "idle", connectionStatus: "connected" } as unknown };
  const { model, link: second } = open(other);
  model.tell(pong(second));
  other.kernel = null;
  mock.timers.tick(1100);
  assert.equal(second.status, "gone");
});

test("a restart and a message that cannot leave are the end", () => {
  const { model, link } = open();
  model.tell(pong(link));
  model.fire("comm_live_update");
  assert.equal(link.status, "gone");
  const { model: broken, link: second } = open();
  broken.isBroken = true;
  assert.equal(second.send({ kind: "restart" }), false);
  assert.equal(second.status, "gone");
  broken.tell(pong(second));
  assert.equal(second.status, "gone");
});

test("a lost connection is asked about when it is back", () => {
  const kernel = { status: "idle", connectionStatus: "connected" };
  const { model, link } = open({ kernel });
  model.tell(pong(link));
  kernel.connectionStatus = "connecting";
  mock.timers.tick(1100);
  assert.equal(link.status, "lost");
  kernel.connectionStatus = "connected";
  model.take("hello");
  mock.timers.tick(1100);
  assert.equal(model.take("hello").length, 1);
  model.tell(pong(link));
  assert.equal(link.status, "live");
});

test("what goes to everybody or to another page proves nothing", () => {
  const { model, link } = open();
  model.tell({ kind: "tip", epoch: 1, rev: 1 });
  model.tell({ kind: "pong", to: "another", seq: 0 });
  mock.timers.tick(1600);
  assert.equal(link.status, "silent");
});

test("first the kernel's truth is told, then the agent's", () => {
  const info = { agent: "a", lifecycle: "ended", detail: "the agent exited with code 7", closed: false } as Info;
  assert.match(standingOf("gone", info).label, /kernel is gone/);
  const ended = standingOf("live", info);
  assert.deepEqual([ended.label, ended.writable, ended.canRestart], ["the agent exited with code 7", false, true]);
  assert.equal(standingOf("live", { ...info, lifecycle: "starting", detail: "" }).writable, true);
  assert.equal(standingOf("busy", { ...info, lifecycle: "ready" }).tone, "pending");
  assert.equal(standingOf("live", { ...info, closed: true }).canRestart, false);
});

// ---------------------------------------------------------------- commands

test("a click that nobody acknowledges goes again under the same id, ever more slowly", () => {
  const { model, link } = open();
  const commands = new Commands(link);
  const click = commands.run("add", { by: 1 }, [1, 4]);
  assert.deepEqual(model.take("command"), [
    { kind: "command", page: link.page, id: click.id, action: "add", args: { by: 1 }, epoch: 1 },
  ]);
  mock.timers.tick(1500);
  assert.equal(click.waiting, true);
  mock.timers.tick(2500);
  assert.equal(model.take("command").length, 1);
  mock.timers.tick(7900);
  assert.equal(model.take("command").length, 0);
  mock.timers.tick(100);
  assert.deepEqual(model.take("command").map((sent) => sent["id"]), [click.id]);
});

test("stages and the result arrive by events, once", async () => {
  const { model, link } = open();
  const commands = new Commands(link);
  const click = commands.run("add", undefined, [1, 0], 0);
  assert.equal(model.take("command")[0]?.["ifRev"], 0);
  model.tell({ kind: "events", from: 1, seq: 1 }, [["stage", click.id, "running"]]);
  assert.equal(click.stage, "running");
  model.tell({ kind: "events", from: 2, seq: 3 }, [
    ["result", click.id, { ok: true, stage: "done", data: 5 }],
    ["result", click.id, { ok: false, stage: "failed", error: { code: "x", message: "late" } }],
  ]);
  assert.deepEqual(await click.end, { ok: true, data: 5 });
  assert.equal(click.stage, "done");
  mock.timers.tick(60_000);
  assert.equal(model.take("command").length, 0);
});

test("a large result comes as a message of its own", async () => {
  const { model, link } = open();
  const click = new Commands(link).run("add", undefined, [1, 0]);
  model.tell({ kind: "result", of: click.id }, { ok: true, stage: "done", data: "much" });
  assert.deepEqual(await click.end, { ok: true, data: "much" });
});

test("after a gap in the events what is pending is asked about at once", () => {
  const { model, link } = open();
  const commands = new Commands(link);
  commands.startAt(0);
  const click = commands.run("add", undefined, [1, 0]);
  model.take("command");
  model.tell({ kind: "events", from: 5, seq: 5 }, []);
  assert.deepEqual(model.take("command").map((sent) => sent["id"]), [click.id]);
});

test("a kernel that is gone ends what was clicked", async () => {
  const { model, link } = open();
  const click = new Commands(link).run("add", undefined, [1, 0]);
  model.fire("comm_live_update");
  const outcome = await click.end;
  assert.equal(outcome.ok, false);
  assert.equal(click.stage, "lost");
});

// ---------------------------------------------------------------- snapshots

test("nothing older is ever drawn, and a new life is newer than any revision of the old", () => {
  const { model, link } = open();
  const store = new Store(link);
  const drawn: unknown[] = [];
  store.watch(() => drawn.push(store.state));
  model.assign(1, 5, "five");
  model.assign(1, 4, "four");
  model.tell({ kind: "state", to: link.page, epoch: 1, rev: 3, stale: false }, { value: "three" });
  model.assign(1, 5, "five", true);
  model.assign(2, 0, "zero of the second");
  assert.deepEqual(drawn, ["five", "five", "zero of the second"]);
});

test("a deleted state is no state", () => {
  const { model, link } = open();
  const store = new Store(link);
  model.assign(1, 5, "five");
  model.assign(1, 6, undefined);
  assert.deepEqual([store.held, store.state], [false, null]);
});

test("every second snapshot is acknowledged, and the last one soon", () => {
  const { model, link } = open();
  new Store(link);
  for (const rev of [1, 2, 3]) model.assign(1, rev, rev);
  assert.deepEqual(model.take("ack").map((ack) => ack["rev"]), [2]);
  mock.timers.tick(100);
  assert.deepEqual(model.take("ack").map((ack) => ack["rev"]), [3]);
});

test("who hears of a version that does not come asks for it, once", () => {
  const { model, link } = open();
  const store = new Store(link);
  model.assign(1, 1, "one");
  model.tell({ kind: "tip", epoch: 1, rev: 1 });
  mock.timers.tick(400);
  assert.equal(model.take("resync").length, 0);
  model.tell({ kind: "tip", epoch: 1, rev: 3 });
  model.tell({ kind: "tip", epoch: 1, rev: 3 });
  mock.timers.tick(400);
  assert.equal(model.take("resync").length, 1);
  model.tell({ kind: "state", to: link.page, epoch: 1, rev: 3, stale: false }, { value: "three" });
  assert.equal(store.state, "three");
});

// ---------------------------------------------------------------- the chat

const message = (text: string) => ({ id: text, role: "user", parts: [{ type: "text", text }], status: "done" });
const present = (link: Link, seq: number, texts: string[], to = link.page) =>
  [{ kind: "present", to, seq }, { chat: { messages: texts.map(message), meta: {} }, questions: [] }] as const;
const texts = (store: ChatStore) => store.transcript.messages.map((one) => one.id);

test("events that come before the present wait for it, and those that are in it are passed over", () => {
  const { model, link } = open();
  const store = new ChatStore(link);
  model.tell({ kind: "events", from: 3, seq: 5 }, [["message", 2, message("c")], ["message", 3, message("d")], ["message", 4, message("e")]]);
  model.tell(...present(link, 4, ["a", "b", "c", "d"]));
  assert.deepEqual(texts(store), ["a", "b", "c", "d", "e"]);
});

test("after a gap the present is asked for, and what comes meanwhile is kept", () => {
  const { model, link } = open();
  const store = new ChatStore(link);
  model.tell(...present(link, 1, ["a"]));
  model.tell({ kind: "events", from: 3, seq: 3 }, [["message", 2, message("c")]]);
  assert.equal(model.take("resync").length, 1);
  model.tell({ kind: "events", from: 4, seq: 4 }, [["message", 3, message("d")]]);
  model.tell(...present(link, 3, ["a", "b", "c"]));
  assert.deepEqual(texts(store), ["a", "b", "c", "d"]);
});

test("a present for everybody counts, one for another page does not", () => {
  const { model, link } = open();
  const store = new ChatStore(link);
  model.tell(...present(link, 9, ["x"], "another"));
  assert.equal(store.loaded, false);
  model.tell(...present(link, 9, ["y"], "*"));
  assert.deepEqual(texts(store), ["y"]);
});

test("a prompt goes again until it is received, and is on its way until it is in the transcript", () => {
  const { model, link } = open();
  const store = new ChatStore(link);
  model.tell(...present(link, 0, []));
  store.say("hi", "prompt");
  mock.timers.tick(4000);
  const [first, second] = model.take("prompt");
  assert.equal(first?.["id"], second?.["id"]);
  model.tell({ kind: "events", from: 1, seq: 1 }, [["received", first?.["id"]]]);
  mock.timers.tick(60_000);
  assert.equal(model.take("prompt").length, 0);
  assert.deepEqual(store.sent.map((sent) => sent.text), ["hi"]);
  model.tell({ kind: "events", from: 2, seq: 2 }, [["message", 0, message("hi")]]);
  assert.deepEqual(store.sent, []);
});

test("a prompt that is refused comes back to the page that sent it", () => {
  const { model, link } = open();
  const store = new ChatStore(link);
  const back: string[] = [];
  store.onReturned = (returned) => back.push(...returned);
  model.tell(...present(link, 0, []));
  store.say("hi", "steer");
  const [sent] = model.take("prompt");
  model.tell({ kind: "events", from: 1, seq: 2 }, [
    ["refused", "another.1", { code: "x", message: "not ours" }],
    ["refused", sent?.["id"], { code: "x", message: "no" }],
  ]);
  assert.deepEqual(back, ["hi"]);
  assert.deepEqual(store.sent, []);
});
