package experiment

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Schema returns the JSON schema of an experiment, for editors.
func Schema() []byte {
	s := objectSchema(fileKeys())
	s["$schema"] = "http://json-schema.org/draft-07/schema#" // the version that editors know best
	s["title"] = "tare experiment"
	s["definitions"] = schema{"factors": factorsSchema(), "level": levelSchema(), "cell": cellSchema()}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("experiment schema: %v", err)) // it is made of strings and numbers
	}
	return append(data, '\n')
}

// defined refers to one of the schema's definitions. Beside a bare $ref, a
// description would be ignored.
func defined(name string) schema {
	return schema{"allOf": []any{schema{"$ref": "#/definitions/" + name}}}
}

// factorsSchema knows the plain levels of the factors that every workload
// has; those of its options, and of factors of the user's own, may be anything.
func factorsSchema() schema {
	properties := schema{}
	for _, k := range cellKeys() {
		if k.factor {
			properties[k.name] = levelsSchema(k.doc, k.schema)
		}
	}
	word := schema{"type": []string{"string", "number", "boolean"}}
	words := schema{"type": "array", "items": word, "minItems": 1}
	return schema{
		"type": "object", "minProperties": 1, "properties": properties,
		"additionalProperties": levelsSchema("An option of the workload, or a factor of your own with named levels.",
			word, words),
	}
}

// levelsSchema is a list of plain and named levels, or a single word.
func levelsSchema(doc string, plain ...schema) schema {
	level, alone := []any{defined("level")}, []any{}
	for _, p := range plain {
		level = append(level, p)
		if p["type"] != "array" { // a list is a list of levels
			alone = append(alone, p)
		}
	}
	many := schema{"type": "array", "minItems": 1, "maxItems": maxLevels, "items": schema{"anyOf": level}}
	return schema{"description": doc, "anyOf": append(alone, many)}
}

// levelSchema is a named level.
func levelSchema() schema {
	s := objectSchema(plainKeys(cellKeys()))
	s["required"] = []string{"name"}
	s["properties"].(schema)["name"] = schema{"type": "string"}
	return s
}

// cellSchema is a cell. Beside the keys of spec it may name options of the
// workload and levels of any factor, and the value of a known key may be the
// name of a level: so names are offered, and nothing is refused.
func cellSchema() schema {
	properties := schema{"name": schema{"type": "string"}}
	for _, k := range cellKeys() {
		properties[k.name] = schema{"description": k.doc}
	}
	return schema{"type": "object", "required": []string{"name"}, "properties": properties}
}

// Reference returns the tables of keys in docs/experiment.md.
func Reference() []byte {
	var b strings.Builder
	writeTable(&b, "An experiment", fileKeys())
	writeTable(&b, "What a cell is given", plainKeys(cellKeys()))
	return []byte(b.String())
}

func writeTable[T any](b *strings.Builder, title string, keys []key[T]) {
	fmt.Fprintf(b, "### %s\n\n| key | value | meaning | example |\n| --- | --- | --- | --- |\n", title)
	for _, k := range keys {
		doc := k.doc
		if k.required {
			doc = "**Required.** " + doc
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | `%s` |\n", k.name, cellText(k.want), cellText(doc), cellText(k.example))
	}
	b.WriteByte('\n')
}

// cellText keeps a text from ending a cell of a Markdown table.
func cellText(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
