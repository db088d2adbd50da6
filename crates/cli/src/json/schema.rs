//! Generates the published schemas of JSON from its types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::line::JsonLine;

/// A published schema: named definitions, and the parts that they use.
pub(crate) struct PublishedSchema {
    generator: SchemaGenerator,
    named: Map<String, Value>,
    /// Definitions of JSON that the program reads.
    read: Map<String, Value>,
}

impl PublishedSchema {
    pub(crate) fn new() -> Self {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        Self { generator, named: Map::new(), read: Map::new() }
    }

    /// Adds a line of a command.
    pub(crate) fn add<L: JsonLine + JsonSchema>(&mut self, command: &str) {
        match L::TYPE {
            Some(word) => {
                let schema = L::json_schema(&mut self.generator).to_value();
                self.insert(command, word, schema);
            }
            None => self.add_variants::<L>(command, |_| true),
        }
    }

    /// Adds the lines of a command with these types, which are some of an enum.
    pub(crate) fn add_some<L: JsonLine + JsonSchema>(&mut self, command: &str, words: &[&str]) {
        self.add_variants::<L>(command, |word| words.contains(&word));
    }

    fn add_variants<L: JsonSchema>(&mut self, command: &str, is_printed: impl Fn(&str) -> bool) {
        let mut schema = L::json_schema(&mut self.generator).to_value();
        for variant in schema["oneOf"].take().as_array().expect("a tagged enum") {
            let word = variant["properties"]["type"]["const"].as_str().expect("its tag");
            if is_printed(word) {
                self.insert(command, word, self.complete(variant.clone()));
            }
        }
    }

    /// Adds the members of a variant's definition.
    fn complete(&self, mut variant: Value) -> Value {
        let target = variant.as_object_mut().and_then(|members| members.remove("$ref"));
        let name =
            target.as_ref().and_then(Value::as_str).and_then(|it| it.strip_prefix("#/$defs/"));
        let Some(Value::Object(part)) = name.map(|name| self.generator.definitions()[name].clone())
        else {
            return variant;
        };
        let properties = variant["properties"].as_object_mut().expect("the tag");
        properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
        let required = variant["required"].as_array_mut().expect("the tag");
        required.extend(part["required"].as_array().cloned().unwrap_or_default());
        variant
    }

    fn insert(&mut self, command: &str, word: &str, mut schema: Value) {
        let properties = schema["properties"].as_object_mut().expect("a line is an object");
        properties.insert("type".to_owned(), json!({ "const": word }));
        let mut required: Vec<Value> = vec![json!("type")];
        let others = schema["required"].as_array().into_iter().flatten();
        required.extend(others.filter(|name| **name != "type").cloned());
        schema["required"] = Value::Array(required);
        distribute(&mut schema);
        let name =
            if word == "error" { "any.error".to_owned() } else { format!("{command}.{word}") };
        assert!(self.named.insert(name.clone(), schema).is_none(), "{name} is listed twice");
    }

    /// Adds a definition with that name.
    pub(crate) fn define<T: JsonSchema>(&mut self, name: &str) {
        let schema = T::json_schema(&mut self.generator).to_value();
        self.named.insert(name.to_owned(), schema);
    }

    /// Adds definitions under the names that `name` gives them.
    pub(crate) fn define_all(
        &mut self,
        schemas: impl Fn(&mut SchemaGenerator) -> Vec<(&'static str, Schema)>,
        name: impl Fn(&str) -> String,
    ) {
        for (kind, schema) in schemas(&mut self.generator) {
            self.named.insert(name(kind), schema.to_value());
        }
    }

    /// Adds a definition of JSON that the program reads, with that name.
    pub(crate) fn define_input<T: JsonSchema>(&mut self, name: &str) {
        let settings = SchemaSettings::draft2020_12().for_deserialize();
        let mut generator =
            settings.with(|settings| settings.inline_subschemas = true).into_generator();
        self.read.insert(name.to_owned(), T::json_schema(&mut generator).to_value());
    }

    fn definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.generator.take_definitions(true);
        definitions.extend(self.named);
        definitions.values_mut().for_each(open);
        definitions.extend(self.read);
        definitions
    }

    /// The schema of a document that matches one of the definitions with these names.
    pub(crate) fn finish(self, names: &[&str], title: &str, description: &str) -> Value {
        let mut definitions = self.definitions();
        document(names.iter().copied(), title, description, &mut definitions)
    }

    pub(crate) fn finish_lines(self, title: &str, description: &str) -> Value {
        let mut definitions = self.definitions();
        let lines: Vec<String> =
            definitions.keys().filter(|name| name.contains('.')).cloned().collect();
        document(lines.iter().map(String::as_str), title, description, &mut definitions)
    }
}

/// A schema of documents that match one of the definitions with these names.
fn document<'a>(
    names: impl Iterator<Item = &'a str>,
    title: &str,
    description: &str,
    definitions: &mut Map<String, Value>,
) -> Value {
    let names: Vec<Value> =
        names.map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title, "description": description, "anyOf": names,
        "$defs": std::mem::take(definitions),
    })
}

/// Moves the members of an object with variants into each variant, so that each is complete.
fn distribute(schema: &mut Value) {
    let Some(object) = schema.as_object_mut().filter(|object| object.contains_key("oneOf")) else {
        return;
    };
    let shared = object.remove("properties").unwrap_or_default();
    let required = object.remove("required").unwrap_or_default();
    object.remove("type");
    for variant in object["oneOf"].as_array_mut().expect("variants") {
        let properties = variant["properties"].as_object_mut().expect("a variant is an object");
        properties.extend(shared.as_object().cloned().unwrap_or_default());
        let names = variant["required"].as_array_mut().expect("required members");
        names.extend(required.as_array().cloned().unwrap_or_default());
    }
}

/// Readers ignore unknown members, so no object is closed. The keys of a map may be any text.
fn open(part: &mut Value) {
    match part {
        Value::Object(members) => {
            members.values_mut().for_each(open);
            if members.get("additionalProperties") == Some(&json!(false)) {
                members.remove("additionalProperties");
            }
            if let Some(Value::Object(patterns)) = members.remove("patternProperties")
                && let Some(value) = patterns.into_iter().next()
            {
                members.insert("additionalProperties".to_owned(), value.1);
            }
            for name in ["format", "title"] {
                if members.get(name).is_some_and(Value::is_string) {
                    members.remove(name);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(open),
        _ => {}
    }
}
