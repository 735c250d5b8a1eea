package cli

import (
	"encoding"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/spillway-io/spillway/internal/errkind"
)

// checkNesting looks before the parser does. Block levels that take a line each are bounded by the size of the file.
func (s source) checkNesting(tokens token.Tokens) error {
	flow, block, line := 0, 0, 0 // open brackets, and dashes and question marks on this line
	for _, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType, token.MappingKeyType:
			if tk.Position.Line != line {
				block, line = 0, tk.Position.Line
			}
			block++
		}
		if flow > maxNesting || block > maxNesting {
			return s.fault(tk, "", "nested deeper than %d levels", maxNesting)
		}
	}
	return nil
}

// check walks the document beside the type it is for. The decoder would catch the same mistakes, but it gives
// no position for texts that a type refuses, and cannot say which keys were possible.
func (s source) check(n ast.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		return s.fault(n.GetToken(), "write the value out", "anchors and aliases are not allowed in a configuration")
	case *ast.TagNode:
		return s.fault(n.GetToken(), "leave the tag out", "tags are not allowed in a configuration")
	case *ast.NullNode:
		return nil
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return s.checkDuration(n)
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		if _, ok := n.(ast.ScalarNode); !ok {
			return s.fault(n.GetToken(), "", "one value is needed here, found %s", nodeWord(n))
		}
		v := reflect.New(t).Interface().(encoding.TextUnmarshaler)
		if err := v.UnmarshalText([]byte(n.GetToken().Value)); err != nil {
			return s.fault(n.GetToken(), errkind.HintOf(err), "%w", err)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.checkStruct(n, t)
	case reflect.Map:
		return s.eachValue(n, func(_ *ast.MappingValueNode, v ast.Node) error { return s.check(v, t.Elem()) })
	case reflect.Slice:
		if seq, ok := n.(*ast.SequenceNode); ok {
			for _, v := range seq.Values {
				if err := s.check(v, t.Elem()); err != nil {
					return err
				}
			}
			return nil
		}
		return s.fault(n.GetToken(), `write it as a list, for example ["/kubepods.slice"]`, "a list is needed here, found %s", nodeWord(n))
	}
	return s.checkScalar(n, t)
}

// checkScalar is stricter than the decoder, which takes 1.5 for a whole number and cuts it.
func (s source) checkScalar(n ast.Node, t reflect.Type) error {
	ok := true
	switch k := t.Kind(); {
	case k == reflect.Bool:
		ok = n.Type() == ast.BoolType
	case k >= reflect.Int && k <= reflect.Uint64:
		ok = n.Type() == ast.IntegerType
	case k == reflect.Float32 || k == reflect.Float64:
		ok = n.Type() == ast.IntegerType || n.Type() == ast.FloatType
	case k == reflect.String:
		ok = n.Type() == ast.StringType || n.Type() == ast.LiteralType
	}
	if ok {
		return nil
	}
	hint := ""
	switch k := t.Kind(); {
	case k == reflect.Bool:
		hint = "write true or false"
	case k == reflect.String:
		if _, scalar := n.(ast.ScalarNode); scalar {
			hint = "put it in quotes"
		}
	case k == reflect.Float32 || k == reflect.Float64:
		hint = "write digits such as 0.15, without quotes, unit or exponent"
	case k >= reflect.Int && k <= reflect.Uint64:
		hint = "write digits such as 10, without quotes, unit or exponent"
	}
	return s.fault(n.GetToken(), hint, "%s is needed here, found %s", kindWord(t), nodeWord(n))
}

// checkZero refuses a number, size or duration of zero where zero is what a missing key leaves: it would silently mean
// the default. Where zero means something the field is a pointer.
func (s source) checkZero(n ast.Node, t reflect.Type) error {
	if k := t.Kind(); k < reflect.Int || k > reflect.Float64 || n.Type() == ast.NullType {
		return nil
	}
	v := reflect.New(t)
	if err := yaml.NodeToValue(n, v.Interface()); err != nil || !v.Elem().IsZero() {
		return nil // a value that cannot be read is the decoder's to refuse
	}
	return s.fault(n.GetToken(), "write more than zero, or leave the key out for its default", "zero is not possible here")
}

func (s source) checkDuration(n ast.Node) error {
	const hint = "write a number with its unit: 500ms, 6s, 10m or 1h"
	str, ok := n.(*ast.StringNode)
	if !ok {
		return s.fault(n.GetToken(), hint, "a duration is needed here, found %s", nodeWord(n))
	}
	if _, err := time.ParseDuration(str.Value); err != nil {
		return s.fault(n.GetToken(), hint, "%q is not a duration", str.Value)
	}
	return nil
}

func (s source) checkStruct(n ast.Node, t reflect.Type) error {
	known := map[string]reflect.Type{}
	fields(t, known)
	return s.eachValue(n, func(kv *ast.MappingValueNode, v ast.Node) error {
		key := kv.Key.GetToken().Value
		ft, ok := known[key]
		if !ok {
			return s.fault(kv.Key.GetToken(), suggest(key, known), "unknown key %q", key)
		}
		if err := s.check(v, ft); err != nil {
			return err
		}
		return s.checkZero(v, ft)
	})
}

func (s source) eachValue(n ast.Node, f func(*ast.MappingValueNode, ast.Node) error) error {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		return s.fault(n.GetToken(), "", "keys with values are needed here, found %s", nodeWord(n))
	}
	for _, kv := range values {
		if kv.Key.IsMergeKey() {
			return s.fault(kv.Key.GetToken(), "write the keys out", "merge keys are not allowed in a configuration")
		}
		if err := f(kv, kv.Value); err != nil {
			return err
		}
	}
	return nil
}

// fields collects the keys of a struct, those of inlined structs included.
func fields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case strings.Contains(opts, "inline"):
			fields(f.Type, into)
		case name == "":
			into[strings.ToLower(f.Name)] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

func nodeWord(n ast.Node) string {
	switch n.Type() {
	case ast.IntegerType, ast.FloatType:
		return "a bare number"
	case ast.InfinityType, ast.NanType:
		return "infinity or no number"
	case ast.BoolType:
		return "true or false"
	case ast.MappingType, ast.MappingValueType:
		return "keys with values"
	case ast.SequenceType:
		return "a list"
	case ast.StringType, ast.LiteralType:
		return "text"
	}
	return strings.ToLower(n.Type().YAMLName())
}

func kindWord(t reflect.Type) string {
	if t == nil {
		return "another type of value"
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return "true or false"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "a whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number"
	case k == reflect.String:
		return "text"
	case k == reflect.Slice:
		return "a list"
	}
	return "another type of value"
}
