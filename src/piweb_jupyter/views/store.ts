// The picture that this page has of one surface: the newest snapshot that reached it, never an
// older one, and what it does about one that did not.

import { decode, isNewer, type Json, type Link, type Version } from "./model";
import { isObject } from "./schema";

// A snapshot that a tip speaks of may be right behind it.
const TIP_PATIENCE = 300;
// Every second snapshot is acknowledged, or one after a pause: an acknowledgement costs the server
// three messages.
const ACK_EVERY = 2;
const ACK_PAUSE = 100;

export class Store {
  state: Json = null;
  /** Whether there is a snapshot at all. */
  held = false;
  stale = false;
  version: Version = [0, -1];
  readonly #link: Link;
  readonly #watchers = new Set<() => void>();
  #wanted: Version = [0, -1];
  #asking: ReturnType<typeof setTimeout> | undefined;
  #unacked = 0;
  #acking: ReturnType<typeof setTimeout> | undefined;

  constructor(link: Link) {
    this.#link = link;
    link.onTraits(["snapshot", "epoch", "rev", "stale"], () => this.#readTraits());
    link.onMessage("state", (content, buffers) => {
      this.#take(
        [content["epoch"] as number, content["rev"] as number],
        buffers[0],
        content["stale"] === true,
      );
    });
    link.onMessage("tip", (content) => this.#want(content));
    this.#readTraits();
  }

  watch(fn: () => void): () => void {
    this.#watchers.add(fn);
    return () => this.#watchers.delete(fn);
  }

  /** The kernel's word on the newest version, from a tip or a pong. */
  want(content: Record<string, unknown>): void {
    this.#want(content);
  }

  #readTraits(): void {
    const version: Version = [this.#link.get("epoch"), this.#link.get("rev")];
    const snapshot = this.#link.get<DataView | undefined>("snapshot");
    this.#take(version, snapshot, this.#link.get("stale"));
  }

  #take(version: Version, snapshot: DataView | undefined, stale: boolean): void {
    const newer = isNewer(version, this.version);
    const same = !newer && !isNewer(this.version, version);
    if (!newer && !(same && stale !== this.stale)) return;
    if (newer) {
      const frame = decode(snapshot);
      this.held = isObject(frame);
      this.state = isObject(frame) ? (frame["value"] ?? null) : null;
      this.version = version;
      this.#ack();
    }
    this.stale = stale;
    for (const fn of [...this.#watchers]) fn();
  }

  #ack(): void {
    this.#unacked += 1;
    clearTimeout(this.#acking);
    const send = () => {
      this.#unacked = 0;
      const [epoch, rev] = this.version;
      this.#link.send({ kind: "ack", page: this.#link.page, epoch, rev });
    };
    if (this.#unacked >= ACK_EVERY) send();
    else this.#acking = setTimeout(send, ACK_PAUSE);
  }

  #want(content: Record<string, unknown>): void {
    const version: Version = [content["epoch"] as number, content["rev"] as number];
    if (isNewer(version, this.#wanted)) this.#wanted = version;
    if (!isNewer(this.#wanted, this.version) || this.#asking !== undefined) return;
    this.#asking = setTimeout(() => {
      this.#asking = undefined;
      if (isNewer(this.#wanted, this.version)) {
        this.#link.send({ kind: "resync", page: this.#link.page });
      }
    }, TIP_PATIENCE);
  }
}
