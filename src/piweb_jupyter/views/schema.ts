// From a command's JSON Schema to the fields of a form, and back from what was typed to arguments.
// Pure: no document.

import type { Json } from "./model";

export interface CommandSpec {
  name: string;
  title?: string;
  description?: string;
  args?: Schema;
  confirm?: string;
  guard?: boolean;
}

export type Schema = { [key: string]: Json | undefined };

export interface Field {
  name: string;
  title: string;
  hint: string;
  required: boolean;
  kind: "text" | "lines" | "number" | "integer" | "boolean" | "choice" | "json";
  /** What the field holds at first; undefined: nothing, and nothing is sent. */
  initial: Json | undefined;
  /** Null is an allowed value, and what an empty field means if there is a default. */
  nullable: boolean;
  choices: Json[];
  min?: number;
  max?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}

export interface Parsed {
  args: { [name: string]: Json };
  errors: { [name: string]: string };
}

/** The fields of a command; empty for one that takes none. */
export function fieldsOf(schema: Schema | undefined): Field[] {
  if (!schema || !isObject(schema["properties"])) return [];
  const required = new Set(Array.isArray(schema["required"]) ? schema["required"] : []);
  return Object.entries(schema["properties"]).map(([name, raw]) =>
    fieldOf(name, isObject(raw) ? raw : {}, required.has(name), schema),
  );
}

function fieldOf(name: string, raw: Schema, required: boolean, root: Schema): Field {
  const { schema, nullable } = simplify(raw, root);
  const kind = kindOf(schema);
  const field: Field = {
    name,
    title: text(raw["title"]) || text(schema["title"]) || name,
    hint: text(raw["description"]) || text(schema["description"]),
    required,
    kind,
    initial: raw["default"] ?? schema["default"],
    nullable,
    choices: kind === "choice" ? choicesOf(schema) : [],
  };
  const min = number(schema["minimum"]) ?? above(schema["exclusiveMinimum"], kind, 1);
  const max = number(schema["maximum"]) ?? above(schema["exclusiveMaximum"], kind, -1);
  if (min !== undefined) field.min = min;
  if (max !== undefined) field.max = max;
  const minLength = number(schema["minLength"]);
  const maxLength = number(schema["maxLength"]);
  if (minLength !== undefined) field.minLength = minLength;
  if (maxLength !== undefined) field.maxLength = maxLength;
  if (text(schema["pattern"])) field.pattern = text(schema["pattern"]);
  return field;
}

/** Follow references and look through `X | None`. */
function simplify(raw: Schema, root: Schema): { schema: Schema; nullable: boolean } {
  let schema = raw;
  let nullable = false;
  for (let depth = 0; depth < 8; depth += 1) {
    const ref = schema["$ref"];
    const options = schema["anyOf"] ?? schema["oneOf"];
    const all = schema["allOf"];
    if (typeof ref === "string") {
      const found = lookUp(ref, root);
      if (!found) break;
      schema = found;
    } else if (Array.isArray(options)) {
      const rest = options.filter(isObject).filter((option) => option["type"] !== "null");
      nullable ||= rest.length < options.length;
      if (rest.length !== 1) break;
      schema = rest[0] as Schema;
    } else if (Array.isArray(all) && all.length === 1 && isObject(all[0])) {
      schema = all[0];
    } else if (Array.isArray(schema["type"])) {
      const types = schema["type"].filter((type) => type !== "null");
      nullable ||= types.length < schema["type"].length;
      if (types.length !== 1) break;
      schema = { ...schema, type: types[0] };
    } else break;
  }
  return { schema, nullable };
}

function lookUp(ref: string, root: Schema): Schema | undefined {
  if (!ref.startsWith("#/")) return undefined;
  let place: Json | undefined = root as Json;
  for (const step of ref.slice(2).split("/")) {
    if (!isObject(place) || !Object.hasOwn(place, step)) return undefined;
    place = place[step];
  }
  return isObject(place) ? place : undefined;
}

function kindOf(schema: Schema): Field["kind"] {
  if (Array.isArray(schema["enum"]) || schema["const"] !== undefined) return "choice";
  switch (schema["type"]) {
    case "string":
      return (number(schema["maxLength"]) ?? 0) > 200 ? "lines" : "text";
    case "integer":
    case "number":
    case "boolean":
      return schema["type"];
    default:
      return "json";
  }
}

