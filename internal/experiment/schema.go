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
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("experiment schema: %v", err)) // it is made of strings and numbers
	}
	return append(data, '\n')
}

// factorsSchema knows the plain levels of the factors that every workload
// has; those of its options, and of factors of the user's own, may be anything.
func factorsSchema() schema {
	properties := schema{}
	for _, k := range cellKeys() {
		if k.factor {
			properties[k.name] = levelsSchema(k.schema, k.doc)
		}
	}
	word := schema{"type": []string{"string", "number", "boolean", "array"}}
	return schema{
		"type": "object", "minProperties": 1, "properties": properties,
		"additionalProperties": levelsSchema(word, "An option of the workload, or a factor of your own with named levels."),
	}
}

// levelsSchema is a plain level, or a list of plain and named ones.
func levelsSchema(plain schema, doc string) schema {
	either := schema{"anyOf": []any{plain, namedSchema(false)}}
	many := schema{"type": "array", "minItems": 1, "maxItems": maxLevels, "items": either}
	return schema{"description": doc, "anyOf": []any{plain, many}}
}

// cellSchema is a cell. Options of the workload and levels may be written
// beside the keys of spec, so that any key is allowed; the value of a known
// key may be the name of a level, so that none is checked.
func cellSchema() schema { return namedSchema(true) }

// namedSchema is a mapping with a name and the keys of a cell.
func namedSchema(open bool) schema {
	properties := schema{"name": schema{"type": "string"}}
	for _, k := range cellKeys() {
		p := schema{"description": k.doc}
		if !open {
			for name, v := range k.schema {
				p[name] = v
			}
		}
		properties[k.name] = p
	}
	return schema{"type": "object", "required": []string{"name"}, "properties": properties, "additionalProperties": open}
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
