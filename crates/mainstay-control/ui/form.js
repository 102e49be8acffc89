// A form made from a JSON schema. What a form cannot express is a field for JSON.

import { element } from "./dom.js";
import { plain } from "./format.js";

const MAX_FIELDS = 100;

/** A form for an object; `read()` gives the arguments, or throws an error that names the field. */
export function schemaForm(schema) {
  const properties = Object.entries(schema?.properties ?? {}).slice(0, MAX_FIELDS);
  const required = new Set(Array.isArray(schema?.required) ? schema.required : []);
  const fields = properties.map(([name, property]) => field(name, property ?? {}, required.has(name)));
  const isWhole = properties.length > 0 || schema?.additionalProperties === false || !schema?.additionalProperties;
  const rest = isWhole ? null : jsonField("more arguments, as JSON", {}, false);
  const root = element("div", { class: "fields" }, fields.map((one) => one.root), rest?.root);
  return {
    root,
    read() {
      const read = {};
      for (const one of fields) {
        const value = one.read();
        if (value !== undefined) read[one.name] = value;
      }
      return Object.assign(read, rest?.read());
    },
  };
}

function field(name, property, isRequired) {
  const type = Array.isArray(property.type) ? property.type.find((one) => one !== "null") : property.type;
  if (Array.isArray(property.enum)) return choice(name, property, isRequired);
  if (type === "boolean") return choice(name, { ...property, enum: [true, false] }, isRequired);
  if (type === "integer" || type === "number") return numberField(name, property, type, isRequired);
  if (type === "string") return textField(name, property, isRequired);
  return jsonField(name, property, isRequired);
}

function labelled(name, property, isRequired, input) {
  const description = typeof property.description === "string" ? plain(property.description, 500) : null;
  return element("label", {},
    element("span", { class: "name" }, plain(name, 100), isRequired && element("span", { class: "muted" }, " required")),
    input,
    description && element("span", { class: "muted" }, description));
}

function textField(name, property, isRequired) {
  const long = (property.maxLength ?? 0) > 200;
  const input = element(long ? "textarea" : "input", { ...(long ? {} : { type: "text" }), spellcheck: "false", autocomplete: "off" });
  if (typeof property.default === "string") input.value = property.default;
  return {
    name,
    root: labelled(name, property, isRequired, input),
    read: () => (input.value === "" && !isRequired ? undefined : input.value),
  };
}

function numberField(name, property, type, isRequired) {
  const input = element("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
  if (typeof property.default === "number") input.value = String(property.default);
  return {
    name,
    root: labelled(name, property, isRequired, input),
    read() {
      const text = input.value.trim();
      if (text === "" && !isRequired) return undefined;
      const number = Number(text);
      if (text === "" || !Number.isFinite(number)) throw new Error(`${plain(name, 100)} must be a number`);
      if (type === "integer" && !Number.isInteger(number)) throw new Error(`${plain(name, 100)} must be a whole number`);
      return number;
    },
  };
}

function choice(name, property, isRequired) {
  const values = property.enum.slice(0, 500);
  const select = element("select", {},
    !isRequired && element("option", { value: "" }, "–"),
    values.map((value, index) => element("option", { value: String(index), selected: value === property.default && property.default !== undefined }, plain(String(value), 200))));
  return {
    name,
    root: labelled(name, property, isRequired, select),
    read: () => (select.value === "" ? undefined : values[Number(select.value)]),
  };
}

function jsonField(name, property, isRequired) {
  const input = element("textarea", { spellcheck: "false", rows: "3", placeholder: "JSON" });
  if (property.default !== undefined) input.value = JSON.stringify(property.default);
  return {
    name,
    root: labelled(name, property, isRequired, input),
    read() {
      if (input.value.trim() === "" && !isRequired) return undefined;
      try {
        return JSON.parse(input.value);
      } catch {
        throw new Error(`${plain(name, 100)} must be JSON`);
      }
    },
  };
}
