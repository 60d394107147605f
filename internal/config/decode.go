package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

var (
	durationType    = reflect.TypeFor[time.Duration]()
	urlType         = reflect.TypeFor[promconfig.URL]()
	tlsVersionType  = reflect.TypeFor[promconfig.TLSVersion]()
	secretType      = reflect.TypeFor[promconfig.Secret]()
	secretsType     = reflect.TypeFor[[]promconfig.Secret]()
	proxyHeaderType = reflect.TypeFor[promconfig.ProxyHeader]()
)

// problem is something wrong at a line of the file.
type problem struct {
	line int
	path string
	text string
}

// decoder fills structs from YAML nodes. The yaml package could do that too, but then an unknown field would be found
// only when decoding a whole document, promconfig's own checks would come without a line, and every section of
// promconfig's types would reset what it inherits from `defaults`.
type decoder struct {
	lines    map[string]int // by path, of every value decoded
	problems []problem
}

func (d *decoder) addf(node *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, problem{line: node.Line, path: path, text: fmt.Sprintf(format, args...)})
}

// check refuses what decode does not handle: anchors' aliases, merge keys, keys that are not scalars or come twice.
func (d *decoder) check(node *yaml.Node, path string) {
	switch node.Kind {
	case yaml.AliasNode:
		d.addf(node, path, "YAML aliases are not supported, use the section defaults for what clusters have in common")
	case yaml.MappingNode:
		seen := map[string]int{}
		for i := 0; i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			switch line, twice := seen[key.Value]; {
			case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" || key.ShortTag() == "!!null":
				d.addf(key, path, "want a name before the colon")
				continue
			case twice:
				d.addf(key, join(path, key.Value), "already given at line %d", line)
			}
			seen[key.Value] = key.Line
			d.check(value, join(path, key.Value))
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			d.check(item, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// decode sets v to what node says. Values that node does not mention keep what they have: structs field by field,
// maps key by key; lists are replaced.
func (d *decoder) decode(node *yaml.Node, v reflect.Value, path string) {
	d.lines[path] = node.Line
	if node.ShortTag() == "!!null" {
		return
	}
	switch v.Type() {
	case durationType, urlType, tlsVersionType:
		d.decodeText(node, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.decode(node, v.Elem(), path)
	case reflect.Struct:
		d.decodeStruct(node, v, path)
	case reflect.Map:
		if !d.is(node, yaml.MappingNode, path, "names and values") {
			return
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for i := 0; i < len(node.Content); i += 2 {
			d.decodeEntry(node.Content[i].Value, node.Content[i+1], v, path)
		}
	case reflect.Slice:
		if !d.is(node, yaml.SequenceNode, path, "a list") {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content)))
		for i, item := range node.Content {
			d.decode(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Interface:
		if err := node.Decode(v.Addr().Interface()); err != nil {
			d.addf(node, path, "%v", err)
		}
	default:
		d.decodeText(node, v, path)
	}
}

// is says whether node is of the kind wanted, and complains if it is not.
func (d *decoder) is(node *yaml.Node, kind yaml.Kind, path, want string) bool {
	if node.Kind != kind {
		d.addf(node, path, "want %s", want)
	}
	return node.Kind == kind
}

func (d *decoder) decodeStruct(node *yaml.Node, v reflect.Value, path string) {
	if !d.is(node, yaml.MappingNode, path, "a section with fields "+strings.Join(fieldNames(v), ", ")) {
		return
	}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, inlined := findField(v, key.Value)
		switch {
		case inlined.IsValid():
			if inlined.IsNil() {
				inlined.Set(reflect.MakeMap(inlined.Type()))
			}
			d.decodeEntry(key.Value, value, inlined, path)
		case !field.IsValid():
			d.addf(key, join(path, key.Value), "unknown field, known are %s", strings.Join(fieldNames(v), ", "))
		case isSecret(key.Value, field.Type()):
			d.addf(key, join(path, key.Value), "%s", insteadOf(key.Value))
		default:
			d.decode(value, field, join(path, key.Value))
		}
	}
}

func (d *decoder) decodeEntry(key string, node *yaml.Node, m reflect.Value, path string) {
	k := reflect.ValueOf(key)
	value := reflect.New(m.Type().Elem()).Elem()
	if old := m.MapIndex(k); old.IsValid() {
		value.Set(old)
	}
	d.decode(node, value, join(path, key))
	m.SetMapIndex(k, value)
}

// decodeText decodes what is written as one word or number.
func (d *decoder) decodeText(node *yaml.Node, v reflect.Value, path string) {
	if !d.is(node, yaml.ScalarNode, path, "a single value") {
		return
	}
	switch {
	case v.Type() == durationType:
		duration, err := model.ParseDuration(node.Value)
		if err != nil {
			d.addf(node, path, "want a duration such as 30s or 5m, not %q", node.Value)
		}
		v.SetInt(int64(duration))
	case v.Type() == urlType:
		u, err := url.Parse(node.Value)
		if err != nil {
			d.addf(node, path, "not a valid URL") // err may quote a password
			return
		}
		v.Set(reflect.ValueOf(promconfig.URL{URL: u}))
	case v.Type() == tlsVersionType:
		version, ok := promconfig.TLSVersions[node.Value]
		if !ok {
			d.addf(node, path, "want TLS10, TLS11, TLS12 or TLS13, not %q", node.Value)
		}
		v.SetUint(uint64(version))
	case v.Kind() == reflect.String:
		v.SetString(node.Value)
	case v.Kind() == reflect.Int:
		n, err := strconv.Atoi(node.Value)
		if err != nil {
			d.addf(node, path, "want a whole number, not %q", node.Value)
		}
		v.SetInt(int64(n))
	case v.Kind() == reflect.Bool:
		if node.Value != "true" && node.Value != "false" {
			d.addf(node, path, "want true or false, not %q", node.Value)
		}
		v.SetBool(node.Value == "true")
	default:
		panic(fmt.Sprintf("no way to decode a %s at %s", v.Type(), path))
	}
}

// findField returns the field of struct v with this YAML name; or, if there is none, a map that takes all other names.
func findField(v reflect.Value, name string) (field, inlined reflect.Value) {
	for i := range v.NumField() {
		yamlName, inline := yamlTag(v.Type().Field(i))
		switch {
		case inline && v.Field(i).Kind() == reflect.Map:
			inlined = v.Field(i)
		case inline:
			if field, _ := findField(v.Field(i), name); field.IsValid() {
				return field, reflect.Value{}
			}
		case yamlName == name && name != "":
			return v.Field(i), reflect.Value{}
		}
	}
	return reflect.Value{}, inlined
}

// fieldNames returns the YAML names a struct takes, sorted, without those that are always refused.
func fieldNames(v reflect.Value) []string {
	var names []string
	for i := range v.NumField() {
		name, inline := yamlTag(v.Type().Field(i))
		switch {
		case inline && v.Field(i).Kind() == reflect.Struct:
			names = append(names, fieldNames(v.Field(i))...)
		case name != "" && !isSecret(name, v.Field(i).Type()):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func yamlTag(f reflect.StructField) (name string, inline bool) {
	name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" {
		name = ""
	}
	return name, options == "inline"
}

// isSecret says whether a field holds a secret itself, or the name of one in a secret manager, which there is none of.
func isSecret(name string, t reflect.Type) bool {
	return t == secretType || t == secretsType || t == proxyHeaderType || strings.HasSuffix(name, "_ref")
}

// insteadOf says what to use instead of a field that holds a secret.
func insteadOf(name string) string {
	switch {
	case name == "bearer_token":
		name = "authorization.credentials_file"
	case name == "secrets":
		name = "files"
	case name == "proxy_connect_header":
		return "not supported, because it may hold secrets"
	case strings.HasSuffix(name, "_ref"):
		return fmt.Sprintf("there is no secret manager here, use %s_file", strings.TrimSuffix(name, "_ref"))
	default:
		name += "_file"
	}
	return fmt.Sprintf("secrets do not belong in this file, put it into a file of its own and use %s", name)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