function choicesOf(schema: Schema): Json[] {
  if (Array.isArray(schema["enum"])) return schema["enum"];
  return schema["const"] === undefined ? [] : [schema["const"]];
}

/** The nearest integer inside an exclusive bound; for other numbers the agent decides. */
function above(bound: Json | undefined, kind: string, step: number): number | undefined {
  const value = number(bound);
  return value === undefined || kind !== "integer" ? undefined : value + step;
}

/** What a field shows for a value. */
export function show(field: Field, value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (field.kind === "json") return JSON.stringify(value, null, 1);
  if (field.kind === "choice") return String(field.choices.findIndex((choice) => same(choice, value)));
  return String(value);
}

/** What was typed (a text, or a boolean from a checkbox) as arguments, or why not, by field. */
export function parse(fields: Field[], typed: Map<string, string | boolean>): Parsed {
  // No prototype: a field may be called `constructor`.
  const parsed: Parsed = { args: Object.create(null) as Parsed["args"], errors: Object.create(null) as Parsed["errors"] };
  for (const field of fields) {
    const value = typed.get(field.name);
    const error = take(field, value, parsed.args);
    if (error) parsed.errors[field.name] = error;
  }
  return parsed;
}

function take(field: Field, value: string | boolean | undefined, args: Parsed["args"]): string {
  if (typeof value === "boolean") {
    args[field.name] = value;
    return "";
  }
  if (value === undefined || value === "") {
    if (field.kind === "text" || field.kind === "lines") {
      // An empty text is a text, where there is no other way to leave the field out.
      if (field.required && !field.nullable) args[field.name] = "";
      else if (field.nullable && field.required) args[field.name] = null;
      else if (field.initial !== undefined && field.initial !== null && field.initial !== "") {
        args[field.name] = field.nullable ? null : "";
      }
      return "";
    }
    if (field.nullable) {
      if (field.required || (field.initial !== undefined && field.initial !== null)) args[field.name] = null;
      return "";
    }
    return field.required ? "is required" : "";
  }
  switch (field.kind) {
    case "integer":
    case "number": {
      const parsed = Number(value);
      if (!Number.isFinite(parsed)) return "is no number";
      if (field.kind === "integer" && !Number.isInteger(parsed)) return "must be a whole number";
      if (field.min !== undefined && parsed < field.min) return `must be at least ${field.min}`;
      if (field.max !== undefined && parsed > field.max) return `must be at most ${field.max}`;
      args[field.name] = parsed;
      return "";
    }
    case "choice": {
      const choice = field.choices[Number(value)];
      if (choice === undefined) return "is required";
      args[field.name] = choice;
      return "";
    }
    case "json":
      try {
        args[field.name] = JSON.parse(value) as Json;
        return "";
      } catch (error) {
        return `is no JSON: ${error instanceof Error ? error.message : String(error)}`;
      }
    default:
      args[field.name] = value;
      return "";
  }
}

/** Whose fault an `invalid_args` is: the agent names the field, in `details` or in the message. */
export function blame(fields: Field[], message: string, details: Json | undefined): { [name: string]: string } {
  const told = isObject(details) && isObject(details["fields"]) ? details["fields"] : {};
  const blamed = Object.create(null) as { [name: string]: string };
  for (const [place, reason] of Object.entries(told)) {
    const name = place.split(".")[0] ?? "";
    const field = fields.find((candidate) => candidate.name === name);
    if (field && typeof reason === "string") blamed[name] = place === name ? reason : `${place}: ${reason}`;
  }
  if (Object.keys(blamed).length === 0) {
    const field = fields.find((candidate) => new RegExp(`(^|\\W)${escape(candidate.name)}(\\W|$)`).test(message));
    if (field) blamed[field.name] = message;
  }
  return blamed;
}

/** `set_title` → `set title`: what a button says when the author gave no title. */
export function labelOf(spec: CommandSpec): string {
  return spec.title || spec.name.replaceAll(/[_-]+/g, " ");
}

export function isObject(value: unknown): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function same(a: Json, b: Json): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function number(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function escape(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
