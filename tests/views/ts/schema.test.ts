import assert from "node:assert/strict";
import { test } from "node:test";
import { blame, fieldsOf, labelOf, parse, show, type Schema } from "../../../src/piweb_jupyter/views/schema";

// A field may be called `constructor`, so what is given by name has no prototype.
const plain = (value: object): object => JSON.parse(JSON.stringify(value)) as object;

const SCHEMA: Schema = {
  type: "object",
  properties: {
    by: { type: "integer", minimum: 1, maximum: 100, default: 1, description: "how many" },
    label: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    ratio: { type: "number", exclusiveMinimum: 0 },
    on: { type: "boolean", default: true },
    color: { $ref: "#/$defs/Color" },
    sizes: { type: "array", items: { type: "integer" } },
    note: { type: "string", maxLength: 5000 },
  },
  required: ["ratio", "color"],
  $defs: { Color: { enum: ["red", "green"], title: "Colour", type: "string" } },
};

test("each kind of argument has its field", () => {
  const kinds = fieldsOf(SCHEMA).map((field) => [field.name, field.kind, field.required]);
  assert.deepEqual(kinds, [
    ["by", "integer", false],
    ["label", "text", false],
    ["ratio", "number", true],
    ["on", "boolean", false],
    ["color", "choice", true],
    ["sizes", "json", false],
    ["note", "lines", false],
  ]);
  const [by, label] = fieldsOf(SCHEMA);
  assert.deepEqual([by?.min, by?.max, by?.hint, by?.initial], [1, 100, "how many", 1]);
  assert.equal(label?.nullable, true);
});

test("a command without arguments is a button", () => {
  assert.deepEqual(fieldsOf(undefined), []);
  assert.deepEqual(fieldsOf({ type: "object", properties: {} }), []);
});

test("what is typed becomes arguments of the right type, and what is empty is left out", () => {
  const typed = new Map<string, string | boolean>([
    ["by", "3"], ["label", ""], ["ratio", "0.5"], ["on", false], ["color", "1"], ["sizes", "[1, 2]"], ["note", ""],
  ]);
  assert.deepEqual(plain(parse(fieldsOf(SCHEMA), typed)), {
    args: { by: 3, ratio: 0.5, on: false, color: "green", sizes: [1, 2] },
    errors: {},
  });
});

test("what does not fit is said per field", () => {
  const typed = new Map<string, string | boolean>([
    ["by", "101"], ["ratio", ""], ["color", ""], ["sizes", "[1,"],
  ]);
  const { errors } = parse(fieldsOf(SCHEMA), typed);
  assert.equal(errors["by"], "must be at most 100");
  assert.equal(errors["ratio"], "is required");
  assert.equal(errors["color"], "is required");
  assert.match(errors["sizes"] ?? "", /^is no JSON/);
});

test("a field with a default can be emptied", () => {
  const fields = fieldsOf({ properties: { name: { type: "string", default: "x" }, n: { anyOf: [{ type: "integer" }, { type: "null" }], default: 4 } } });
  assert.deepEqual(plain(parse(fields, new Map([["name", ""], ["n", ""]])).args), { name: "", n: null });
});

test("the agent's refusal is shown at the field it names", () => {
  const fields = fieldsOf(SCHEMA);
  assert.deepEqual(plain(blame(fields, "by: too much", { fields: { by: "too much", "sizes.0": "no" } })), {
    by: "too much",
    sizes: "sizes.0: no",
  });
  assert.deepEqual(plain(blame(fields, "ratio must be larger", undefined)), { ratio: "ratio must be larger" });
  assert.deepEqual(plain(blame(fields, "nothing of the kind", null)), {});
});

test("names that are not the schema's own are not looked up", () => {
  const fields = fieldsOf({ properties: { a: { $ref: "#/__proto__/toString" }, b: { $ref: "https://example.org/x" } } });
  assert.deepEqual(fields.map((field) => field.kind), ["json", "json"]);
});

test("a default is shown as it would be typed", () => {
  const [by, , , , color, sizes] = fieldsOf(SCHEMA);
  assert.equal(by && show(by, 3), "3");
  assert.equal(color && show(color, "green"), "1");
  assert.equal(sizes && show(sizes, [1]), "[\n 1\n]");
});

test("a name without a title reads like words", () => {
  assert.equal(labelOf({ name: "set_title" }), "set title");
  assert.equal(labelOf({ name: "x", title: "Do it" }), "Do it");
});
